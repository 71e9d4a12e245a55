// Gather: slices of the data along `axis`, one per index; negative indices count from the end.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> data = c.input_shape(0), indices = c.input_shape(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (!data || !indices) {
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  QUERN_ASSIGN_OR_RETURN(const int axis,
                         NormalizeAxis(c.node(), c.node().GetInt("axis", 0), static_cast<int>(data->size())));
  Dims out(data->begin(), data->begin() + axis);
  out.insert(out.end(), indices->begin(), indices->end());
  out.insert(out.end(), data->begin() + axis + 1, data->end());
  type.shape = std::move(out);
  c.SetOutputType(0, std::move(type));
  if (data->size() != 1 || indices->size() > 1) return OkStatus();
  const std::optional<Dims> content = PropagatedInput(c, 0), at = PropagatedInput(c, 1);
  if (!content || !at || !AllConstant(*at)) return OkStatus();
  Dims picked;
  for (const Dim& i : *at) {
    const int64_t n = static_cast<int64_t>(content->size());
    if (i.value() < -n || i.value() >= n) return IndexError(c.node(), i.value(), n);
    picked.push_back((*content)[i.value() < 0 ? i.value() + n : i.value()]);
  }
  c.SetOutputData(0, std::move(picked));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput data, ElementInput::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), data.shape().rank()));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIndices(c, 1, data.shape()[axis]));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, data.dtype(), outputs.shape(0)));
  const int64_t outer = data.shape().num_elements(0, axis);
  const int64_t extent = data.shape()[axis];
  const int64_t inner = data.shape().num_elements(axis + 1, data.shape().rank());
  QUERN_RETURN_IF_ERROR(DispatchElements(data.dtype(), [&]<typename T>() {
    const T* x = data.data<T>();
    T* y = out.data<T>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i : indices) {
        std::copy_n(x + (o * extent + i) * inner, inner, y);
        y += inner;
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "0"}};
template <int kSince>
constexpr Param kInputs[] = {{"data", "T", AnyTypes(kSince)}, {"indices", "Tind", kIndexTypes}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputs<kSince>, kOutputOfAnyType<kSince>, kAttributes, Infer, Evaluate};
constexpr OpVersion kVersions[] = {kVersion<1>, kVersion<11>, kVersion<13>};

}  // namespace

extern constinit const OpDefinition kOpGather = {"", "Gather", kVersions};

}  // namespace quern
