// MatMulInteger: product of 8-bit matrices with zero points, 32-bit sums.
#include "ops/common/eval_infer.h"
#include "ops/common/matmul_integer.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferMatMul(c, 0, 1, DType::kI32); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  int32_t* out = y.data<int32_t>();
  return MultiplyIntegers(c, 0, 2, 1, 3, [&](int64_t i, int64_t, int64_t sum) { out[i] = static_cast<int32_t>(sum); });
}

constexpr Param kInputs[] = {{"A", "T1", kByteTypes},
                             {"B", "T2", kByteTypes},
                             {"a_zero_point", "T1", kByteTypes, Arity::kOptional},
                             {"b_zero_point", "T2", kByteTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T3", kI32Type}};
constexpr OpVersion kVersions[] = {{10, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMatMulInteger = {"", "MatMulInteger", kVersions};

}  // namespace quern
