// ScatterND: a copy of the data whose slices addressed by the last dimension of the indices are updated.
#include "ops/common/scatter.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(c.node()));
  const Shape shape = ShapeOf(c.input_value(0)), index_shape = ShapeOf(c.input_value(1));
  const Shape update_shape = ShapeOf(c.input_value(2));
  if (index_shape.rank() == 0 || index_shape.back() > shape.rank()) {
    return c.Error("indices of shape " + index_shape.ToString() + " do not address data of shape " + shape.ToString());
  }
  const int depth = static_cast<int>(index_shape.back());
  Shape expected;
  for (int d = 0; d + 1 < index_shape.rank(); ++d) expected.push_back(index_shape[d]);
  for (int d = depth; d < shape.rank() && expected.rank() < kMaxRank; ++d) expected.push_back(shape[d]);
  if (!(expected == update_shape)) {
    return c.Error("updates have shape " + update_shape.ToString() + ", indices and data ask for " +
                   expected.ToString());
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, ReadInts(c, 1));
  const int64_t slice = shape.num_elements(depth, shape.rank());
  const int64_t tuples = index_shape.num_elements(0, index_shape.rank() - 1);
  const Shape strides = shape.ContiguousStrides();
  return ScatterInto(c, reduction, [&](auto put) -> Status {
    for (int64_t i = 0; i < tuples; ++i) {
      int64_t offset = 0;
      for (int d = 0; d < depth; ++d) {
        const int64_t index = indices[i * depth + d];
        if (index < -shape[d] || index >= shape[d]) return IndexError(c.node(), index, shape[d]);
        offset += (index < 0 ? index + shape[d] : index) * strides[d];
      }
      for (int64_t j = 0; j < slice; ++j) put(offset + j, i * slice + j);
    }
    return OkStatus();
  });
}

constexpr AttrSpec kAttributes[] = {{"reduction", AttrType::kString, false, "none"}};
template <int kSince>
constexpr Param kInputs[] = {
    {"data", "T", AnyTypes(kSince)}, {"indices", "", kInt64Type}, {"updates", "T", AnyTypes(kSince)}};
constexpr OpVersion kVersions[] = {{11, kInputs<11>, kOutputOfAnyType<11>, {}, InferScatter, Evaluate},
                                   {13, kInputs<13>, kOutputOfAnyType<13>, {}, InferScatter, Evaluate},
                                   {16, kInputs<16>, kOutputOfAnyType<16>, kAttributes, InferScatter, Evaluate},
                                   {18, kInputs<18>, kOutputOfAnyType<18>, kAttributes, InferScatter, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpScatterNd = {"", "ScatterND", kVersions};

}  // namespace quern
