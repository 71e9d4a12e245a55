// com.microsoft.QLinearSoftmax: softmax of a quantized tensor along one axis, or (attribute opset below 13) over all
// dimensions from the axis on.
#include <algorithm>

#include "ops/common/infer_common.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

constexpr int kOneAxisSince = 13;

// The tensor as [outer, count, inner]: lines of `count` elements that are `inner` apart.
struct Lines {
  int64_t outer, count, inner;
};

Result<int> Axis(const Node& node, int rank) {
  const int64_t axis = node.GetInt("axis", -1);
  if (node.GetInt("opset", 0) < kOneAxisSince && axis == rank) return rank;
  return NormalizeAxis(node, axis, rank);
}

Status Infer(InferContext& c) {
  if (const std::optional<Dims> x = c.input_shape(0); x && !x->empty()) {
    QUERN_RETURN_IF_ERROR(Axis(c.node(), static_cast<int>(x->size())).status());
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization from, ReadTensorQuantization(c, 1, 2));
  QUERN_ASSIGN_OR_RETURN(TensorQuantization to, ReadTensorQuantization(c, 3, 4));
  to.scale = SoftmaxScale(to.scale);
  const Shape shape = c.input(0).shape();
  Lines lines{1, 1, 1};
  if (shape.rank() > 0) {
    QUERN_ASSIGN_OR_RETURN(const int axis, Axis(c.node(), shape.rank()));
    const bool one_axis = c.node().GetInt("opset", 0) >= kOneAxisSince;
    const int end = one_axis ? axis + 1 : shape.rank();
    lines = {shape.num_elements(0, axis), shape.num_elements(axis, end), shape.num_elements(end, shape.rank())};
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, c.input(0).dtype(), shape));
  if (y.num_elements() == 0) return OkStatus();
  const std::vector<int32_t> x = WidenIntegers(c.input(0));
  std::vector<double> line(static_cast<size_t>(lines.count));
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      const int64_t at = o * lines.count * lines.inner + i;
      double largest = from.ToReal(x[at]), sum = 0;
      for (int64_t j = 1; j < lines.count; ++j) largest = std::max(largest, from.ToReal(x[at + j * lines.inner]));
      for (int64_t j = 0; j < lines.count; ++j) {
        sum += line[j] = std::exp(from.ToReal(x[at + j * lines.inner]) - largest);
      }
      for (int64_t j = 0; j < lines.count; ++j) {
        StoreByte(y, at + j * lines.inner, to.FromReal(line[j] / sum, y.dtype()));
      }
    }
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"X", "T", kByteTypes},
                             {"X_scale", "", kF32Type},
                             {"x_zero_point", "T", kByteTypes, Arity::kOptional},
                             {"y_scale", "", kF32Type},
                             {"y_zero_point", "T", kByteTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"}, {"opset", AttrType::kInt, true}};
constexpr OpVersion kVersions[] = {{1, kInputs, kQLinearUnaryOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearSoftmax = {"com.microsoft", "QLinearSoftmax", kVersions};

}  // namespace quern
