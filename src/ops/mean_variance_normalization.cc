// MeanVarianceNormalization: (x - mean) / deviation over axes.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/common/reduce.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Result<std::vector<int>> Axes(const Node& node, int rank) {
  return NormalizeAxes(node, node.GetInts("axes", {0, 2, 3}), rank);
}

Status Infer(InferContext& c) {
  if (const std::optional<Dims> x = c.input_shape(0)) {
    QUERN_RETURN_IF_ERROR(Axes(c.node(), static_cast<int>(x->size())).status());
  }
  return InferUnary(c);
}

constexpr double kEpsilon = 1e-9;  // added to the deviation, as the function body of the specification has it

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor& x = c.input(0);
  QUERN_ASSIGN_OR_RETURN(const std::vector<int> axes, Axes(c.node(), x.rank()));
  ReducePlan plan{Shape::Filled(x.rank(), 0), 1, 1};
  for (int d = x.rank() - 1; d >= 0; --d) {
    if (std::find(axes.begin(), axes.end(), d) != axes.end()) {
      plan.count *= x.dim(d);
    } else {
      plan.output_strides[d] = plan.outputs;
      plan.outputs *= x.dim(d);
    }
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  return DispatchFloat(x.dtype(), [&]<typename T>() {
    std::vector<double> means(static_cast<size_t>(plan.outputs), 0.0), deviations(means.size(), 0.0);
    ReduceLoop<T>(x, plan, means, [](double sum, auto v) { return sum + static_cast<double>(v); });
    for (double& m : means) m /= static_cast<double>(plan.count);
    const BroadcastRows<2> rows(x.shape(), {plan.output_strides, x.strides()});
    const auto for_each = [&](auto f) {
      rows.ForEach([&](const auto& offset, const auto& stride, int64_t n) {
        for (int64_t i = 0; i < n; ++i) f(offset[0] + i * stride[0], offset[1] + i * stride[1]);
      });
    };
    const T* in = x.data<T>();
    const auto centred = [&](int64_t o, int64_t i) { return static_cast<double>(ComputeType<T>(in[i])) - means[o]; };
    for_each([&](int64_t o, int64_t i) { deviations[o] += centred(o, i) * centred(o, i); });
    for (double& d : deviations) d = std::sqrt(d / static_cast<double>(plan.count));
    for_each([&](int64_t o, int64_t i) {
      y.data<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(centred(o, i) / (deviations[o] + kEpsilon)));
    });
    return OkStatus();
  });
}

constexpr Param kInputs9[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs9[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"axes", AttrType::kInts, false, "[0, 2, 3]"}};
constexpr Param kInputs13[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs13[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{9, kInputs9, kOutputs9, kAttributes, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMeanVarianceNormalization = {"", "MeanVarianceNormalization", kVersions};

}  // namespace quern
