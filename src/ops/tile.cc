// Tile: repeats the input along each dimension.
#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> in = c.input_shape(0), repeats = c.input_data(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (in && repeats) {
    if (in->size() != repeats->size()) {
      return c.Error(std::to_string(repeats->size()) + " repeats are given for the dimensions of " + DimsToString(*in));
    }
    Dims out;
    for (size_t i = 0; i < in->size(); ++i) {
      const Dim& times = (*repeats)[i];
      if (times.is_constant()) {
        if (times.value() < 0) return c.Error("repeats " + DimsToString(*repeats) + " are negative");
        if ((*in)[i].is_constant() && !CheckedMul((*in)[i].value(), times.value())) {
          return c.Error("repeats " + DimsToString(*repeats) + " make the output too large");
        }
      }
      out.push_back((*in)[i] * times);
    }
    type.shape = std::move(out);
  } else if (in) {
    type.shape = UnknownDims(static_cast<int64_t>(in->size()));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), shape));
  const Shape strides = in.shape().ContiguousStrides();
  const int64_t n = shape.num_elements();
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    IndexCounter at(shape);
    T* y = out.data<T>();
    for (int64_t i = 0; i < n; ++i, at.Next()) {
      int64_t offset = 0;
      for (int d = 0; d < shape.rank(); ++d) offset += at.index()[d] % in.shape()[d] * strides[d];
      y[i] = in.data<T>()[offset];
    }
    return OkStatus();
  }));
  return out.Finish();
}

template <int kSince>
constexpr Param kInputs[] = {{"input", "T", AnyTypes(kSince)}, {"repeats", "T1", kInt64Type}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputOfAnyType<kSince>, {}, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<6>, kVersion<13>};

}  // namespace

extern constinit const OpDefinition kOpTile = {"", "Tile", kVersions};

}  // namespace quern
