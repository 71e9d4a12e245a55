// ReduceProd: product over axes.
#include "ops/common/reduce.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  return InferReduceWith(c, 1, [](const Dim& a, const Dim& b) { return a * b; });
}

Status Evaluate(EvalContext& c) {
  return EvaluateReduce<WideAcc>(
      c, ReduceTypeList{}, [](auto zero) { return static_cast<decltype(zero)>(1); },
      [](auto product, auto v) { return WrappingMul(product, v); }, [](auto sum, int64_t) { return sum; });
}

constexpr Param kInputs1[] = {{"data", "T", kOldMathTypes}};
constexpr Param kOutputs1[] = {{"reduced", "T", kOldMathTypes}};
constexpr AttrSpec kAttributes1[] = {{"axes", AttrType::kInts}, {"keepdims", AttrType::kInt, false, "1"}};
constexpr Param kInputs13[] = {{"data", "T", kMathTypes}};
constexpr Param kOutputs13[] = {{"reduced", "T", kMathTypes}};
constexpr Param kInputs18[] = {{"data", "T", kMathTypes}, {"axes", "", kI64Type, Arity::kOptional}};
constexpr AttrSpec kAttributes18[] = {{"keepdims", AttrType::kInt, false, "1"},
                                      {"noop_with_empty_axes", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, Infer, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes1, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes1, Infer, Evaluate},
                                   {18, kInputs18, kOutputs13, kAttributes18, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpReduceProd = {"", "ReduceProd", kVersions};

}  // namespace quern
