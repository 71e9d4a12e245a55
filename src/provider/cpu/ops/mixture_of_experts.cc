// MoE and QMoE of com.microsoft with constant weights: the tokens of an expert together, through products with packed
// weights. Fused weights of SwiGLU are two products, of every other row or of half of them.
#include <algorithm>
#include <cstring>

#include "kernels/matmul.h"
#include "ops/common/expert_weights.h"
#include "ops/common/mixture_of_experts.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using kernels::MatMulArgs;
using ukernel::EpilogueKind;
using ukernel::EpilogueOp;
using ukernel::Format;
using ukernel::UnaryKind;

constexpr ptrdiff_t kF32 = sizeof(float);

// Rows `first`, `first` + step, ... of a matrix of each expert.
struct RowsOf {
  int64_t first = 0, step = 1, count = 0;
};

// A product of each expert: y[m][n] = x[m][k] * w[n][k] + bias[n].
struct ExpertProduct {
  kernels::MatMul matmul;
  std::vector<kernels::PackedRhs> experts;
  std::vector<float> biases;  // [experts][n], or empty

  size_t n() const { return matmul.problem().n; }
  size_t k() const { return matmul.problem().k; }
  size_t op_count() const { return biases.empty() ? 0 : 1; }
  EpilogueOp Bias(size_t expert) const {
    return {.kind = EpilogueKind::kAddVectorN, .data = biases.empty() ? nullptr : biases.data() + expert * n()};
  }
  MatMulArgs Args(size_t m, size_t expert, const EpilogueOp* bias) const {
    MatMulArgs a;
    a.m = m;
    a.lhs_row_stride = static_cast<ptrdiff_t>(k()) * kF32;
    a.packed_rhs = &experts[expert];
    a.dst_row_stride = static_cast<ptrdiff_t>(n()) * kF32;
    a.ops = bias;
    a.op_count = op_count();
    return a;
  }
  size_t packed_bytes() const {
    size_t bytes = 0;
    for (const kernels::PackedRhs& e : experts) bytes += e.packed_bytes();
    return bytes;
  }
};

// What is fixed at load.
struct Mixture {
  ExpertForm form;
  ExpertInputs inputs{};
  RouteWeights by{};
  int64_t experts = 0, hidden = 0, units = 0;
  ExpertProduct first, gate, second;  // `gate`: where the form has one
  const ukernel::VectorKernel* row = nullptr;
  bool gated() const { return form.gate != ExpertForm::Gate::kNone; }
};

// Numbers of tokens that products are planned for: all small ones, larger ones an eighth apart; the last is `most`.
std::vector<size_t> PlannedCounts(size_t most) {
  std::vector<size_t> counts;
  for (size_t m = 1; m < most; m += std::max<size_t>(1, m / 8)) counts.push_back(m);
  counts.push_back(most);
  return counts;
}

class MixtureStep final : public CpuStep {
 public:
  MixtureStep(const Mixture& mixture, const BindContext& context) : m_(mixture) {
    const Shape& x = context.inputs[static_cast<size_t>(m_.inputs.x)].shape;
    tokens_ = x.num_elements(0, x.rank() - 1);
    given_ = m_.inputs.given_weights >= 0 && context.has_input(m_.inputs.given_weights);
    counts_ = PlannedCounts(static_cast<size_t>(tokens_));
    size_t workspace = 0;
    const auto plan = [&](const ExpertProduct& product, std::vector<kernels::MatMulPlan>& plans) {
      for (const size_t count : counts_) {
        const EpilogueOp bias = product.Bias(0);
        plans.push_back(product.matmul.Plan(product.Args(count, 0, &bias), context.concurrency));
        workspace = std::max(workspace, plans.back().workspace_bytes);
      }
    };
    plan(m_.first, first_plans_);
    if (m_.gated()) plan(m_.gate, gate_plans_);
    plan(m_.second, second_plans_);
    const auto take = [&](int64_t elements, size_t bytes) {
      const size_t at = scratch_;
      scratch_ += (static_cast<size_t>(elements) * bytes + 63) / 64 * 64;
      return at;
    };
    routes_at_ = take(tokens_ * m_.form.top, sizeof(Route));
    starts_at_ = take(m_.experts + 1, sizeof(int64_t));
    order_at_ = take(tokens_ * m_.form.top, sizeof(int64_t));
    rows_at_ = take(tokens_ * m_.hidden, sizeof(float));
    units_at_ = take(tokens_ * m_.units, sizeof(float));
    gate_at_ = take(m_.gated() ? tokens_ * m_.units : 0, sizeof(float));
    workspace_at_ = take(static_cast<int64_t>(workspace), 1);
  }
  size_t scratch_bytes() const override { return scratch_; }

  Status Run(const StepContext& c) const override {
    auto* y = static_cast<float*>(c.outputs[0]);
    std::fill_n(y, tokens_ * m_.hidden, 0.0f);
    SortRoutes(c);
    const auto* starts = At<int64_t>(c, starts_at_);
    for (int64_t e = 0; e < m_.experts; ++e) {
      const int64_t count = starts[e + 1] - starts[e];
      if (count > 0) QUERN_RETURN_IF_ERROR(RunExpert(c, e, At<int64_t>(c, order_at_) + starts[e], count, y));
    }
    return OkStatus();
  }

 private:
  template <typename T>
  static T* At(const StepContext& c, size_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(c.scratch) + offset);
  }
  static const float* Floats(const StepContext& c, int input) {
    return static_cast<const float*>(c.inputs[static_cast<size_t>(input)]);
  }

  // order[starts[e] to starts[e + 1]): the routes to expert e.
  void SortRoutes(const StepContext& c) const {
    auto* routes = At<Route>(c, routes_at_);
    auto *starts = At<int64_t>(c, starts_at_), *order = At<int64_t>(c, order_at_);
    const float* scores = Floats(c, m_.inputs.scores);
    const float* given = given_ ? Floats(c, m_.inputs.given_weights) : nullptr;
    const RouteWeights by = given_ ? RouteWeights::kGiven : m_.by;
    std::fill_n(starts, m_.experts + 1, int64_t{0});
    for (int64_t t = 0; t < tokens_; ++t) {
      Route* own = routes + t * m_.form.top;
      ChooseExperts(m_.form, by, m_.experts, scores + t * m_.experts, given_ ? given + t * m_.experts : nullptr, own);
      for (int64_t i = 0; i < m_.form.top; ++i) ++starts[own[i].expert + 1];
    }
    for (int64_t e = 0; e < m_.experts; ++e) starts[e + 1] += starts[e];
    for (int64_t r = tokens_ * m_.form.top - 1; r >= 0; --r) order[--starts[routes[r].expert + 1]] = r;
    // Each start has moved to that of the expert before it.
    std::memmove(starts, starts + 1, static_cast<size_t>(m_.experts) * sizeof(int64_t));
    starts[m_.experts] = tokens_ * m_.form.top;
  }

  Status RunExpert(const StepContext& c, int64_t e, const int64_t* order, int64_t count, float* y) const {
    const int64_t hidden = m_.hidden, units = m_.units;
    const float* x = Floats(c, m_.inputs.x);
    const auto* routes = At<Route>(c, routes_at_);
    float *rows = At<float>(c, rows_at_), *h = At<float>(c, units_at_), *gate = At<float>(c, gate_at_);
    const size_t plan = static_cast<size_t>(
        std::lower_bound(counts_.begin(), counts_.end(), static_cast<size_t>(count)) - counts_.begin());
    const auto planned = static_cast<int64_t>(counts_[plan]);
    for (int64_t i = 0; i < planned; ++i) {  // the last one again where the plan is for more
      const int64_t token = order[std::min(i, count - 1)] / m_.form.top;
      std::memcpy(rows + i * hidden, x + token * hidden, static_cast<size_t>(hidden) * sizeof(float));
    }
    QUERN_RETURN_IF_ERROR(Multiply(c, m_.first, first_plans_[plan], e, rows, h));
    if (m_.gated()) QUERN_RETURN_IF_ERROR(Multiply(c, m_.gate, gate_plans_[plan], e, rows, gate));
    QUERN_RETURN_IF_ERROR(ForItems(c, planned, units, kCheapGrain, [&](int64_t i) {
      Activate(units, h + i * units, m_.gated() ? gate + i * units : nullptr);
    }));
    QUERN_RETURN_IF_ERROR(Multiply(c, m_.second, second_plans_[plan], e, h, rows));
    return ForItems(c, count, hidden, kCheapGrain, [&](int64_t i) {
      const float weight = routes[order[i]].weight;
      const float* from = rows + i * hidden;
      float* to = y + order[i] / m_.form.top * hidden;
      for (int64_t j = 0; j < hidden; ++j) to[j] += weight * from[j];
    });
  }

  Status Multiply(const StepContext& c, const ExpertProduct& product, const kernels::MatMulPlan& plan, int64_t e,
                  const float* x, float* y) const {
    const EpilogueOp bias = product.Bias(static_cast<size_t>(e));
    MatMulArgs args = product.Args(plan.m, static_cast<size_t>(e), &bias);
    args.lhs = x;
    args.dst = y;
    return product.matmul.Run(plan, args,
                              {.executor = c.executor,
                               .cancel = c.cancel,
                               .workspace = At<char>(c, workspace_at_),
                               .workspace_bytes = plan.workspace_bytes});
  }

  // h = activation(h), times what `gate` gives if there is one.
  void Activate(int64_t n, float* h, float* gate) const {
    const ExpertForm& f = m_.form;
    const auto unary = [&](UnaryKind kind, float* x, float a = 0, float b = 0) {
      m_.row->unary({.kind = kind, .n = static_cast<size_t>(n), .x = x, .y = x, .a = a, .b = b});
    };
    const bool limited = gate && f.limit < INFINITY;
    if (limited) {
      unary(UnaryKind::kClip, h, -INFINITY, f.limit);
      unary(UnaryKind::kClip, gate, -f.limit, f.limit);
    }
    switch (f.activation) {
      case ExpertForm::Activation::kRelu:
        unary(UnaryKind::kRelu, h);
        break;
      case ExpertForm::Activation::kGelu:
        unary(UnaryKind::kGeluTanh, h);
        break;
      case ExpertForm::Activation::kSilu:
        unary(UnaryKind::kSilu, h, f.alpha);
        break;
      case ExpertForm::Activation::kIdentity:
        break;
    }
    for (int64_t i = 0; gate && i < n; ++i) h[i] *= gate[i] + f.beta;
  }

  const Mixture& m_;
  int64_t tokens_ = 0;
  bool given_ = false;
  std::vector<size_t> counts_;
  std::vector<kernels::MatMulPlan> first_plans_, gate_plans_, second_plans_;
  size_t routes_at_ = 0, starts_at_ = 0, order_at_ = 0, rows_at_ = 0, units_at_ = 0, gate_at_ = 0, workspace_at_ = 0;
  size_t scratch_ = 0;
};

// Makes the products of a node.
class Packer {
 public:
  Packer(const Node& node, const CompileContext& context) : node_(node), context_(context) {
    const Dims& x = *node.input(0)->type().shape;
    Dim rows = node.GetInt("k", 1);
    for (size_t d = 0; d + 1 < x.size(); ++d) rows = rows * x[d];
    const Dim experts = (*node.input(2)->type().shape)[0];
    if (rows.is_constant() && experts.is_constant() && experts.value() > 0) {
      expected_m_ = static_cast<size_t>((rows.value() + experts.value() - 1) / experts.value());
    }
  }

  // Of `rows` of the weights [experts, n, k], which are float32 or, of QMoE, packed integers.
  Result<ExpertProduct> Make(int which, int weights, int bias, const RowsOf& rows) const {
    QUERN_ASSIGN_OR_RETURN(const Tensor w, node_.input(weights)->constant()->tensor().Contiguous());
    const bool quantized = w.dtype() == DType::kU8;
    ExpertProduct product;
    kernels::GemmProblem problem;
    problem.n = static_cast<size_t>(rows.count);
    problem.expected_m = expected_m_;
    problem.precision = PrecisionFor(*context_.config);
    ukernel::RhsSource source;
    Tensor scales, zeros;
    ExpertWeights q;
    if (quantized) {
      QUERN_ASSIGN_OR_RETURN(q, ExpertWeights::Read(node_, which));
      QUERN_ASSIGN_OR_RETURN(scales, node_.input(q.scales)->constant()->tensor().Contiguous());
      if (node_.input(q.zero_points)) {
        QUERN_ASSIGN_OR_RETURN(zeros, node_.input(q.zero_points)->constant()->tensor().Contiguous());
      }
      SetQuantized(q, rows, w.dim(2), zeros.defined(), problem, source);
    } else {
      problem.k = static_cast<size_t>(w.dim(2));
      source.k_stride = kF32;
      source.n_stride = w.dim(2) * rows.step * kF32;
    }
    source.format = problem.rhs;
    const kernels::SelectOptions options = SelectOptionsFor(*context_.config);
    QUERN_ASSIGN_OR_RETURN(const kernels::LayoutChoice layout, kernels::SelectLayout(problem, options));
    QUERN_ASSIGN_OR_RETURN(product.matmul, kernels::MatMul::Create(problem, options, layout));
    const auto k = static_cast<int64_t>(problem.k), row_bytes = quantized ? w.dim(2) : k * kF32;
    std::vector<float> row_zeros;
    for (int64_t e = 0; e < w.dim(0); ++e) {
      const int64_t first = e * w.dim(1) + rows.first;
      source.data = static_cast<const char*>(w.unaligned_data()) + first * row_bytes;
      if (quantized) {
        const int64_t per_row = q.block > 0 ? k / q.block : 1;
        source.scales = scales.data<float>() + first * per_row;
        if (zeros.defined() && q.block > 0) {
          source.zero_points = zeros.data<uint8_t>() + first * zeros.dim(2);
        } else if (zeros.defined()) {
          ReadRowZeros(q, zeros, w.dim(1), e, rows, k / static_cast<int64_t>(problem.block), row_zeros);
          source.zero_points = row_zeros.data();
        }
      }
      QUERN_ASSIGN_OR_RETURN(kernels::PackedRhs packed,
                             kernels::PackedRhs::Pack(problem, layout, source, context_.packing(), options.cpu));
      product.experts.push_back(std::move(packed));
    }
    if (const GraphValue* b = node_.input(bias)) {
      QUERN_ASSIGN_OR_RETURN(const Tensor all, b->constant()->tensor().Contiguous());
      for (int64_t e = 0; e < w.dim(0); ++e) {
        const float* own = all.data<float>() + e * w.dim(1) + rows.first;
        for (int64_t r = 0; r < rows.count; ++r) product.biases.push_back(own[r * rows.step]);
      }
    }
    return product;
  }

 private:
  // Blocks of a row that has one scale.
  static int64_t BlockOf(int64_t k) {
    int64_t block = 256;
    while (k % block != 0) block /= 2;
    return block;
  }

  // Says of quantized weights how they lie and what they are multiplied with.
  void SetQuantized(const ExpertWeights& q, const RowsOf& rows, int64_t row_bytes, bool has_zeros,
                    kernels::GemmProblem& problem, ukernel::RhsSource& source) const {
    const int64_t k = row_bytes * q.per_byte(), block = q.block > 0 ? q.block : BlockOf(k), blocks = k / block;
    const bool int8_rows = node_.GetInt("accuracy_level", 0) == 4;
    problem.lhs = int8_rows ? Format::kI8d : Format::kF32;
    problem.rhs = q.bits == 2 ? Format::kU2 : q.bits == 4 ? Format::kU4 : Format::kU8;
    problem.k = static_cast<size_t>(k);
    problem.block = static_cast<size_t>(block);
    problem.scale = Format::kF32;
    source.n_stride = row_bytes * rows.step;
    source.block_stride = block / q.per_byte();
    source.scale_format = Format::kF32;
    source.scale_n_stride = (q.block > 0 ? blocks : 1) * rows.step * kF32;
    source.scale_block_stride = q.block > 0 ? kF32 : 0;
    if (!has_zeros) return;
    problem.zero_point = q.block > 0 ? Format::kU8 : Format::kF32;
    source.zero_point_format = q.block > 0 ? problem.rhs : Format::kF32;
    source.zero_point_n_stride = q.block > 0 ? (blocks + q.per_byte() - 1) / q.per_byte() * rows.step : blocks * kF32;
  }

  // Zero points of rows as those of their blocks.
  static void ReadRowZeros(const ExpertWeights& q, const Tensor& zeros, int64_t n, int64_t expert, const RowsOf& rows,
                           int64_t blocks, std::vector<float>& to) {
    to.clear();
    for (int64_t r = 0; r < rows.count; ++r) {
      const int zero = q.ZeroPoint(zeros.data<uint8_t>(), n, 1, expert, rows.first + r * rows.step, 0);
      to.insert(to.end(), static_cast<size_t>(blocks), static_cast<float>(zero));
    }
  }

  const Node& node_;
  const CompileContext& context_;
  size_t expected_m_ = 0;
};

class MixtureKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context) {
    auto kernel = std::make_unique<MixtureKernel>();
    kernel->config_ = *context.config;
    Mixture& m = kernel->mixture_;
    const bool quantized = node.op_type() == "QMoE";
    m.inputs = quantized ? kQMoeInputs : kMoeInputs;
    m.by = quantized ? RouteWeights::kSoftmaxOfChosen : RouteWeights::kSoftmaxOfAll;
    QUERN_ASSIGN_OR_RETURN(m.form, ExpertForm::Read(node, node.input(m.inputs.w3) != nullptr));
    const Shape &w1 = node.input(m.inputs.w1)->constant()->tensor().shape(),
                &w2 = node.input(m.inputs.w2)->constant()->tensor().shape();
    m.experts = w1[0];
    m.units = w1[1] / m.form.fused();
    m.hidden = w2[1];
    m.row = VectorRowFor(*context.config);
    const Packer packer(node, context);
    RowsOf first{.count = m.units}, gate{.count = m.units};
    int gate_weights = m.inputs.w1, gate_bias = m.inputs.b1, gate_which = 0;
    switch (m.form.gate) {
      case ExpertForm::Gate::kNone:
        break;
      case ExpertForm::Gate::kInterleaved:
        first.step = gate.step = 2;
        gate.first = 1;
        break;
      case ExpertForm::Gate::kHalves:
        gate.first = m.units;
        break;
      case ExpertForm::Gate::kOwn:
        gate_weights = m.inputs.w3;
        gate_bias = m.inputs.b3;
        gate_which = 2;
        break;
    }
    QUERN_ASSIGN_OR_RETURN(m.first, packer.Make(0, m.inputs.w1, m.inputs.b1, first));
    if (m.gated()) {
      QUERN_ASSIGN_OR_RETURN(m.gate, packer.Make(gate_which, gate_weights, gate_bias, gate));
    }
    QUERN_ASSIGN_OR_RETURN(m.second, packer.Make(1, m.inputs.w2, m.inputs.b2, {.count = m.hidden}));
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    const ExpertInputs& in = mixture_.inputs;
    const Shape& x = context.inputs[static_cast<size_t>(in.x)].shape;
    const Shape scores{x.num_elements(0, x.rank() - 1), mixture_.experts};
    for (const int i : {in.scores, in.given_weights}) {
      if (!context.has_input(i) || context.inputs[static_cast<size_t>(i)].shape == scores) continue;
      return InvalidArgument("scores of shape " + context.inputs[static_cast<size_t>(i)].shape.ToString() + "; " +
                             scores.ToString() + " is needed");
    }
    if (x.back() != mixture_.hidden) {
      return InvalidArgument("tokens of " + std::to_string(x.back()) + " elements; the experts take " +
                             std::to_string(mixture_.hidden));
    }
    return std::unique_ptr<CpuStep>(new MixtureStep(mixture_, context));
  }
  bool sums_products() const override { return true; }
  KernelDescription Describe() const override {
    const kernels::MatMul& product = mixture_.first.matmul;
    const size_t m = product.problem().expected_m ? product.problem().expected_m : 1;
    KernelDescription d = DescribeRow(product.problem(), config_, product.layout(), product.RowFor(m), m);
    d.why += ", " + std::to_string(mixture_.form.top) + " of " + std::to_string(mixture_.experts) +
             " experts for each token";
    for (const ExpertProduct* p : {&mixture_.first, &mixture_.gate, &mixture_.second}) {
      d.packed_bytes += p->packed_bytes();
    }
    return d;
  }
  uint64_t packed_inputs() const override {
    const ExpertInputs& in = mixture_.inputs;
    const uint64_t given = in.given_weights < 0 ? 0 : uint64_t{1} << in.given_weights;
    return ~(uint64_t{1} << in.x | uint64_t{1} << in.scores | given);
  }

 private:
  CpuConfig config_;
  Mixture mixture_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const bool quantized = node.op_type() == "QMoE";
  const ExpertInputs in = quantized ? kQMoeInputs : kMoeInputs;
  for (const int i : {in.x, in.scores, in.b1, in.b2, in.b3, in.given_weights}) {
    const GraphValue* v = i < 0 ? nullptr : node.input(i);
    if (std::string why = RejectUnlessType(v, {DType::kF32}); !why.empty()) return why;
  }
  for (int i = 2; i < node.num_inputs(); ++i) {
    if (i != in.given_weights && node.input(i) && !node.input(i)->is_constant()) return "weights that are not constant";
  }
  if (!node.input(in.x)->type().has_rank()) return "an input of unknown rank";
  const Result<ExpertForm> form = ExpertForm::Read(node, node.input(in.w3) != nullptr);
  if (!form.ok()) return form.status().message();
  for (int which = 0; which < 3; ++which) {
    const int i = which == 0 ? in.w1 : which == 1 ? in.w2 : in.w3;
    if (!node.input(i)) continue;
    const Shape& shape = node.input(i)->constant()->tensor().shape();
    if (shape.rank() != 3 || shape.num_elements() == 0) return "weights of another shape";
    if (!quantized) {
      if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
      continue;
    }
    const Result<ExpertWeights> q = ExpertWeights::Read(node, which);
    if (!q.ok()) return q.status().message();
    if (std::string why = RejectUnlessType(node.input(q->scales), {DType::kF32}); !why.empty()) return why;
    if (shape[2] * q->per_byte() % 16 != 0) return "rows that are no multiple of 16";
  }
  return {};
}

constexpr CpuOp kOps[] = {{"com.microsoft", "MoE", Reject, MixtureKernel::Create},
                          {"com.microsoft", "QMoE", Reject, MixtureKernel::Create}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsMixtureOfExperts = kOps;

}  // namespace quern::cpu
