// What LSTM, GRU and RNN share: shapes, activations, and the walk over directions, batch and time.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/op.h"

namespace quern {

struct RecurrentSizes {
  int64_t steps, batch, input, hidden, directions;
  bool batch_first;  // 'layout' = 1: X is [batch, steps, input], states are [batch, directions, hidden]
};
// Infers Y, Y_h (and Y_c, with `has_cell`) of a recurrent node with `gates` gates; checks every input's shape.
Status InferRecurrent(InferContext& context, int gates, bool has_cell);
RecurrentSizes MakeRecurrentSizes(EvalContext& context);

enum class ActivationKind : uint8_t {
  kAffine,  // alpha * x + beta
  kElu,
  kHardSigmoid,
  kLeakyRelu,
  kRelu,
  kScaledTanh,  // alpha * tanh(beta * x)
  kSigmoid,
  kSoftplus,
  kSoftsign,
  kTanh,
  kThresholdedRelu
};

// An activation function of a recurrent node with its parameters.
class Activation {
 public:
  // By name, in any case; an error that names the node when it is not known.
  static Result<Activation> Make(const Node& node, const std::string& name);
  double operator()(double x) const;
  ActivationKind kind() const { return kind_; }
  bool has_alpha() const;
  bool has_beta() const;
  double alpha = 0, beta = 0;

 private:
  ActivationKind kind_ = ActivationKind::kAffine;
};
// The node's activations for all directions, `defaults` repeated per direction when it names none.
Result<std::vector<Activation>> ReadActivations(const Node& node, const std::vector<std::string>& defaults,
                                                int64_t directions);

// Gates of one step: gates[g] = W[g] * x + b_w[g], of doubles.
template <typename T>
void MultiplyGates(int64_t rows, int64_t columns, const T* weight, const auto* x, const T* bias, double* gates) {
  for (int64_t r = 0; r < rows; ++r) {
    double sum = bias ? static_cast<double>(bias[r]) : 0.0;
    const T* row = weight + r * columns;
    for (int64_t i = 0; i < columns; ++i) sum += static_cast<double>(row[i]) * static_cast<double>(x[i]);
    gates[r] = sum;
  }
}

// Runs step(direction, x, h, c) for every time step of every sequence, in its direction's order: x is the input row, h
// and c (null without a cell) are updated in place. Writes the outputs; positions behind a sequence's end are 0.
template <typename T, typename Step>
Status RunRecurrent(EvalContext& context, const InferredOutputs& outputs, bool has_cell, Step step) {
  const RecurrentSizes s = MakeRecurrentSizes(context);
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(context, 0));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> initial_h, ReadFloats<T>(context, 5));
  FloatInput<T> initial_c;
  if (has_cell) {
    QUERN_ASSIGN_OR_RETURN(initial_c, ReadFloats<T>(context, 6));
  }
  FloatOutput<T> out[3];
  const int num_outputs = std::min(context.num_outputs(), has_cell ? 3 : 2);
  for (int i = 0; i < num_outputs; ++i) {
    QUERN_ASSIGN_OR_RETURN(out[i], WriteFloats<T>(context, outputs, i));
  }
  const int64_t hidden = s.hidden;
  std::vector<double> h(static_cast<size_t>(hidden)), c(h.size());
  const auto store = [&](FloatOutput<T>& to, int64_t at, const std::vector<double>& from) {
    for (int64_t i = 0; i < hidden; ++i) to[at + i] = static_cast<T>(from[i]);
  };
  const bool all_reverse = context.node().GetString("direction", "forward") == "reverse";
  for (int64_t d = 0; d < s.directions; ++d) {
    const bool reverse = all_reverse || d == 1;
    for (int64_t b = 0; b < s.batch; ++b) {
      const int64_t state_at = (s.batch_first ? b * s.directions + d : d * s.batch + b) * hidden;
      for (int64_t i = 0; i < hidden; ++i) {
        h[i] = initial_h ? static_cast<double>(initial_h[state_at + i]) : 0.0;
        c[i] = initial_c ? static_cast<double>(initial_c[state_at + i]) : 0.0;
      }
      int64_t length = s.steps;
      if (context.HasInput(4)) {
        length = context.input(4).template data<int32_t>()[b];
        if (length < 0 || length > s.steps) {
          return context.Error("sequence_lens has the entry " + std::to_string(length) + " but X has " +
                               std::to_string(s.steps) + " steps");
        }
      }
      for (int64_t k = 0; k < s.steps; ++k) {
        const int64_t t = k < length && reverse ? length - 1 - k : k;
        if (k < length) {
          const int64_t x_row = s.batch_first ? b * s.steps + t : t * s.batch + b;
          step(d, x.data() + x_row * s.input, h.data(), has_cell ? c.data() : nullptr);
        }
        if (num_outputs < 1) continue;
        const int64_t y_row =
            s.batch_first ? (b * s.steps + t) * s.directions + d : (t * s.directions + d) * s.batch + b;
        if (k < length) {
          store(out[0], y_row * hidden, h);
        } else {
          std::fill_n(out[0].data() + y_row * hidden, hidden, T{0});
        }
      }
      if (num_outputs > 1) store(out[1], state_at, h);
      if (num_outputs > 2) store(out[2], state_at, c);
    }
  }
  for (int i = 0; i < num_outputs; ++i) out[i].Finish();
  return OkStatus();
}

}  // namespace quern
