// LSTM, GRU and RNN of float32 with constant weights: one product over all steps for the inputs, one for each step for
// the state, both with packed weights; gates through the vector micro-kernels. Sequences that have ended keep their
// state and give zeros.
#include <cstring>

#include "kernels/matmul.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/recurrent_cell.h"

namespace quern::cpu {
namespace {

using kernels::MatMulArgs;
using ukernel::EpilogueKind;
using ukernel::EpilogueOp;
using ukernel::UnaryKind;

constexpr ptrdiff_t kF32 = sizeof(float);

// y[m][n] = x[m][k] * w[n][k] (+ an epilogue), the weights packed: `n` columns of y, which has `width`, from `begin`
// on.
struct Product {
  size_t n = 0, k = 0, begin = 0, width = 0;
  kernels::PackedRhs packed;
  kernels::MatMul matmul;

  // `repeats`: each step of a recurrence reads the weights.
  static Result<Product> Create(const void* weights, int64_t n, int64_t k, size_t expected_m, bool repeats,
                                const CompileContext& c) {
    Product p;
    p.n = p.width = static_cast<size_t>(n);
    p.k = static_cast<size_t>(k);
    kernels::GemmProblem problem;
    problem.n = p.n;
    problem.k = p.k;
    problem.expected_m = expected_m;
    problem.weights_stay = repeats;
    problem.precision = PrecisionFor(*c.config);
    const kernels::SelectOptions options = SelectOptionsFor(*c.config);
    ukernel::RhsSource source;
    source.format = ukernel::Format::kF32;
    source.data = weights;
    source.k_stride = kF32;
    source.n_stride = k * kF32;
    QUERN_ASSIGN_OR_RETURN(const kernels::LayoutChoice layout, kernels::SelectLayout(problem, options));
    QUERN_ASSIGN_OR_RETURN(p.packed, kernels::PackedRhs::Pack(problem, layout, source, c.packing(), options.cpu));
    QUERN_ASSIGN_OR_RETURN(p.matmul, kernels::MatMul::Create(problem, options, layout));
    return p;
  }
  MatMulArgs Args(size_t m, const EpilogueOp* ops, size_t op_count) const {
    MatMulArgs a;
    a.m = m;
    a.lhs_row_stride = static_cast<ptrdiff_t>(k) * kF32;
    a.packed_rhs = &packed;
    a.dst_row_stride = static_cast<ptrdiff_t>(width) * kF32;
    a.ops = ops;
    a.op_count = op_count;
    return a;
  }
};

// A product with its plan for a number of rows.
struct PlannedProduct {
  const Product* product = nullptr;
  size_t m = 0;
  kernels::MatMulPlan plan;

  PlannedProduct() = default;
  // `op`: the one epilogue operation, if any; when planned, its kind.
  PlannedProduct(const Product& p, size_t rows, const EpilogueOp* op, int concurrency)
      : product(&p), m(rows), plan(p.matmul.Plan(p.Args(rows, op, op ? 1 : 0), concurrency)) {}

  Status Run(const StepContext& c, void* workspace, const float* x, float* y, const EpilogueOp* op,
             bool backwards = false) const {
    const size_t begin = product->begin;
    const EpilogueOp part = op ? kernels::MovedRight(*op, begin) : EpilogueOp{};
    MatMulArgs args = product->Args(m, &part, op ? 1 : 0);
    args.lhs = x;
    args.dst = y + begin;
    args.backwards = backwards;
    return product->matmul.Run(
        plan, args,
        {.executor = c.executor, .cancel = c.cancel, .workspace = workspace, .workspace_bytes = plan.workspace_bytes});
  }
};

// What is fixed at load, for each direction.
struct Direction {
  Product from_input;               // all gates
  std::vector<Product> from_state;  // LSTM and RNN: all gates; GRU: update and reset; by columns
  Product hidden_state;             // GRU: the hidden gate
  std::vector<float> bias;          // of all gates; what can be added before the recurrence
  std::vector<float> hidden_bias;   // GRU with linear_before_reset: of the hidden gate's recurrence
  CellForm form;
  bool reverse = false;
};

enum class Cell : uint8_t { kLstm, kGru, kRnn };

Cell CellOf(const Node& node) {
  return node.op_type() == "LSTM" ? Cell::kLstm : node.op_type() == "GRU" ? Cell::kGru : Cell::kRnn;
}

struct Layer {
  Cell cell = Cell::kLstm;
  bool resets_last = false;  // GRU: linear_before_reset
  bool batch_first = false;  // X is [batch, steps, input], Y [batch, steps, directions, hidden]
  int64_t hidden = 0, input = 0;
  std::vector<Direction> directions;
  const ukernel::VectorKernel* row = nullptr;
  int64_t gates() const { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
};

// Columns of a part of weights [n, k] that each step of a recurrence reads: all, or where a thread's share would not
// stay in its L2 from step to step, about what fills a quarter of that.
int64_t StateColumns(int64_t n, int64_t k, const CompileContext& c) {
  constexpr int64_t kMostParts = 8, kUnit = 64;
  const int64_t quarter = std::max<int64_t>(1, static_cast<int64_t>(c.config->cpu.facts().l2_bytes) / 4);
  const int64_t share = n * k * kF32 / c.executor->concurrency();
  if (share <= 3 * quarter) return n;
  const int64_t parts = std::min(kMostParts, (share + quarter - 1) / quarter);
  return (n + parts * kUnit - 1) / (parts * kUnit) * kUnit;
}

constexpr size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

class RecurrentStep final : public CpuStep {
 public:
  RecurrentStep(const Layer& layer, const BindContext& context) : layer_(layer) {
    const Shape& x = context.inputs[0].shape;
    steps_ = x[layer.batch_first ? 1 : 0];
    batch_ = x[layer.batch_first ? 0 : 1];
    has_lengths_ = context.has_input(4);
    has_h_ = context.has_input(5);
    const bool gru = layer.cell == Cell::kGru;
    has_c_ = layer.cell == Cell::kLstm && context.has_input(6);
    for (int i = 0; i < 3; ++i) wanted_[i] = context.has_output(i);
    const EpilogueOp bias{.kind = EpilogueKind::kAddVectorN}, matrix{.kind = EpilogueKind::kAddMatrix};
    const size_t m = static_cast<size_t>(batch_);
    size_t workspace = 0;
    if (steps_ > 0 && batch_ > 0) {
      const size_t counts = has_lengths_ ? std::min(m, kMostCounts) : 1;
      for (size_t i = 1; i <= counts; ++i) counts_.push_back((i * m + counts - 1) / counts);
      for (const Direction& d : layer.directions) {
        const EpilogueOp* hidden_op = d.hidden_bias.empty() ? nullptr : &bias;
        Plans p;
        p.input = PlannedProduct(d.from_input, static_cast<size_t>(steps_) * m, &bias, context.concurrency);
        for (const size_t rows : counts_) {
          Plans::Recurrence r;
          if (gru) r.hidden = PlannedProduct(d.hidden_state, rows, hidden_op, context.concurrency);
          for (const Product& part : d.from_state) {
            r.state.emplace_back(part, rows, gru ? nullptr : &matrix, context.concurrency);
            workspace = std::max(workspace, r.state.back().plan.workspace_bytes);
          }
          workspace = std::max(workspace, r.hidden.plan.workspace_bytes);
          p.recurrences.push_back(std::move(r));
        }
        workspace = std::max(workspace, p.input.plan.workspace_bytes);
        plans_.push_back(std::move(p));
      }
    }
    const auto floats = [&](int64_t n) {
      const size_t at = scratch_;
      scratch_ += Aligned(static_cast<size_t>(n) * sizeof(float));
      return at;
    };
    const int64_t width = layer.gates() * layer.hidden;
    gates_at_ = floats(steps_ * batch_ * width);
    step_at_ = floats(batch_ * width);
    h_at_ = floats(batch_ * layer.hidden);
    c_at_ = floats(batch_ * layer.hidden);
    hidden_at_ = floats(batch_ * layer.hidden);
    workspace_at_ = scratch_;
    scratch_ += workspace;
  }
  size_t scratch_bytes() const override { return scratch_; }

  Status Run(const StepContext& context) const override {
    QUERN_RETURN_IF_ERROR(CheckSequenceLengths(Lengths(context), batch_, steps_));
    for (size_t d = 0; d < layer_.directions.size(); ++d) QUERN_RETURN_IF_ERROR(RunDirection(context, d));
    return OkStatus();
  }

 private:
  static constexpr size_t kMostCounts = 8;
  struct Plans {
    struct Recurrence {
      PlannedProduct hidden;
      std::vector<PlannedProduct> state;
    };
    PlannedProduct input;
    std::vector<Recurrence> recurrences;  // for as many samples as counts_ says
  };

  const int32_t* Lengths(const StepContext& context) const {
    return has_lengths_ ? static_cast<const int32_t*>(context.inputs[4]) : nullptr;
  }
  // Where rows stand: of X from one step, and from one sample, to the next; of Y; of states outside.
  int64_t step_rows() const { return layer_.batch_first ? 1 : batch_; }
  int64_t sample_rows() const { return layer_.batch_first ? steps_ : 1; }
  int64_t OutputRow(int64_t t, int64_t d, int64_t b) const {
    const auto directions = static_cast<int64_t>(layer_.directions.size());
    return layer_.batch_first ? (b * steps_ + t) * directions + d : (t * directions + d) * batch_ + b;
  }
  int64_t StateRow(int64_t d, int64_t b) const {
    return layer_.batch_first ? b * static_cast<int64_t>(layer_.directions.size()) + d : d * batch_ + b;
  }

  Status RunDirection(const StepContext& context, size_t index) const {
    const Direction& direction = layer_.directions[index];
    const auto d = static_cast<int64_t>(index);
    const int64_t hidden = layer_.hidden, states = batch_ * hidden, width = layer_.gates() * hidden;
    if (states == 0) return OkStatus();
    char* scratch = static_cast<char*>(context.scratch);
    const auto floats = [&](size_t at) { return reinterpret_cast<float*>(scratch + at); };
    float *gates = floats(gates_at_), *h = floats(h_at_), *c = floats(c_at_);
    const size_t bytes = static_cast<size_t>(hidden) * sizeof(float);
    const auto start = [&](float* state, bool given, size_t input) {
      std::fill_n(state, states, 0.0f);
      for (int64_t b = 0; given && b < batch_; ++b) {
        const float* from = static_cast<const float*>(context.inputs[input]) + StateRow(d, b) * hidden;
        std::memcpy(state + b * hidden, from, bytes);
      }
    };
    start(h, has_h_, 5);
    start(c, has_c_, 6);
    if (!plans_.empty()) {
      const EpilogueOp bias{.kind = EpilogueKind::kAddVectorN, .data = direction.bias.data()};
      QUERN_RETURN_IF_ERROR(plans_[index].input.Run(context, scratch + workspace_at_,
                                                    static_cast<const float*>(context.inputs[0]), gates, &bias));
      const int32_t* lengths = Lengths(context);
      for (int64_t k = 0; k < steps_; ++k) {
        Moment m{.direction = index, .step = k, .time = direction.reverse ? steps_ - 1 - k : k, .lengths = lengths};
        m.from_input = gates + m.time * step_rows() * width;
        int64_t last = batch_ - 1;
        while (last >= 0 && !m.Reaches(last)) --last;
        if (last >= 0) {
          size_t i = 0;
          while (static_cast<int64_t>(counts_[i]) <= last) ++i;
          m.samples = static_cast<int64_t>(counts_[i]);
          m.recurrence = &plans_[index].recurrences[i];
          QUERN_RETURN_IF_ERROR(Step(context, m, h, c));
        }
        for (int64_t b = 0; wanted_[0] && b < batch_; ++b) {
          float* to = static_cast<float*>(context.outputs[0]) + OutputRow(m.time, d, b) * hidden;
          if (m.Reaches(b)) {
            std::memcpy(to, h + b * hidden, bytes);
          } else {
            std::memset(to, 0, bytes);
          }
        }
        if (context.cancel && context.cancel->cancelled()) return Cancelled("the run was cancelled");
      }
    }
    for (size_t i : {1, 2}) {
      for (int64_t b = 0; wanted_[i] && b < batch_; ++b) {
        float* to = static_cast<float*>(context.outputs[i]) + StateRow(d, b) * hidden;
        std::memcpy(to, (i == 1 ? h : c) + b * hidden, bytes);
      }
    }
    return OkStatus();
  }

  // A step of a direction.
  struct Moment {
    size_t direction = 0;
    const Plans::Recurrence* recurrence = nullptr;
    int64_t samples = 0;  // the first ones; the others have ended
    int64_t step = 0;     // of all that are made
    int64_t time = 0;     // in X
    const int32_t* lengths = nullptr;
    const float* from_input = nullptr;  // the gates of the first sample

    // Whether sample b has not ended before it.
    bool Reaches(int64_t b) const { return !lengths || time < lengths[b]; }
  };

  Status Step(const StepContext& context, const Moment& m, float* h, float* c) const {
    switch (layer_.cell) {
      case Cell::kLstm:
        return StepLstm(context, m, h, c);
      case Cell::kGru:
        return StepGru(context, m, h);
      case Cell::kRnn:
        break;
    }
    return StepRnn(context, m, h);
  }

  // h * R (+ an epilogue). Every other step takes the columns the other way round: it begins with what the caches hold
  // of the step before.
  Status MultiplyState(const StepContext& context, const Moment& m, const float* h, float* y,
                       const EpilogueOp* op) const {
    const std::vector<PlannedProduct>& parts = m.recurrence->state;
    void* workspace = static_cast<char*>(context.scratch) + workspace_at_;
    const bool backwards = m.step % 2 != 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      QUERN_RETURN_IF_ERROR(parts[backwards ? parts.size() - 1 - i : i].Run(context, workspace, h, y, op, backwards));
    }
    return OkStatus();
  }
  // What the input gives + h * R: all gates of a step.
  Status AddRecurrence(const StepContext& context, const Moment& m, const float* h, float* gates) const {
    const EpilogueOp add{.kind = EpilogueKind::kAddMatrix,
                         .data = m.from_input,
                         .row_stride = static_cast<size_t>(sample_stride()) * sizeof(float)};
    return MultiplyState(context, m, h, gates, &add);
  }
  // Between the gates of two samples (elements).
  int64_t sample_stride() const { return sample_rows() * layer_.gates() * layer_.hidden; }

  Status StepRnn(const StepContext& context, const Moment& m, float* h) const {
    const int64_t n = layer_.hidden;
    float* gates = reinterpret_cast<float*>(static_cast<char*>(context.scratch) + step_at_);
    QUERN_RETURN_IF_ERROR(AddRecurrence(context, m, h, gates));
    for (int64_t b = 0; b < m.samples; ++b, gates += n, h += n) {
      if (!m.Reaches(b)) continue;
      layer_.directions[m.direction].form.Activate(*layer_.row, 0, gates, n);
      std::memcpy(h, gates, static_cast<size_t>(n) * sizeof(float));
    }
    return OkStatus();
  }

  // Gates: input, output, forget, cell.
  Status StepLstm(const StepContext& context, const Moment& m, float* h, float* c) const {
    const int64_t n = layer_.hidden;
    float* gates = reinterpret_cast<float*>(static_cast<char*>(context.scratch) + step_at_);
    QUERN_RETURN_IF_ERROR(AddRecurrence(context, m, h, gates));
    for (int64_t b = 0; b < m.samples; ++b, gates += 4 * n, h += n, c += n) {
      if (m.Reaches(b)) FinishLstm(*layer_.row, layer_.directions[m.direction].form, n, gates, h, c);
    }
    return OkStatus();
  }

  // Gates: update, reset, hidden.
  Status StepGru(const StepContext& context, const Moment& m, float* h) const {
    const int64_t n = layer_.hidden;
    const Direction& direction = layer_.directions[m.direction];
    char* scratch = static_cast<char*>(context.scratch);
    float* gates = reinterpret_cast<float*>(scratch + step_at_);  // [batch][2 n], then reset states [batch][n]
    float* reset_states = gates + batch_ * 2 * n;
    float* part = reinterpret_cast<float*>(scratch + hidden_at_);
    void* workspace = scratch + workspace_at_;
    QUERN_RETURN_IF_ERROR(MultiplyState(context, m, h, gates, nullptr));
    for (int64_t b = 0; b < m.samples; ++b) {
      float* g = gates + b * 2 * n;
      const float* x = m.from_input + b * sample_stride();
      for (int64_t i = 0; i < 2 * n; ++i) g[i] += x[i];
      direction.form.Activate(*layer_.row, 0, g, 2 * n);
      if (layer_.resets_last) continue;
      for (int64_t i = 0; i < n; ++i) reset_states[b * n + i] = g[n + i] * h[b * n + i];
    }
    const EpilogueOp bias{.kind = EpilogueKind::kAddVectorN, .data = direction.hidden_bias.data()};
    QUERN_RETURN_IF_ERROR(m.recurrence->hidden.Run(context, workspace, layer_.resets_last ? h : reset_states, part,
                                                   direction.hidden_bias.empty() ? nullptr : &bias, m.step % 2 != 0));
    for (int64_t b = 0; b < m.samples; ++b) {
      if (!m.Reaches(b)) continue;
      const float *update = gates + b * 2 * n, *reset = update + n;
      const float* x = m.from_input + b * sample_stride() + 2 * n;
      float *p = part + b * n, *state = h + b * n;
      for (int64_t i = 0; i < n; ++i) p[i] = x[i] + (layer_.resets_last ? p[i] * reset[i] : p[i]);
      direction.form.Activate(*layer_.row, 1, p, n);
      for (int64_t i = 0; i < n; ++i) state[i] = (1 - update[i]) * p[i] + update[i] * state[i];
    }
    return OkStatus();
  }

  const Layer& layer_;
  int64_t steps_ = 0, batch_ = 0;
  bool has_lengths_ = false, has_h_ = false, has_c_ = false, wanted_[3] = {};
  std::vector<size_t> counts_;
  std::vector<Plans> plans_;
  size_t gates_at_ = 0, step_at_ = 0, h_at_ = 0, c_at_ = 0, hidden_at_ = 0, workspace_at_ = 0, scratch_ = 0;
};

class RecurrentKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context);
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return std::unique_ptr<CpuStep>(new RecurrentStep(layer_, context));
  }
  bool sums_products() const override { return true; }
  KernelDescription Describe() const override {
    const kernels::MatMul& product = layer_.directions[0].from_state[0].matmul;
    KernelDescription d = DescribeRow(product.problem(), config_, product.layout(), product.RowFor(1), 1);
    const char* cell = layer_.cell == Cell::kLstm ? "LSTM" : layer_.cell == Cell::kGru ? "GRU" : "RNN";
    d.why += std::string(", ") + cell + " gates by " + ukernel::Name(*layer_.row).text;
    for (const Direction& direction : layer_.directions) {
      d.packed_bytes += direction.from_input.packed.packed_bytes() + direction.hidden_state.packed.packed_bytes();
      for (const Product& part : direction.from_state) d.packed_bytes += part.packed.packed_bytes();
    }
    return d;
  }
  uint64_t packed_inputs() const override { return 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7; }  // W, R, B and P

 private:
  CpuConfig config_;
  Layer layer_;
};

Result<std::unique_ptr<CpuKernel>> RecurrentKernel::Create(const Node& node, const CompileContext& context) {
  auto kernel = std::make_unique<RecurrentKernel>();
  kernel->config_ = *context.config;
  Layer& layer = kernel->layer_;
  layer.cell = CellOf(node);
  const bool gru = layer.cell == Cell::kGru;
  layer.resets_last = gru && node.GetInt("linear_before_reset", 0) != 0;
  layer.batch_first = node.GetInt("layout", 0) != 0;
  layer.row = VectorRowFor(*context.config);
  QUERN_ASSIGN_OR_RETURN(const Tensor w, node.input(1)->constant()->tensor().Contiguous());
  QUERN_ASSIGN_OR_RETURN(const Tensor r, node.input(2)->constant()->tensor().Contiguous());
  Tensor b, peepholes;
  if (node.input(3)) {
    QUERN_ASSIGN_OR_RETURN(b, node.input(3)->constant()->tensor().Contiguous());
  }
  if (node.input(7)) {
    QUERN_ASSIGN_OR_RETURN(peepholes, node.input(7)->constant()->tensor().Contiguous());
  }
  QUERN_ASSIGN_OR_RETURN(std::vector<CellForm> forms, ReadCellForms(node, w.dim(0)));
  layer.hidden = r.dim(2);
  layer.input = w.dim(2);
  const int64_t n = layer.hidden, width = layer.gates() * n;
  const Dims& x = *node.input(0)->type().shape;
  const Dim rows = x[0] * x[1], batch = x[layer.batch_first ? 0 : 1];
  const auto expected = [](const Dim& d) { return d.is_constant() ? static_cast<size_t>(d.value()) : 0; };
  for (int64_t d = 0; d < w.dim(0); ++d) {
    Direction direction;
    direction.reverse = d == 1 || node.GetString("direction", "forward") == "reverse";
    const char* weights = static_cast<const char*>(w.unaligned_data()) + d * width * layer.input * kF32;
    const char* recurrence = static_cast<const char*>(r.unaligned_data()) + d * width * n * kF32;
    QUERN_ASSIGN_OR_RETURN(direction.from_input,
                           Product::Create(weights, width, layer.input, expected(rows), false, context));
    const int64_t together = gru ? 2 * n : width;
    const int64_t columns = StateColumns(together, n, context);
    for (int64_t begin = 0; begin < together; begin += columns) {
      QUERN_ASSIGN_OR_RETURN(Product part,
                             Product::Create(recurrence + begin * n * kF32, std::min(columns, together - begin), n,
                                             expected(batch), true, context));
      part.begin = static_cast<size_t>(begin);
      part.width = static_cast<size_t>(together);
      direction.from_state.push_back(std::move(part));
    }
    if (gru) {
      QUERN_ASSIGN_OR_RETURN(direction.hidden_state,
                             Product::Create(recurrence + 2 * n * n * kF32, n, n, expected(batch), true, context));
    }
    direction.form = std::move(forms[static_cast<size_t>(d)]);
    if (peepholes.defined()) {
      const float* own = peepholes.data<float>() + d * 3 * n;
      direction.form.peepholes.assign(own, own + 3 * n);
    }
    direction.bias.assign(static_cast<size_t>(width), 0.0f);
    if (b.defined()) {
      const float *from_input = b.data<float>() + d * 2 * width, *from_state = from_input + width;
      for (int64_t i = 0; i < width; ++i) {
        // The reset gate scales the hidden gate's recurrent bias too, so that is added with the recurrence.
        const bool apart = layer.resets_last && i >= 2 * n;
        direction.bias[static_cast<size_t>(i)] = from_input[i] + (apart ? 0.0f : from_state[i]);
      }
      if (layer.resets_last) direction.hidden_bias.assign(from_state + 2 * n, from_state + 3 * n);
    }
    layer.directions.push_back(std::move(direction));
  }
  return std::unique_ptr<CpuKernel>(std::move(kernel));
}

std::string RejectRecurrent(const Node& node, const CpuConfig&) {
  for (int i : {0, 1, 2, 3, 5, 6, 7}) {
    if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
  }
  for (int i : {1, 2, 3, 7}) {
    if (node.input(i) && !node.input(i)->is_constant()) return "weights that are not constant";
  }
  if (node.input(0)->type().rank() != 3) return "an input of unknown rank";
  for (int i : {1, 2}) {
    const Dims& d = *node.input(i)->type().shape;
    if (d.size() != 3 || quern::Product(d).is_constant(0)) return "weights of another shape";
  }
  const int64_t directions = node.input(1)->constant()->tensor().dim(0);
  const Status functions = ReadCellForms(node, directions).status();
  return functions.ok() ? std::string() : functions.message();
}

constexpr CpuOp kOps[] = {
    {"", "LSTM", RejectRecurrent, RecurrentKernel::Create},
    {"", "GRU", RejectRecurrent, RecurrentKernel::Create},
    {"", "RNN", RejectRecurrent, RecurrentKernel::Create},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsRecurrent = kOps;

}  // namespace quern::cpu
