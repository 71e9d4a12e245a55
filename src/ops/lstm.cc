// LSTM: long short-term memory over sequences, one or both directions.
#include <limits>
#include <vector>

#include "ops/common/recurrent.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// Gates stand in the order input, output, forget, cell.
Status Infer(InferContext& c) { return InferRecurrent(c, 4, true); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const RecurrentSizes s = MakeRecurrentSizes(c);
  QUERN_ASSIGN_OR_RETURN(const std::vector<Activation> activations,
                         ReadActivations(c.node(), {"Sigmoid", "Tanh", "Tanh"}, s.directions));
  const float* clip = c.node().FindAttribute<float>("clip");
  const double bound = clip ? static_cast<double>(*clip) : std::numeric_limits<double>::infinity();
  const bool couples = c.node().GetInt("input_forget", 0) != 0;
  const auto clipped = [bound](double v) { return v < -bound ? -bound : v > bound ? bound : v; };
  return WithComputeType(c, c.input(0).dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> weight, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> recurrence, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, 3));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> peepholes, ReadFloats<T>(c, 7));
    const int64_t hidden = s.hidden, rows = 4 * hidden;
    std::vector<double> from_x(static_cast<size_t>(rows)), from_h(from_x.size());
    return RunRecurrent<T>(c, outputs, true, [&](int64_t d, const T* x, double* h, double* cell) {
      const T* b = bias ? bias.data() + d * 2 * rows : nullptr;
      const T* p = peepholes ? peepholes.data() + d * 3 * hidden : nullptr;
      MultiplyGates(rows, s.input, weight.data() + d * rows * s.input, x, b, from_x.data());
      MultiplyGates(rows, hidden, recurrence.data() + d * rows * hidden, h, b ? b + rows : nullptr, from_h.data());
      const Activation &f = activations[3 * d], &g = activations[3 * d + 1], &out = activations[3 * d + 2];
      for (int64_t i = 0; i < hidden; ++i) {
        const auto gate = [&](int64_t n) { return from_x[n * hidden + i] + from_h[n * hidden + i]; };
        const auto peep = [&](int64_t n, double state) {
          return p ? static_cast<double>(p[n * hidden + i]) * state : 0.0;
        };
        const double input_gate = f(clipped(gate(0) + peep(0, cell[i])));
        const double forget_gate = couples ? 1.0 - input_gate : f(clipped(gate(2) + peep(2, cell[i])));
        cell[i] = forget_gate * cell[i] + input_gate * g(clipped(gate(3)));
        h[i] = f(clipped(gate(1) + peep(1, cell[i]))) * out(cell[i]);
      }
    });
  });
}

constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes},
                              {"W", "T", kOldFloatTypes},
                              {"R", "T", kOldFloatTypes},
                              {"B", "T", kOldFloatTypes, Arity::kOptional},
                              {"sequence_lens", "T1", kI32Type, Arity::kOptional},
                              {"initial_h", "T", kOldFloatTypes, Arity::kOptional},
                              {"initial_c", "T", kOldFloatTypes, Arity::kOptional},
                              {"P", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes, Arity::kOptional},
                               {"Y_h", "T", kOldFloatTypes, Arity::kOptional},
                               {"Y_c", "T", kOldFloatTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes1[] = {{"activation_alpha", AttrType::kFloats},
                                     {"activation_beta", AttrType::kFloats},
                                     {"activations", AttrType::kStrings},
                                     {"clip", AttrType::kFloat},
                                     {"direction", AttrType::kString, false, "forward"},
                                     {"hidden_size", AttrType::kInt},
                                     {"input_forget", AttrType::kInt, false, "0"},
                                     {"output_sequence", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes7[] = {{"activation_alpha", AttrType::kFloats},
                                     {"activation_beta", AttrType::kFloats},
                                     {"activations", AttrType::kStrings},
                                     {"clip", AttrType::kFloat},
                                     {"direction", AttrType::kString, false, "forward"},
                                     {"hidden_size", AttrType::kInt},
                                     {"input_forget", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes14[] = {{"activation_alpha", AttrType::kFloats},
                                      {"activation_beta", AttrType::kFloats},
                                      {"activations", AttrType::kStrings},
                                      {"clip", AttrType::kFloat},
                                      {"direction", AttrType::kString, false, "forward"},
                                      {"hidden_size", AttrType::kInt},
                                      {"input_forget", AttrType::kInt, false, "0"},
                                      {"layout", AttrType::kInt, false, "0"}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes},
                               {"W", "T", kFloatTypes},
                               {"R", "T", kFloatTypes},
                               {"B", "T", kFloatTypes, Arity::kOptional},
                               {"sequence_lens", "T1", kI32Type, Arity::kOptional},
                               {"initial_h", "T", kFloatTypes, Arity::kOptional},
                               {"initial_c", "T", kFloatTypes, Arity::kOptional},
                               {"P", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes, Arity::kOptional},
                                {"Y_h", "T", kFloatTypes, Arity::kOptional},
                                {"Y_c", "T", kFloatTypes, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, Infer, Evaluate, 0},
                                   {7, kInputs1, kOutputs1, kAttributes7, Infer, Evaluate, 0},
                                   {14, kInputs1, kOutputs1, kAttributes14, Infer, Evaluate, 0},
                                   {22, kInputs22, kOutputs22, kAttributes14, Infer, Evaluate, 0}};

}  // namespace

extern constinit const OpDefinition kOpLstm = {"", "LSTM", kVersions};

}  // namespace quern
