// GRU: gated recurrent unit over sequences, one or both directions.
#include <limits>
#include <vector>

#include "ops/common/recurrent.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// Gates stand in the order update, reset, hidden.
Status Infer(InferContext& c) { return InferRecurrent(c, 3, false); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const RecurrentSizes s = MakeRecurrentSizes(c);
  QUERN_ASSIGN_OR_RETURN(const std::vector<Activation> activations,
                         ReadActivations(c.node(), {"Sigmoid", "Tanh"}, s.directions));
  const float* clip = c.node().FindAttribute<float>("clip");
  const double bound = clip ? static_cast<double>(*clip) : std::numeric_limits<double>::infinity();
  const bool resets_last = c.node().GetInt("linear_before_reset", 0) != 0;
  const auto clipped = [bound](double v) { return v < -bound ? -bound : v > bound ? bound : v; };
  return WithComputeType(c, c.input(0).dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> weight, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> recurrence, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, 3));
    const int64_t hidden = s.hidden, rows = 3 * hidden;
    std::vector<double> from_x(static_cast<size_t>(rows)), from_h(from_x.size()), reset_h(static_cast<size_t>(hidden));
    return RunRecurrent<T>(c, outputs, false, [&](int64_t d, const T* x, double* h, double*) {
      const T* b = bias ? bias.data() + d * 2 * rows : nullptr;
      const T* r = recurrence.data() + d * rows * hidden;
      MultiplyGates(rows, s.input, weight.data() + d * rows * s.input, x, b, from_x.data());
      MultiplyGates(rows, hidden, r, h, b ? b + rows : nullptr, from_h.data());
      const Activation &f = activations[2 * d], &g = activations[2 * d + 1];
      double* reset = from_x.data() + hidden;
      for (int64_t i = 0; i < hidden; ++i) {
        reset[i] = f(clipped(reset[i] + from_h[hidden + i]));
        reset_h[i] = reset[i] * h[i];
      }
      double* hidden_part = from_h.data() + 2 * hidden;
      if (resets_last) {
        for (int64_t i = 0; i < hidden; ++i) hidden_part[i] *= reset[i];
      } else {
        MultiplyGates(hidden, hidden, r + 2 * hidden * hidden, reset_h.data(), b ? b + rows + 2 * hidden : nullptr,
                      hidden_part);
      }
      for (int64_t i = 0; i < hidden; ++i) {
        const double update = f(clipped(from_x[i] + from_h[i]));
        h[i] = (1.0 - update) * g(clipped(from_x[2 * hidden + i] + hidden_part[i])) + update * h[i];
      }
    });
  });
}

constexpr Param kInputs3[] = {{"X", "T", kOldFloatTypes},
                              {"W", "T", kOldFloatTypes},
                              {"R", "T", kOldFloatTypes},
                              {"B", "T", kOldFloatTypes, Arity::kOptional},
                              {"sequence_lens", "T1", kI32Type, Arity::kOptional},
                              {"initial_h", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs3[] = {{"Y", "T", kOldFloatTypes, Arity::kOptional},
                               {"Y_h", "T", kOldFloatTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes3[] = {{"activation_alpha", AttrType::kFloats},
                                     {"activation_beta", AttrType::kFloats},
                                     {"activations", AttrType::kStrings},
                                     {"clip", AttrType::kFloat},
                                     {"direction", AttrType::kString, false, "forward"},
                                     {"hidden_size", AttrType::kInt},
                                     {"linear_before_reset", AttrType::kInt, false, "0"},
                                     {"output_sequence", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes7[] = {{"activation_alpha", AttrType::kFloats},
                                     {"activation_beta", AttrType::kFloats},
                                     {"activations", AttrType::kStrings},
                                     {"clip", AttrType::kFloat},
                                     {"direction", AttrType::kString, false, "forward"},
                                     {"hidden_size", AttrType::kInt},
                                     {"linear_before_reset", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes14[] = {{"activation_alpha", AttrType::kFloats},
                                      {"activation_beta", AttrType::kFloats},
                                      {"activations", AttrType::kStrings},
                                      {"clip", AttrType::kFloat},
                                      {"direction", AttrType::kString, false, "forward"},
                                      {"hidden_size", AttrType::kInt},
                                      {"layout", AttrType::kInt, false, "0"},
                                      {"linear_before_reset", AttrType::kInt, false, "0"}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes},
                               {"W", "T", kFloatTypes},
                               {"R", "T", kFloatTypes},
                               {"B", "T", kFloatTypes, Arity::kOptional},
                               {"sequence_lens", "T1", kI32Type, Arity::kOptional},
                               {"initial_h", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes, Arity::kOptional}, {"Y_h", "T", kFloatTypes, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{3, kInputs3, kOutputs3, kAttributes3, Infer, Evaluate, 0},
                                   {7, kInputs3, kOutputs3, kAttributes7, Infer, Evaluate, 0},
                                   {14, kInputs3, kOutputs3, kAttributes14, Infer, Evaluate, 0},
                                   {22, kInputs22, kOutputs22, kAttributes14, Infer, Evaluate, 0}};

}  // namespace

extern constinit const OpDefinition kOpGru = {"", "GRU", kVersions};

}  // namespace quern
