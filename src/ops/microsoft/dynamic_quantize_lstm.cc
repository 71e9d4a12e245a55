// com.microsoft.DynamicQuantizeLSTM: LSTM with 8-bit weights; inputs and hidden states are quantized as they come, all
// inputs of a direction together, the hidden states of a batch at every step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/common/dynamic_quantization.h"
#include "ops/common/elements.h"
#include "ops/common/head_attention.h"
#include "ops/common/matmul.h"
#include "ops/common/recurrent.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kX, kW, kR, kB, kLengths, kH, kC, kP, kWScale, kWZero, kRScale, kRZero };

Status Infer(InferContext& c) {
  const std::string direction = c.node().GetString("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return c.Error("attribute 'direction' is '" + direction + "'; forward, reverse or bidirectional is needed");
  }
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const std::optional<Dims> x = c.input_shape(kX), r = c.input_shape(kR);
  Dim hidden = r && r->size() == 3 ? (*r)[1] : Dim::Unknown();
  if (const int64_t* size = c.node().FindAttribute<int64_t>("hidden_size")) {
    if (*size < 1 || *size > (int64_t{1} << 32)) {
      return c.Error("attribute 'hidden_size' is " + std::to_string(*size) + ", which is out of range");
    }
    hidden = *size;
  }
  if (x && x->size() != 3) return c.Error("X has shape " + DimsToString(*x) + "; 3 dimensions are needed");
  const Dim steps = x ? (*x)[0] : Dim::Unknown(), batch = x ? (*x)[1] : Dim::Unknown();
  const Dim width = x ? (*x)[2] : Dim::Unknown();
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kW, {directions, width, hidden * 4}));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kR, {directions, hidden, hidden * 4}));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kB, {directions, hidden * 8}));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kLengths, {batch}));
  const Dims state = {directions, batch, hidden};
  for (const int i : {kH, kC}) QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, state));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kP, {directions, hidden * 3}));
  for (const int i : {kWScale, kWZero, kRScale, kRZero}) {
    const std::optional<Dims> shape = c.input_shape(i);
    const bool per_column = shape && shape->size() == 2;
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, per_column ? Dims{directions, hidden * 4} : Dims{directions}));
  }
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{steps, directions, batch, hidden}));
  for (const int i : {1, 2}) c.SetOutputType(i, ValueType::Tensor(DType::kF32, state));
  return OkStatus();
}

// Rows of floats quantized to 8 bits by their common range, which includes 0; the zero point is taken off.
struct QuantizedRows {
  std::vector<int32_t> values;
  float scale = 1;

  void Set(const float* x, int64_t count) {
    const auto length = static_cast<size_t>(count);
    const DynamicQuantization quantization = QuantizationOfRange({x, length});
    scale = quantization.scale;
    values.resize(length);
    for (size_t i = 0; i < length; ++i) values[i] = quantization.Quantize(x[i]) - quantization.zero_point;
  }
};

// Weights [rows, columns] of one direction, less their zero points, with a scale per column.
struct QuantizedWeights {
  int64_t rows, columns;
  std::vector<int32_t> values;
  std::vector<float> scales;

  // sums[j] = the product of a quantized row with column j.
  void Multiply(const int32_t* row, float row_scale, std::vector<int64_t>& scratch, double* sums) const {
    scratch.resize(static_cast<size_t>(columns));
    MultiplyRow<int32_t, int32_t, int64_t>(columns, rows, row, 1, values.data(), columns, 1, scratch.data());
    for (int64_t j = 0; j < columns; ++j) sums[j] = static_cast<double>(scratch[j]) * row_scale * scales[j];
  }
};

QuantizedWeights ReadWeights(EvalContext& c, int weights, int scale, int zero, int64_t direction) {
  const Shape& shape = c.input(weights).shape();
  QuantizedWeights w{.rows = shape[1], .columns = shape[2], .values = {}, .scales = {}};
  const std::vector<int32_t> all = WidenIntegers(c.input(weights)), zeros = WidenIntegers(c.input(zero));
  const int64_t count = w.rows * w.columns, per_row = c.input(zero).rank() == 2 ? w.columns : 1;
  const int64_t scales_per_row = c.input(scale).rank() == 2 ? w.columns : 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t column = per_row == 1 ? 0 : i % w.columns;
    w.values.push_back(all[direction * count + i] - zeros[direction * per_row + column]);
  }
  for (int64_t j = 0; j < w.columns; ++j) {
    w.scales.push_back(c.input(scale).data<float>()[direction * scales_per_row + (scales_per_row == 1 ? 0 : j)]);
  }
  return w;
}

// One direction: its weights and how a cell goes on from the sums of its gates.
class Cell {
 public:
  Cell(EvalContext& c, int64_t direction, int64_t hidden, const std::vector<Activation>& activations)
      : hidden_(hidden), activations_(activations.data() + 3 * direction) {
    const float* clip = c.node().FindAttribute<float>("clip");
    bound_ = clip ? static_cast<double>(*clip) : std::numeric_limits<double>::infinity();
    couples_ = c.node().GetInt("input_forget", 0) != 0;
    if (c.HasInput(kB)) bias_ = c.input(kB).data<float>() + direction * 8 * hidden;
    if (c.HasInput(kP)) peepholes_ = c.input(kP).data<float>() + direction * 3 * hidden;
  }
  // Updates h and c of one sample; gates stand in the order input, output, forget, cell.
  void Step(const double* from_x, const double* from_h, float* h, double* c) const {
    const Activation &f = activations_[0], &g = activations_[1], &out = activations_[2];
    for (int64_t i = 0; i < hidden_; ++i) {
      const auto gate = [&](int64_t n) {
        const int64_t at = n * hidden_ + i;
        return from_x[at] + from_h[at] + (bias_ ? static_cast<double>(bias_[at]) + bias_[4 * hidden_ + at] : 0.0);
      };
      const auto peep = [&](int64_t n, double state) {
        return peepholes_ ? static_cast<double>(peepholes_[n * hidden_ + i]) * state : 0.0;
      };
      const double input_gate = f(Clipped(gate(0) + peep(0, c[i])));
      const double forget_gate = couples_ ? 1.0 - input_gate : f(Clipped(gate(2) + peep(2, c[i])));
      c[i] = forget_gate * c[i] + input_gate * g(Clipped(gate(3)));
      h[i] = static_cast<float>(f(Clipped(gate(1) + peep(1, c[i]))) * out(c[i]));
    }
  }

 private:
  double Clipped(double v) const { return v < -bound_ ? -bound_ : v > bound_ ? bound_ : v; }
  int64_t hidden_;
  const Activation* activations_;
  double bound_;
  bool couples_;
  const float *bias_ = nullptr, *peepholes_ = nullptr;
};

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor& x = c.input(kX);
  const int64_t steps = x.dim(0), batch = x.dim(1), width = x.dim(2);
  const int64_t directions = c.input(kR).dim(0), hidden = c.input(kR).dim(1);
  QUERN_ASSIGN_OR_RETURN(const std::vector<Activation> activations,
                         ReadActivations(c.node(), {"Sigmoid", "Tanh", "Tanh"}, directions));
  std::vector<int64_t> lengths(static_cast<size_t>(batch), steps);
  if (c.HasInput(kLengths)) {
    QUERN_ASSIGN_OR_RETURN(lengths, ReadInts(c, kLengths));
  }
  int64_t longest = 0;
  for (const int64_t length : lengths) {
    if (length < 0 || length > steps) {
      return c.Error("sequence_lens has the entry " + std::to_string(length) + " but X has " + std::to_string(steps) +
                     " steps");
    }
    longest = std::max(longest, length);
  }
  Tensor out[3];
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (!c.HasOutput(i)) continue;
    QUERN_ASSIGN_OR_RETURN(out[i], outputs.Allocate(c, i));
    std::fill_n(out[i].data<float>(), out[i].num_elements(), 0.0f);
  }
  QUERN_RETURN_IF_ERROR(CheckScratch(c, {8, batch, hidden}));
  QuantizedRows inputs, states;
  inputs.Set(x.data<float>(), longest * batch * width);
  const size_t state_count = static_cast<size_t>(batch * hidden);
  std::vector<double> from_x(static_cast<size_t>(4 * hidden)), from_h(from_x.size()), cells(state_count);
  std::vector<float> h(state_count);
  std::vector<int64_t> scratch;
  for (int64_t d = 0; d < directions; ++d) {
    const bool reverse = d == 1 || c.node().GetString("direction", "forward") == "reverse";
    const QuantizedWeights weights = ReadWeights(c, kW, kWScale, kWZero, d);
    const QuantizedWeights recurrence = ReadWeights(c, kR, kRScale, kRZero, d);
    const Cell cell(c, d, hidden, activations);
    for (size_t i = 0; i < state_count; ++i) {
      h[i] = c.HasInput(kH) ? c.input(kH).data<float>()[d * state_count + i] : 0.0f;
      cells[i] = c.HasInput(kC) ? static_cast<double>(c.input(kC).data<float>()[d * state_count + i]) : 0.0;
    }
    for (int64_t k = 0; k < longest; ++k) {
      states.Set(h.data(), batch * hidden);
      for (int64_t b = 0; b < batch; ++b) {
        if (k >= lengths[b]) continue;
        const int64_t t = reverse ? lengths[b] - 1 - k : k;
        weights.Multiply(inputs.values.data() + (t * batch + b) * width, inputs.scale, scratch, from_x.data());
        recurrence.Multiply(states.values.data() + b * hidden, states.scale, scratch, from_h.data());
        cell.Step(from_x.data(), from_h.data(), h.data() + b * hidden, cells.data() + b * hidden);
        if (!out[0].defined()) continue;
        float* row = out[0].data<float>() + ((t * directions + d) * batch + b) * hidden;
        std::copy_n(h.data() + b * hidden, hidden, row);
      }
    }
    if (out[1].defined()) std::copy(h.begin(), h.end(), out[1].data<float>() + d * state_count);
    for (size_t i = 0; out[2].defined() && i < state_count; ++i) {
      out[2].data<float>()[d * state_count + i] = static_cast<float>(cells[i]);
    }
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"X", "T", kF32Type},
                             {"W", "T2", kByteTypes},
                             {"R", "T2", kByteTypes},
                             {"B", "T", kF32Type, Arity::kOptional},
                             {"sequence_lens", "T1", kI32Type, Arity::kOptional},
                             {"initial_h", "T", kF32Type, Arity::kOptional},
                             {"initial_c", "T", kF32Type, Arity::kOptional},
                             {"P", "T", kF32Type, Arity::kOptional},
                             {"W_scale", "T", kF32Type},
                             {"W_zero_point", "T2", kByteTypes},
                             {"R_scale", "T", kF32Type},
                             {"R_zero_point", "T2", kByteTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kF32Type, Arity::kOptional},
                              {"Y_h", "T", kF32Type, Arity::kOptional},
                              {"Y_c", "T", kF32Type, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"activation_alpha", AttrType::kFloats},
                                    {"activation_beta", AttrType::kFloats},
                                    {"activations", AttrType::kStrings},
                                    {"clip", AttrType::kFloat},
                                    {"direction", AttrType::kString, false, "forward"},
                                    {"hidden_size", AttrType::kInt},
                                    {"input_forget", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate, 0}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftDynamicQuantizeLstm = {"com.microsoft", "DynamicQuantizeLSTM",
                                                                       kVersions};

}  // namespace quern
