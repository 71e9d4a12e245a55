// GatherND: the last dimension of the indices addresses slices of the data, after `batch_dims` common dimensions.
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
  if (data && indices) {
    const int64_t batch = c.node().GetInt("batch_dims", 0);
    const int64_t rank = static_cast<int64_t>(data->size());
    if (indices->empty() || data->empty()) return c.Error("data and indices need at least one dimension");
    if (batch < 0 || batch >= rank || batch >= static_cast<int64_t>(indices->size())) {
      return c.Error("batch_dims " + std::to_string(batch) + " is too large for data of rank " + std::to_string(rank) +
                     " and indices of rank " + std::to_string(indices->size()));
    }
    if (indices->back().is_constant()) {
      const int64_t depth = indices->back().value();
      if (depth < 1 || depth > rank - batch) {
        return c.Error("indices address " + std::to_string(depth) + " dimensions, data of shape " +
                       DimsToString(*data) + " has " + std::to_string(rank - batch) + " to address");
      }
      for (int64_t i = 0; i < batch; ++i) {
        if ((*data)[i].is_constant() && (*indices)[i].is_constant() && !((*data)[i] == (*indices)[i])) {
          return c.Error("batch dimension " + std::to_string(i) + " of data " + DimsToString(*data) + " and indices " +
                         DimsToString(*indices) + " differ");
        }
      }
      Dims out(indices->begin(), indices->end() - 1);
      out.insert(out.end(), data->begin() + batch + depth, data->end());
      type.shape = std::move(out);
    }
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput data, ElementInput::Make(c, 0));
  const Shape& shape = data.shape();
  const Shape index_shape = c.input(1).shape();
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadInts(c, 1));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, data.dtype(), outputs.shape(0)));
  const int batch = static_cast<int>(c.node().GetInt("batch_dims", 0));
  const int depth = static_cast<int>(index_shape.back());
  const int64_t batches = shape.num_elements(0, batch);
  const int64_t batch_size = shape.num_elements(batch, shape.rank());
  const int64_t slice = shape.num_elements(batch + depth, shape.rank());
  const int64_t tuples = index_shape.num_elements(batch, index_shape.rank() - 1);
  const Shape strides = shape.ContiguousStrides();
  QUERN_RETURN_IF_ERROR(DispatchElements(data.dtype(), [&]<typename T>() -> Status {
    T* y = out.data<T>();
    const int64_t* tuple = indices.data();
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t i = 0; i < tuples; ++i, tuple += depth) {
        int64_t offset = b * batch_size;
        for (int d = 0; d < depth; ++d) {
          const int64_t extent = shape[batch + d];
          if (tuple[d] < -extent || tuple[d] >= extent) return IndexError(c.node(), tuple[d], extent);
          offset += (tuple[d] < 0 ? tuple[d] + extent : tuple[d]) * strides[batch + d];
        }
        y = std::copy_n(data.data<T>() + offset, slice, y);
      }
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"batch_dims", AttrType::kInt, false, "0"}};
template <int kSince>
constexpr Param kInputs[] = {{"data", "T", AnyTypes(kSince)}, {"indices", "", kInt64Type}};
constexpr OpVersion kVersions[] = {{11, kInputs<11>, kOutputOfAnyType<11>, {}, Infer, Evaluate},
                                   {12, kInputs<12>, kOutputOfAnyType<12>, kAttributes, Infer, Evaluate},
                                   {13, kInputs<13>, kOutputOfAnyType<13>, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpGatherNd = {"", "GatherND", kVersions};

}  // namespace quern
