// com.microsoft.DynamicQuantizeLSTM with constant 8-bit weights: all inputs are quantized together and multiplied at
// once, the states of a batch at every step. Sequences that have ended keep their state, which still counts for the
// range of all states, and give zeros.
#include <cstring>

#include "kernels/matmul.h"
#include "provider/cpu/common/dynamic_bytes.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/recurrent_cell.h"

namespace quern::cpu {
namespace {

using kernels::MatMulArgs;
using ukernel::EpilogueKind;
using ukernel::EpilogueOp;

enum Input { kX, kW, kR, kB, kLengths, kH, kC, kP, kWScale, kWZero, kRScale, kRZero };

// Longer sums might leave int32.
constexpr int64_t kLongest = 32768;
constexpr size_t kOps = 2;  // of each product: the scales, and what is added

// float y[m][n] = bytes x[m][k] * w[k][n], the weights packed.
struct ByteProduct {
  int64_t n = 0, k = 0;
  kernels::PackedRhs packed;
  kernels::MatMul matmul;
  std::vector<float> scales;   // of the weights, one for each column
  std::vector<int32_t> zeros;  // likewise

  MatMulArgs Args(size_t m, const EpilogueOp* ops) const {
    MatMulArgs a;
    a.m = m;
    a.lhs_row_stride = static_cast<ptrdiff_t>(k);
    a.packed_rhs = &packed;
    a.dst_row_stride = n * static_cast<ptrdiff_t>(sizeof(float));
    a.ops = ops;
    a.op_count = kOps;
    a.zero_points.rhs_columns = zeros.data();
    return a;
  }
};

// Of direction d of `weights`, a constant [directions, k, n].
Result<ByteProduct> MakeProduct(const Node& node, Input weights, Input scale, Input zero, int64_t d, const Dim& rows,
                                const CompileContext& context) {
  const auto tensor = [&](Input i) { return node.input(i)->constant()->tensor().Contiguous(); };
  QUERN_ASSIGN_OR_RETURN(const Tensor w, tensor(weights));
  QUERN_ASSIGN_OR_RETURN(const Tensor scales, tensor(scale));
  QUERN_ASSIGN_OR_RETURN(const Tensor zeros, tensor(zero));
  ByteProduct p;
  p.k = w.dim(1);
  p.n = w.dim(2);
  // One number for a direction, or for each of its columns.
  const auto index = [&](const Tensor& t, int64_t column) { return t.rank() == 2 ? d * p.n + column : d; };
  for (int64_t j = 0; j < p.n; ++j) {
    p.scales.push_back(scales.data<float>()[index(scales, j)]);
    const int64_t at = index(zeros, j);
    p.zeros.push_back(zeros.dtype() == DType::kI8 ? int32_t{zeros.data<int8_t>()[at]}
                                                  : int32_t{zeros.data<uint8_t>()[at]});
  }
  kernels::GemmProblem problem;
  problem.lhs = ukernel::Format::kU8;
  problem.rhs = ukernel::FormatOf(w.dtype());
  problem.n = static_cast<size_t>(p.n);
  problem.k = static_cast<size_t>(p.k);
  problem.expected_m = rows.is_constant() ? static_cast<size_t>(rows.value()) : 0;
  ukernel::RhsSource source;
  source.format = problem.rhs;
  source.data = static_cast<const char*>(w.unaligned_data()) + d * p.k * p.n;
  source.k_stride = p.n;
  source.n_stride = 1;
  const kernels::SelectOptions options = SelectOptionsFor(*context.config);
  QUERN_ASSIGN_OR_RETURN(const kernels::LayoutChoice layout, kernels::SelectLayout(problem, options));
  QUERN_ASSIGN_OR_RETURN(p.packed, kernels::PackedRhs::Pack(problem, layout, source, context.packing(), options.cpu));
  QUERN_ASSIGN_OR_RETURN(p.matmul, kernels::MatMul::Create(problem, options, layout));
  return p;
}

struct Direction {
  ByteProduct from_input, from_state;
  std::vector<float> bias;  // of all gates
  CellForm form;
  bool reverse = false;
};

struct Layer {
  int64_t hidden = 0, input = 0;
  std::vector<Direction> directions;
  const ukernel::VectorKernel* row = nullptr;
  const ukernel::AffineKernel* affine = nullptr;
};

class ByteLstmStep final : public CpuStep {
 public:
  ByteLstmStep(const Layer& layer, const BindContext& context) : layer_(layer) {
    const Shape& x = context.inputs[kX].shape;
    steps_ = x[0];
    batch_ = x[1];
    has_lengths_ = context.has_input(kLengths);
    has_h_ = context.has_input(kH);
    has_c_ = context.has_input(kC);
    for (int i = 0; i < 3; ++i) wanted_[i] = context.has_output(i);
    const auto rows = static_cast<size_t>(steps_ * batch_), m = static_cast<size_t>(batch_);
    size_t workspace = 0;
    for (const Direction& d : layer.directions) {
      if (rows == 0) break;
      EpilogueOp ops[kOps] = {{.kind = EpilogueKind::kMulVectorN, .data = d.bias.data()},
                              {.kind = EpilogueKind::kAddVectorN, .data = d.bias.data()}};
      Plans p;
      p.input = d.from_input.matmul.Plan(d.from_input.Args(rows, ops), context.concurrency);
      ops[1] = AddedGates(nullptr);
      p.state = d.from_state.matmul.Plan(d.from_state.Args(m, ops), context.concurrency);
      workspace = std::max({workspace, p.input.workspace_bytes, p.state.workspace_bytes});
      plans_.push_back(p);
    }
    const auto take = [&](int64_t bytes) {
      const size_t at = scratch_;
      scratch_ += (static_cast<size_t>(bytes) + 63) / 64 * 64;
      return at;
    };
    constexpr int64_t kFloat = sizeof(float);
    const int64_t width = 4 * layer.hidden, states = batch_ * layer.hidden;
    gates_at_ = take(steps_ * batch_ * width * kFloat);
    step_at_ = take(batch_ * width * kFloat);
    gathered_at_ = take(has_lengths_ ? batch_ * width * kFloat : 0);
    factors_at_ = take(width * kFloat);
    h_at_ = take(states * kFloat);
    c_at_ = take(states * kFloat);
    input_bytes_at_ = take(steps_ * batch_ * layer.input);
    state_bytes_at_ = take(states);
    workspace_at_ = take(static_cast<int64_t>(workspace));
  }
  size_t scratch_bytes() const override { return scratch_; }

  Status Run(const StepContext& context) const override {
    const auto* lengths = has_lengths_ ? static_cast<const int32_t*>(context.inputs[kLengths]) : nullptr;
    QUERN_RETURN_IF_ERROR(CheckSequenceLengths(lengths, batch_, steps_));
    const int64_t longest = lengths && batch_ > 0 ? *std::max_element(lengths, lengths + batch_) : steps_;
    const int64_t inputs = steps_ * batch_ * layer_.input;
    DynamicQuantization quantization{};
    if (!plans_.empty()) {
      const auto* x = static_cast<const float*>(context.inputs[kX]);
      quantization = DynamicQuantizationOf(*layer_.row, x, longest * batch_ * layer_.input);
      QuantizeBytes(*layer_.affine, quantization, x, inputs, At<uint8_t>(context, input_bytes_at_));
    }
    for (size_t d = 0; d < layer_.directions.size(); ++d) {
      QUERN_RETURN_IF_ERROR(RunDirection(context, d, quantization, lengths, longest));
    }
    return OkStatus();
  }

 private:
  struct Plans {
    kernels::MatMulPlan input, state;
  };

  template <typename T>
  static T* At(const StepContext& context, size_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(context.scratch) + offset);
  }
  EpilogueOp AddedGates(const float* gates) const {
    return {.kind = EpilogueKind::kAddMatrix,
            .data = gates,
            .row_stride = static_cast<size_t>(4 * layer_.hidden) * sizeof(float)};
  }

  // y = the product of quantized rows with the weights, and `added`.
  Status Multiply(const StepContext& context, const ByteProduct& product, const kernels::MatMulPlan& plan, size_t rows,
                  const uint8_t* x, const DynamicQuantization& quantization, const EpilogueOp& added, float* y) const {
    auto* factors = At<float>(context, factors_at_);
    for (int64_t j = 0; j < product.n; ++j) factors[j] = quantization.scale * product.scales[static_cast<size_t>(j)];
    const EpilogueOp ops[kOps] = {{.kind = EpilogueKind::kMulVectorN, .data = factors}, added};
    MatMulArgs args = product.Args(rows, ops);
    args.zero_points.lhs = quantization.zero_point;
    args.lhs = x;
    args.dst = y;
    return product.matmul.Run(plan, args,
                              {.executor = context.executor,
                               .cancel = context.cancel,
                               .workspace = At<char>(context, workspace_at_),
                               .workspace_bytes = plan.workspace_bytes});
  }

  Status RunDirection(const StepContext& context, size_t d, const DynamicQuantization& inputs, const int32_t* lengths,
                      int64_t longest) const {
    const Direction& direction = layer_.directions[d];
    const int64_t hidden = layer_.hidden, states = batch_ * hidden, width = 4 * hidden;
    if (states == 0) return OkStatus();
    const size_t bytes = static_cast<size_t>(states) * sizeof(float);
    float *gates = At<float>(context, gates_at_), *step = At<float>(context, step_at_);
    float *h = At<float>(context, h_at_), *c = At<float>(context, c_at_);
    auto* state_bytes = At<uint8_t>(context, state_bytes_at_);
    const auto start = [&](float* state, bool given, Input input) {
      if (given) {
        std::memcpy(state, static_cast<const float*>(context.inputs[input]) + static_cast<int64_t>(d) * states, bytes);
      } else {
        std::memset(state, 0, bytes);
      }
    };
    start(h, has_h_, kH);
    start(c, has_c_, kC);
    if (!plans_.empty()) {
      const EpilogueOp bias{.kind = EpilogueKind::kAddVectorN, .data = direction.bias.data()};
      QUERN_RETURN_IF_ERROR(Multiply(context, direction.from_input, plans_[d].input,
                                     static_cast<size_t>(steps_ * batch_), At<uint8_t>(context, input_bytes_at_),
                                     inputs, bias, gates));
    }
    const auto length = [&](int64_t b) { return lengths ? int64_t{lengths[b]} : steps_; };
    const auto y_row = [&](int64_t t, int64_t b) {
      const int64_t row = t * static_cast<int64_t>(layer_.directions.size()) + static_cast<int64_t>(d);
      return static_cast<float*>(context.outputs[0]) + (row * batch_ + b) * hidden;
    };
    for (int64_t k = 0; k < longest; ++k) {
      const auto time = [&](int64_t b) { return direction.reverse ? length(b) - 1 - k : k; };
      const float* from_input = gates + time(0) * batch_ * width;
      if (lengths) {  // whose samples stand at different times
        float* gathered = At<float>(context, gathered_at_);
        for (int64_t b = 0; b < batch_; ++b) {
          const int64_t row = std::max<int64_t>(time(b), 0) * batch_ + b;
          std::memcpy(gathered + b * width, gates + row * width, static_cast<size_t>(width) * sizeof(float));
        }
        from_input = gathered;
      }
      const DynamicQuantization quantization = DynamicQuantizationOf(*layer_.row, h, states);
      QuantizeBytes(*layer_.affine, quantization, h, states, state_bytes);
      QUERN_RETURN_IF_ERROR(Multiply(context, direction.from_state, plans_[d].state, static_cast<size_t>(batch_),
                                     state_bytes, quantization, AddedGates(from_input), step));
      for (int64_t b = 0; b < batch_; ++b) {
        if (k >= length(b)) continue;
        FinishLstm(*layer_.row, direction.form, hidden, step + b * width, h + b * hidden, c + b * hidden);
        if (wanted_[0]) {
          std::memcpy(y_row(time(b), b), h + b * hidden, static_cast<size_t>(hidden) * sizeof(float));
        }
      }
      if (context.cancel && context.cancel->cancelled()) return Cancelled("the run was cancelled");
    }
    for (int64_t b = 0; wanted_[0] && b < batch_; ++b) {
      for (int64_t t = length(b); t < steps_; ++t) std::fill_n(y_row(t, b), hidden, 0.0f);
    }
    for (size_t i : {1, 2}) {
      if (!wanted_[i]) continue;
      std::memcpy(static_cast<float*>(context.outputs[i]) + static_cast<int64_t>(d) * states, i == 1 ? h : c, bytes);
    }
    return OkStatus();
  }

  const Layer& layer_;
  int64_t steps_ = 0, batch_ = 0;
  bool has_lengths_ = false, has_h_ = false, has_c_ = false, wanted_[3] = {};
  std::vector<Plans> plans_;
  size_t gates_at_ = 0, step_at_ = 0, gathered_at_ = 0, factors_at_ = 0, h_at_ = 0, c_at_ = 0, input_bytes_at_ = 0,
         state_bytes_at_ = 0;
  size_t workspace_at_ = 0, scratch_ = 0;
};

class ByteLstmKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context) {
    auto kernel = std::make_unique<ByteLstmKernel>();
    kernel->config_ = *context.config;
    Layer& layer = kernel->layer_;
    layer.row = VectorRowFor(*context.config);
    layer.affine = AffineRowFor(*context.config);
    const Shape &w = node.input(kW)->constant()->tensor().shape(), &r = node.input(kR)->constant()->tensor().shape();
    layer.input = w[1];
    layer.hidden = r[1];
    const Dims& x = *node.input(kX)->type().shape;
    Tensor b, peepholes;
    if (node.input(kB)) {
      QUERN_ASSIGN_OR_RETURN(b, node.input(kB)->constant()->tensor().Contiguous());
    }
    if (node.input(kP)) {
      QUERN_ASSIGN_OR_RETURN(peepholes, node.input(kP)->constant()->tensor().Contiguous());
    }
    QUERN_ASSIGN_OR_RETURN(std::vector<CellForm> forms, ReadCellForms(node, w[0]));
    for (int64_t d = 0; d < w[0]; ++d) {
      Direction direction;
      direction.reverse = d == 1 || node.GetString("direction", "forward") == "reverse";
      QUERN_ASSIGN_OR_RETURN(direction.from_input, MakeProduct(node, kW, kWScale, kWZero, d, x[0] * x[1], context));
      QUERN_ASSIGN_OR_RETURN(direction.from_state, MakeProduct(node, kR, kRScale, kRZero, d, x[1], context));
      direction.form = std::move(forms[static_cast<size_t>(d)]);
      if (peepholes.defined()) {
        const float* own = peepholes.data<float>() + d * 3 * layer.hidden;
        direction.form.peepholes.assign(own, own + 3 * layer.hidden);
      }
      const int64_t width = 4 * layer.hidden;
      direction.bias.assign(static_cast<size_t>(width), 0.0f);
      for (int64_t i = 0; b.defined() && i < width; ++i) {
        const float* both = b.data<float>() + d * 2 * width;
        direction.bias[static_cast<size_t>(i)] = both[i] + both[width + i];
      }
      layer.directions.push_back(std::move(direction));
    }
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return std::unique_ptr<CpuStep>(new ByteLstmStep(layer_, context));
  }
  KernelDescription Describe() const override {
    const kernels::MatMul& product = layer_.directions[0].from_state.matmul;
    KernelDescription d = DescribeRow(product.problem(), config_, product.layout(), product.RowFor(1), 1);
    d.why += std::string(", LSTM gates by ") + ukernel::Name(*layer_.row).text;
    for (const Direction& direction : layer_.directions) {
      d.packed_bytes += direction.from_input.packed.packed_bytes() + direction.from_state.packed.packed_bytes();
    }
    return d;
  }
  uint64_t packed_inputs() const override { return 1 << kW | 1 << kR | 1 << kB | 1 << kP; }

 private:
  CpuConfig config_;
  Layer layer_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (const int i : {kX, kB, kH, kC, kP, kWScale, kRScale}) {
    if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
  }
  for (const int i : {kW, kR, kB, kP, kWScale, kWZero, kRScale, kRZero}) {
    if (node.input(i) && !node.input(i)->is_constant()) return "weights that are not constant";
  }
  if (node.input(kX)->type().rank() != 3) return "an input that is not [steps, batch, input]";
  for (const int i : {kW, kR}) {
    const Shape& shape = node.input(i)->constant()->tensor().shape();
    if (shape.rank() != 3 || shape.num_elements() == 0) return "weights of another shape";
    if (shape[1] > kLongest) return "sums that may leave 32 bits";
  }
  const Status functions = ReadCellForms(node, node.input(kW)->constant()->tensor().dim(0)).status();
  return functions.ok() ? std::string() : functions.message();
}

constexpr CpuOp kCpuOps[] = {{"com.microsoft", "DynamicQuantizeLSTM", Reject, ByteLstmKernel::Create}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsDynamicQuantizeLstm = kCpuOps;

}  // namespace quern::cpu
