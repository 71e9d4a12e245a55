// Expand: broadcasts the input with a shape, by the rules that work in both directions.
#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> in = c.input_shape(0), target = c.input_data(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (target) {
    for (const Dim& d : *target) {
      if (d.is_constant() && d.value() < 0) return c.Error("shape " + DimsToString(*target) + " is negative");
    }
    if (in) {
      QUERN_ASSIGN_OR_RETURN(type.shape, BroadcastDims(c.node(), *in, *target));
    }
  } else if (const std::optional<int64_t> length = KnownLength(c, 1); in && length && *length <= kMaxRank) {
    type.shape = UnknownDims(std::max<int64_t>(*length, static_cast<int64_t>(in->size())));
  }
  const std::optional<Dims> shape = type.shape;
  c.SetOutputType(0, std::move(type));
  if (shape && shape->size() <= 1 && AllConstant(*shape)) {
    const std::optional<Dims> content = PropagatedInput(c, 0);
    const int64_t n = shape->empty() ? 1 : shape->front().value();
    if (content && n <= kMaxPropagatedElements) {
      if (static_cast<int64_t>(content->size()) == n) {
        c.SetOutputData(0, *content);
      } else if (content->size() == 1) {
        c.SetOutputData(0, Dims(static_cast<size_t>(n), content->front()));
      }
    }
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), shape));
  const Shape strides = BroadcastStrides(in.shape(), in.shape().ContiguousStrides(), shape);
  const int64_t n = shape.num_elements();
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    IndexCounter at(shape);
    T* y = out.data<T>();
    for (int64_t i = 0; i < n; ++i, at.Next()) {
      int64_t offset = 0;
      for (int d = 0; d < shape.rank(); ++d) offset += at.index()[d] * strides[d];
      y[i] = in.data<T>()[offset];
    }
    return OkStatus();
  }));
  return out.Finish();
}

template <int kSince>
constexpr Param kInputs[] = {{"input", "T", AnyTypes(kSince)}, {"shape", "", kInt64Type}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputOfAnyType<kSince>, {}, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<8>, kVersion<13>};

}  // namespace

extern constinit const OpDefinition kOpExpand = {"", "Expand", kVersions};

}  // namespace quern
