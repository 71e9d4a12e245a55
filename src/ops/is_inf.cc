// IsInf: whether each element is infinite, of the signs that are asked for.
#include <cmath>

#include "ops/common/any_types.h"
#include "ops/common/float_predicate.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const bool negative = c.node().GetInt("detect_negative", 1) != 0;
  const bool positive = c.node().GetInt("detect_positive", 1) != 0;
  return EvaluateFloatPredicate(c, [=](auto x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

constexpr TypeSet kTypes10 = {DType::kF32, DType::kF64};
constexpr Param kInputs10[] = {{"X", "T1", kTypes10}};
constexpr Param kInputs20[] = {{"X", "T1", kFloatTypes | kFloat8Types}};
constexpr Param kOutputs[] = {{"Y", "T2", kBoolType}};
constexpr AttrSpec kAttributes[] = {{"detect_negative", AttrType::kInt, false, "1"},
                                    {"detect_positive", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs, kAttributes, InferFloatPredicate, Evaluate},
                                   {20, kInputs20, kOutputs, kAttributes, InferFloatPredicate, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpIsInf = {"", "IsInf", kVersions};

}  // namespace quern
