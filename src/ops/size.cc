// Size: the number of elements of the input.
#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  c.SetOutputType(0, ValueType::Tensor(DType::kI64, Dims{}));
  if (const std::optional<Dims> shape = c.input_shape(0)) c.SetOutputData(0, Dims{Product(*shape)});
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, DType::kI64, Shape{}));
  *out.data<int64_t>() = ShapeOf(c.input_value(0)).num_elements();
  return OkStatus();
}

constexpr Param kOutputs[] = {{"size", "T1", kInt64Type}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kDataOfAnyType<kSince>, kOutputs, {}, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<1>,  kVersion<13>, kVersion<19>, kVersion<21>,
                                   kVersion<23>, kVersion<24>, kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpSize = {"", "Size", kVersions};

}  // namespace quern
