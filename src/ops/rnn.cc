// RNN: simple recurrent network over sequences, one or both directions.
#include <limits>
#include <vector>

#include "ops/common/recurrent.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferRecurrent(c, 1, false); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const RecurrentSizes s = MakeRecurrentSizes(c);
  QUERN_ASSIGN_OR_RETURN(const std::vector<Activation> activations, ReadActivations(c.node(), {"Tanh"}, s.directions));
  const float* clip = c.node().FindAttribute<float>("clip");
  const double bound = clip ? static_cast<double>(*clip) : std::numeric_limits<double>::infinity();
  const auto clipped = [bound](double v) { return v < -bound ? -bound : v > bound ? bound : v; };
  return WithComputeType(c, c.input(0).dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> weight, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> recurrence, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, 3));
    const int64_t hidden = s.hidden;
    std::vector<double> from_x(static_cast<size_t>(hidden)), from_h(from_x.size());
    return RunRecurrent<T>(c, outputs, false, [&](int64_t d, const T* x, double* h, double*) {
      const T* b = bias ? bias.data() + d * 2 * hidden : nullptr;
      MultiplyGates(hidden, s.input, weight.data() + d * hidden * s.input, x, b, from_x.data());
      MultiplyGates(hidden, hidden, recurrence.data() + d * hidden * hidden, h, b ? b + hidden : nullptr,
                    from_h.data());
      for (int64_t i = 0; i < hidden; ++i) h[i] = activations[d](clipped(from_x[i] + from_h[i]));
    });
  });
}

constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes},
                              {"W", "T", kOldFloatTypes},
                              {"R", "T", kOldFloatTypes},
                              {"B", "T", kOldFloatTypes, Arity::kOptional},
                              {"sequence_lens", "T1", kI32Type, Arity::kOptional},
                              {"initial_h", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes, Arity::kOptional},
                               {"Y_h", "T", kOldFloatTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes1[] = {{"activation_alpha", AttrType::kFloats},
                                     {"activation_beta", AttrType::kFloats},
                                     {"activations", AttrType::kStrings, false, "[Tanh, Tanh]"},
                                     {"clip", AttrType::kFloat},
                                     {"direction", AttrType::kString, false, "forward"},
                                     {"hidden_size", AttrType::kInt},
                                     {"output_sequence", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes7[] = {{"activation_alpha", AttrType::kFloats},
                                     {"activation_beta", AttrType::kFloats},
                                     {"activations", AttrType::kStrings, false, "[Tanh, Tanh]"},
                                     {"clip", AttrType::kFloat},
                                     {"direction", AttrType::kString, false, "forward"},
                                     {"hidden_size", AttrType::kInt}};
constexpr AttrSpec kAttributes14[] = {{"activation_alpha", AttrType::kFloats},
                                      {"activation_beta", AttrType::kFloats},
                                      {"activations", AttrType::kStrings, false, "[Tanh, Tanh]"},
                                      {"clip", AttrType::kFloat},
                                      {"direction", AttrType::kString, false, "forward"},
                                      {"hidden_size", AttrType::kInt},
                                      {"layout", AttrType::kInt, false, "0"}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes},
                               {"W", "T", kFloatTypes},
                               {"R", "T", kFloatTypes},
                               {"B", "T", kFloatTypes, Arity::kOptional},
                               {"sequence_lens", "T1", kI32Type, Arity::kOptional},
                               {"initial_h", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes, Arity::kOptional}, {"Y_h", "T", kFloatTypes, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, Infer, Evaluate, 0},
                                   {7, kInputs1, kOutputs1, kAttributes7, Infer, Evaluate, 0},
                                   {14, kInputs1, kOutputs1, kAttributes14, Infer, Evaluate, 0},
                                   {22, kInputs22, kOutputs22, kAttributes14, Infer, Evaluate, 0}};

}  // namespace

extern constinit const OpDefinition kOpRnn = {"", "RNN", kVersions};

}  // namespace quern
