// Not: the opposite of each bool.
#include "ops/common/any_types.h"
#include "ops/common/elementwise.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateUnary(c, Types<bool>{}, [](bool x) { return !x; });
}

constexpr Param kInputs[] = {{"X", "T", kBoolType}}, kOutputs[] = {{"Y", "T", kBoolType}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpNot = {"", "Not", kVersions};

}  // namespace quern
