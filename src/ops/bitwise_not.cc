// BitwiseNot: every bit of each integer inverted.
#include "ops/common/bitwise.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateUnary(c, IntegerTypeList{}, [](auto x) { return ~x; });
}

constexpr Param kInputs[] = {{"X", "T", kIntegerTypes}}, kOutputs[] = {{"Y", "T", kIntegerTypes}};
constexpr OpVersion kVersions[] = {{18, kInputs, kOutputs, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpBitwiseNot = {"", "BitwiseNot", kVersions};

}  // namespace quern
