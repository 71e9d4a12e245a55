// docs/operators.md is made from the operator table and those of the CPU provider: QUERN_WRITE_DOCS=1 writes it, else
// the test compares.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ops/common/any_types.h"
#include "ops/op.h"
#include "provider/cpu/cpu_op.h"
#include "provider/cpu/sized/sized_provider.h"

namespace quern {
namespace {

struct TypeGroup {
  const char* name;
  TypeSet types;
};
const TypeGroup kGroups[] = {
    {"any", AnyTypes(25)},
    {"float", kFloatTypes},
    {"int", kSignedIntTypes},
    {"uint", kUnsignedIntTypes},
    {"float8", kFloat8Types},
    {"float6", kFloat6Types},
    {"complex", {DType::kC64, DType::kC128}},
    {"blocks", kBlockTypes},
};

std::vector<DType> Listed(TypeSet types) {
  std::vector<DType> list;
  for (int t = 1; t < 128; ++t) {
    if (types.Has(static_cast<DType>(t))) list.push_back(static_cast<DType>(t));
  }
  return list;
}

std::string TypesText(TypeSet types) {
  std::string text;
  TypeSet said;
  const auto add = [&](const char* name) { text += std::string(text.empty() ? "" : " ") + name; };
  for (const TypeGroup& g : kGroups) {
    const std::vector<DType> members = Listed(g.types);
    const bool all = std::all_of(members.begin(), members.end(), [&](DType t) { return types.Has(t); });
    const bool news = std::any_of(members.begin(), members.end(), [&](DType t) { return !said.Has(t); });
    if (!all || !news) continue;
    add(g.name);
    said = said | g.types;
  }
  for (const DType t : Listed(types)) {
    if (!said.Has(t)) add(DTypeName(t));
  }
  return text;
}

// By type variable, or the parameter's name where it has none; those of the same types together.
std::string Types(const OpVersion& version) {
  std::vector<std::pair<std::string, std::string>> sets;  // types -> names
  std::vector<std::string> named;
  const auto add = [&](const Param& p) {
    const std::string name = *p.type_var ? p.type_var : p.name;
    if (std::find(named.begin(), named.end(), name) != named.end()) return;
    named.push_back(name);
    std::string types = TypesText(p.types);
    if (p.kind != ValueKind::kTensor && p.kind != ValueKind::kNone) {
      types = ValueKindName(p.kind) + (types.empty() ? std::string() : " of " + types);
    }
    if (types.empty()) return;
    const auto same = std::find_if(sets.begin(), sets.end(), [&](const auto& s) { return s.first == types; });
    if (same == sets.end()) {
      sets.emplace_back(types, name);
    } else {
      same->second += ", " + name;
    }
  };
  for (const Param& p : version.inputs) add(p);
  for (const Param& p : version.outputs) add(p);
  std::string text;
  for (const auto& [types, names] : sets) text += (text.empty() ? "" : "; ") + names + ": " + types;
  return text;
}

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
  const OpVersion& newest = op.versions.back();
  const bool cpu = cpu::FindCpuOp(op.domain, op.name) || cpu::FindSizedOp(op.domain, op.name);
  return std::string("| ") + op.name + " | " + sets + " | " + Types(newest) + " | " + Attributes(newest) + " | " +
         (cpu ? "cpu" : "reference") + " | " + op.notes + " |\n";
}

std::string Page() {
  std::vector<const OpDefinition*> ops(AllOps().begin(), AllOps().end());
  std::sort(ops.begin(), ops.end(), [](const OpDefinition* a, const OpDefinition* b) {
    const int domains = std::strcmp(a->domain, b->domain);
    return domains != 0 ? domains < 0 : std::strcmp(a->name, b->name) < 0;
  });
  std::string page =
      "# Operators\n\n"
      "Made from the tables of `src/ops` and `src/provider/cpu`\n"
      "(`QUERN_WRITE_DOCS=1 build/release/src/provider/provider_test --gtest_filter='OperatorsPage.*'`).\n"
      "Each version is in force from its operator set until the next one's; types and attributes, with their defaults, "
      "are\nthose of the newest. The provider is the fastest that has the operator: the reference provider computes "
      "all "
      "of them,\n`quern inspect MODEL --stage partition` tells which nodes the CPU provider takes and why it leaves "
      "others.\n\nGroups of types:\n\n";
  for (const TypeGroup& g : kGroups) {
    page += std::string("- `") + g.name + "`:";
    for (const DType t : Listed(g.types)) page += std::string(" ") + DTypeName(t);
    page += "\n";
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i == 0 || std::strcmp(ops[i]->domain, ops[i - 1]->domain) != 0) {
      const std::string domain = ops[i]->domain;
      const auto count =
          std::count_if(ops.begin(), ops.end(), [&](const OpDefinition* op) { return op->domain == domain; });
      page += "\n## " + (domain.empty() ? "ai.onnx" : domain) + ": " + std::to_string(count) +
              " operators\n\n| operator | operator sets | types | attributes | provider | notes |\n"
              "|---|---|---|---|---|---|\n";
    }
    page += Row(*ops[i]);
  }
  return page;
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
