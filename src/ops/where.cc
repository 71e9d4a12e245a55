// Where: x where the condition holds, else y; all three broadcast.
#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferBroadcastTo(c, c.input_dtype(1)));
  const std::optional<Dims> condition = PropagatedInput(c, 0);
  if (!condition || !AllConstant(*condition)) return OkStatus();
  const std::optional<Dims> x = PropagatedInput(c, 1), y = PropagatedInput(c, 2);
  if (!x || !y) return OkStatus();
  const size_t n = std::max({condition->size(), x->size(), y->size()});
  Dims content;
  for (const Dims* d : {&*condition, &*x, &*y}) {
    if (d->size() != n && d->size() != 1) return OkStatus();
  }
  for (size_t i = 0; i < n; ++i) {
    const bool first = (*condition)[condition->size() == 1 ? 0 : i].value() != 0;
    const Dims& from = first ? *x : *y;
    content.push_back(from[from.size() == 1 ? 0 : i]);
  }
  c.SetOutputData(0, std::move(content));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput condition, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 1));
  QUERN_ASSIGN_OR_RETURN(const ElementInput y, ElementInput::Make(c, 2));
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, x.dtype(), shape));
  auto strides_of = [&](const ElementInput& in) {
    return BroadcastStrides(in.shape(), in.shape().ContiguousStrides(), shape);
  };
  const Shape sc = strides_of(condition), sx = strides_of(x), sy = strides_of(y);
  const int64_t n = shape.num_elements();
  QUERN_RETURN_IF_ERROR(DispatchElements(x.dtype(), [&]<typename T>() {
    IndexCounter at(shape);
    for (int64_t i = 0; i < n; ++i, at.Next()) {
      int64_t oc = 0, ox = 0, oy = 0;
      for (int d = 0; d < shape.rank(); ++d) {
        const int64_t p = at.index()[d];
        oc += p * sc[d];
        ox += p * sx[d];
        oy += p * sy[d];
      }
      out.data<T>()[i] = condition.data<uint8_t>()[oc] ? x.data<T>()[ox] : y.data<T>()[oy];
    }
    return OkStatus();
  }));
  return out.Finish();
}

template <int kSince>
constexpr Param kInputs[] = {{"condition", "B", kBoolType}, {"X", "T", AnyTypes(kSince)}, {"Y", "T", AnyTypes(kSince)}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputOfAnyType<kSince>, {}, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<9>, kVersion<16>};

}  // namespace

extern constinit const OpDefinition kOpWhere = {"", "Where", kVersions};

}  // namespace quern
