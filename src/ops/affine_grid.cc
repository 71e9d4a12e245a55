// AffineGrid: the sampling grid that affine maps make of the evenly spaced positions of an image, for GridSample.
#include <string>

#include "ops/common/any_types.h"
#include "ops/common/float_io.h"
#include "ops/common/indices.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> theta = c.input_shape(0), size = c.input_data(1);
  const std::optional<int64_t> length = size ? static_cast<int64_t>(size->size()) : KnownLength(c, 1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (length && *length != 4 && *length != 5) {
    return c.Error("size has " + std::to_string(*length) + " elements; 4 or 5 are needed");
  }
  if (length) {
    const int64_t rank = *length - 2;
    type.shape = UnknownDims(*length);
    if (theta && !theta->empty()) type.shape->front() = theta->front();
    if (size) {
      type.shape->front() = size->front();
      for (int64_t d = 0; d < rank; ++d) (*type.shape)[1 + d] = (*size)[2 + d];
    }
    type.shape->back() = Dim(rank);
    const auto differs = [](const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && !(a == b); };
    if (theta && (theta->size() != 3 || differs((*theta)[0], type.shape->front()) || differs((*theta)[1], rank) ||
                  differs((*theta)[2], rank + 1))) {
      return c.Error("theta has shape " + DimsToString(*theta) + "; [" + type.shape->front().ToString() + "," +
                     std::to_string(rank) + "," + std::to_string(rank + 1) + "] is needed");
    }
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

// Position i of n in [-1, 1]: with aligned corners the first and the last are -1 and 1, else they are half a step
// inside.
double PositionOf(int64_t i, int64_t n, bool align_corners) {
  const double at = static_cast<double>(2 * i), count = static_cast<double>(n);
  if (!align_corners) return (at + 1) / count - 1;
  return n == 1 ? 0 : at / (count - 1) - 1;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const bool align_corners = c.node().GetInt("align_corners", 0) != 0;
  const Shape& shape = outputs.shape(0);
  const int rank = shape.rank() - 2;
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> theta, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> grid, WriteFloats<T>(c, outputs, 0));
    IndexCounter at(shape);  // [image, position along each dimension, component]
    for (int64_t i = 0; i < grid.num_elements(); ++i, at.Next()) {
      const Shape& index = at.index();
      const T* row = theta.data() + (index[0] * rank + index.back()) * (rank + 1);
      double sum = static_cast<double>(row[rank]);
      for (int d = 0; d < rank; ++d) {  // the components of a position count from the innermost dimension
        sum += static_cast<double>(row[d]) * PositionOf(index[rank - d], shape[rank - d], align_corners);
      }
      grid[i] = static_cast<T>(sum);
    }
    grid.Finish();
    return OkStatus();
  });
}

constexpr AttrSpec kAttributes[] = {{"align_corners", AttrType::kInt, false, "0"}};
constexpr Param kInputs[] = {{"theta", "T1", kFloatTypes}, {"size", "T2", kInt64Type}};
constexpr Param kOutputs[] = {{"grid", "T1", kFloatTypes}};
constexpr OpVersion kVersions[] = {{20, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpAffineGrid = {"", "AffineGrid", kVersions};

}  // namespace quern
