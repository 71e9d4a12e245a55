// What every version of an operator takes and gives: written to the file that QUERN_WRITE_TYPES names, for a comparison
// with onnx's schemas.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "ops/op.h"

namespace quern {
namespace {

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

}  // namespace
}  // namespace quern
