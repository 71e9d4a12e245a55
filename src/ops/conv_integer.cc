// ConvInteger: convolution of 8-bit integers with zero points, 32-bit sums.
#include "ops/common/convolution_integer.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferConv(c, {0, 1, -1}, DType::kI32); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(ConvSizes sizes, MakeConvSizes(c, c.input(0).shape(), c.input(1).shape(), outputs.shape(0)));
  QUERN_ASSIGN_OR_RETURN(Tensor y, outputs.Allocate(c, 0));
  const int64_t plane = sizes.window.out_size();
  int32_t* out = y.data<int32_t>();
  return ConvolveIntegers(c, {0, 2, 1, 3}, sizes, [&](int64_t n, int64_t m, const int64_t* sums) {
    for (int64_t i = 0; i < plane; ++i) out[(n * sizes.out_channels + m) * plane + i] = static_cast<int32_t>(sums[i]);
  });
}

constexpr Param kInputs[] = {{"x", "T1", kByteTypes},
                             {"w", "T2", kByteTypes},
                             {"x_zero_point", "T1", kByteTypes, Arity::kOptional},
                             {"w_zero_point", "T2", kByteTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"y", "T3", kI32Type}};
constexpr AttrSpec kAttributes[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"dilations", AttrType::kInts},
                                    {"group", AttrType::kInt, false, "1"},
                                    {"kernel_shape", AttrType::kInts},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{10, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpConvInteger = {"", "ConvInteger", kVersions};

}  // namespace quern
