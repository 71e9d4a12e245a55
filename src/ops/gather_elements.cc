// GatherElements: out[i][j] = data[index[i][j]][j] for axis 0, and so on.
#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> data = c.input_shape(0), indices = c.input_shape(1);
  if (data && indices) {
    if (data->size() != indices->size()) {
      return c.Error("indices have rank " + std::to_string(indices->size()) + ", data has " +
                     std::to_string(data->size()) + "; both must be the same");
    }
    QUERN_RETURN_IF_ERROR(NormalizeAxis(c.node(), c.node().GetInt("axis", 0), static_cast<int>(data->size())).status());
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), indices));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput data, ElementInput::Make(c, 0));
  const Shape shape = c.input(1).shape();
  if (shape.rank() != data.shape().rank()) return c.Error("data and indices have different ranks");
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), shape.rank()));
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis && shape[d] > data.shape()[d]) {
      return c.Error("indices of shape " + shape.ToString() + " exceed data of shape " + data.shape().ToString());
    }
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadIndices(c, 1, data.shape()[axis]));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, data.dtype(), shape));
  const Shape strides = data.shape().ContiguousStrides();
  QUERN_RETURN_IF_ERROR(DispatchElements(data.dtype(), [&]<typename T>() {
    const T* x = data.data<T>();
    T* y = out.data<T>();
    IndexCounter at(shape);
    for (size_t i = 0; i < indices.size(); ++i, at.Next()) {
      int64_t offset = indices[i] * strides[axis];
      for (int d = 0; d < shape.rank(); ++d) {
        if (d != axis) offset += at.index()[d] * strides[d];
      }
      y[i] = x[offset];
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
constexpr OpVersion kVersions[] = {kVersion<11>, kVersion<13>};

}  // namespace

extern constinit const OpDefinition kOpGatherElements = {"", "GatherElements", kVersions};

}  // namespace quern
