// docs/operators.md is made from the operator table: QUERN_WRITE_DOCS=1 writes it, else the test compares. What every
// version takes and gives is written to the file that QUERN_WRITE_TYPES names, for a comparison with onnx's schemas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ops/op.h"

namespace quern {
namespace {

std::string Attributes(const OpVersion& version) {
  std::string text;
  for (const AttrSpec& a : version.attributes) {
    text += std::string(text.empty() ? "" : ", ") + "`" + a.name + "`";
    if (a.required) text += " (required)";
    if (*a.default_text) text += std::string(" = ") + a.default_text;
  }
  return text;
}

std::string Row(const OpDefinition& op) {
  std::string sets;
  for (const OpVersion& v : op.versions) sets += (sets.empty() ? "" : ", ") + std::to_string(v.since);
  const std::string attributes = Attributes(op.versions.back());
  return std::string("| ") + op.name + " | " + sets + " | " + attributes + " | " + op.notes + " |\n";
}

std::string Page() {
  std::vector<const OpDefinition*> ops(AllOps().begin(), AllOps().end());
  std::sort(ops.begin(), ops.end(), [](const OpDefinition* a, const OpDefinition* b) {
    const int domains = std::strcmp(a->domain, b->domain);
    return domains != 0 ? domains < 0 : std::strcmp(a->name, b->name) < 0;
  });
  std::string page =
      "# Operators\n\n"
      "Made from the table of `src/ops` (`QUERN_WRITE_DOCS=1 build/release/src/ops/ops_test "
      "--gtest_filter='OperatorsPage.*'`).\n"
      "Each version is in force from its operator set until the next one's; attributes, with their defaults, are those "
      "of "
      "the\nnewest. The reference provider computes all of them; `quern inspect MODEL --stage partition` tells which "
      "nodes "
      "the CPU\nprovider takes.\n";
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i == 0 || std::strcmp(ops[i]->domain, ops[i - 1]->domain) != 0) {
      const std::string domain = ops[i]->domain;
      const auto count =
          std::count_if(ops.begin(), ops.end(), [&](const OpDefinition* op) { return op->domain == domain; });
      page += "\n## " + (domain.empty() ? "ai.onnx" : domain) + ": " + std::to_string(count) +
              " operators\n\n| operator | operator sets | attributes | notes |\n|---|---|---|---|\n";
    }
    page += Row(*ops[i]);
  }
  return page;
}

// "ai.onnx Cast 13 input input T1 single tensor f32,f64": "-" for a type of its own or a set without types.
std::string TypeLines(const OpDefinition& op, const OpVersion& version) {
  std::string lines;
  const auto add = [&](const char* direction, const Param& p) {
    std::string types;
    for (int t = 1; t < 128; ++t) {
      if (p.types.Has(static_cast<DType>(t))) {
        types += std::string(types.empty() ? "" : ",") + DTypeName(static_cast<DType>(t));
      }
    }
    const char* arity = p.arity == Arity::kSingle     ? "single"
                        : p.arity == Arity::kOptional ? "optional"
                        : p.homogeneous               ? "variadic"
                                                      : "heterogeneous";
    const std::string words[] = {*op.domain ? op.domain : "ai.onnx",
                                 op.name,
                                 std::to_string(version.since),
                                 direction,
                                 p.name,
                                 *p.type_var ? p.type_var : "-",
                                 arity,
                                 p.kind == ValueKind::kNone ? "any" : ValueKindName(p.kind),
                                 types.empty() ? "-" : types};
    for (const std::string& word : words) lines += word + (&word == std::end(words) - 1 ? "\n" : " ");
  };
  for (const Param& p : version.inputs) add("input", p);
  for (const Param& p : version.outputs) add("output", p);
  return lines;
}

TEST(OperatorTypes, AreSaidOfEveryOutput) {
  std::string text;
  for (const OpDefinition* op : AllOps()) {
    for (const OpVersion& version : op->versions) {
      EXPECT_FALSE(version.outputs.empty()) << op->name << " " << version.since;
      text += TypeLines(*op, version);
    }
  }
  if (const char* path = std::getenv("QUERN_WRITE_TYPES")) std::ofstream(path) << text;
}

TEST(OperatorsPage, IsUpToDate) {
  const std::string path = QUERN_TEST_DOCS "/operators.md";
  const std::string page = Page();
  if (std::getenv("QUERN_WRITE_DOCS")) std::ofstream(path) << page;
  std::ifstream file(path);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(there, page) << path << " is out of date: run this test with QUERN_WRITE_DOCS=1";
}

}  // namespace
}  // namespace quern
