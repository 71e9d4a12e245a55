// ReduceL1: sum of absolute values over axes.
#include "ops/common/reduce.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateReduce<WideAcc>(
      c, ReduceTypeList{}, [](auto zero) { return zero; },
      [](auto sum, auto v) { return WrappingAdd(sum, v < 0 ? WrappingSub<decltype(v)>(0, v) : v); },
      [](auto sum, int64_t) { return sum; });
}

constexpr Param kInputs1[] = {{"data", "T", kOldMathTypes}};
constexpr Param kOutputs1[] = {{"reduced", "T", kOldMathTypes}};
constexpr AttrSpec kAttributes1[] = {{"axes", AttrType::kInts}, {"keepdims", AttrType::kInt, false, "1"}};
constexpr Param kInputs13[] = {{"data", "T", kMathTypes}};
constexpr Param kOutputs13[] = {{"reduced", "T", kMathTypes}};
constexpr Param kInputs18[] = {{"data", "T", kMathTypes}, {"axes", "", kI64Type, Arity::kOptional}};
constexpr AttrSpec kAttributes18[] = {{"keepdims", AttrType::kInt, false, "1"},
                                      {"noop_with_empty_axes", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, InferReduce, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes1, InferReduce, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes1, InferReduce, Evaluate},
                                   {18, kInputs18, kOutputs13, kAttributes18, InferReduce, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpReduceL1 = {"", "ReduceL1", kVersions};

}  // namespace quern
