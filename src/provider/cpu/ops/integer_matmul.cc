// Matrix products of 8-bit integers whose scales and zero points may come with the run: MatMulInteger, QLinearMatMul,
// and MatMulIntegerToFloat and QGemm of com.microsoft.
#include <algorithm>
#include <cmath>

#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/matrix_operand.h"
#include "provider/cpu/common/quantization.h"

namespace quern::cpu {
namespace {

using kernels::GemmProblem;
using kernels::MatMulArgs;
using ukernel::EpilogueKind;
using ukernel::EpilogueOp;
using ukernel::Format;

constexpr TypeSet kBytes = {DType::kI8, DType::kU8};
// Longer sums might leave int32. Where only a plan knows their length, they wrap then, as ONNX allows.
constexpr int64_t kLongest = 32768;

// Which inputs hold what; -1: none. Scales of a and of y and zero points of a and of y are one number.
struct Inputs {
  int a, a_zero, b, b_zero;
  int a_scale = -1, b_scale = -1, y_scale = -1, y_zero = -1;
  int bias = -1;    // float32 [n], added to scaled sums
  int counts = -1;  // int32 [n] or one number, added to sums
};
constexpr Inputs kMatMulInteger = {.a = 0, .a_zero = 2, .b = 1, .b_zero = 3};
constexpr Inputs kQLinearMatMul = {
    .a = 0, .a_zero = 2, .b = 3, .b_zero = 5, .a_scale = 1, .b_scale = 4, .y_scale = 6, .y_zero = 7};
constexpr Inputs kToFloat = {.a = 0, .a_zero = 4, .b = 1, .b_zero = 5, .a_scale = 2, .b_scale = 3, .bias = 6};
constexpr Inputs kQGemm = {
    .a = 0, .a_zero = 2, .b = 3, .b_zero = 5, .a_scale = 1, .b_scale = 4, .y_scale = 7, .y_zero = 8, .counts = 6};

struct Compiled {
  CpuConfig config;
  Inputs inputs;
  GemmProblem problem;
  kernels::MatMul product;
  kernels::PackedRhs packed;  // constant right sides
  bool constant_rhs = false;
  bool trans_a = false, trans_b = false;
  float alpha = 1;
};

class IntegerProductStep final : public CpuStep {
 public:
  static Result<std::unique_ptr<CpuStep>> Create(const Compiled& compiled, const BindContext& context);
  size_t scratch_bytes() const override { return scratch_; }
  KernelDescription Describe() const override {
    if (empty_) return {};
    return DescribeRow(product().problem(), compiled_.config, product().layout(), plan_.gemm.main.row, plan_.m);
  }
  Status Run(const StepContext& context) const override;

 private:
  explicit IntegerProductStep(const Compiled& compiled) : compiled_(compiled) {}
  const kernels::MatMul& product() const { return compiled_.constant_rhs ? compiled_.product : *runtime_product_; }

  const Compiled& compiled_;
  std::shared_ptr<const kernels::MatMul> runtime_product_;
  MatMulArgs args_;
  kernels::MatMulPlan plan_;
  kernels::BatchDim batch_[kernels::kMaxBatchDims];
  std::vector<EpilogueOp> ops_;
  int64_t n_ = 0;
  int64_t zero_count_ = 0, scale_count_ = 0, added_count_ = 0;  // 0 where there are none
  bool biased_ = false;
  DType a_type_{}, b_type_{}, y_type_{};
  bool a_zero_ = false;
  size_t zeros_offset_ = 0, factors_offset_ = 0, counts_offset_ = 0, scratch_ = 0;
  bool empty_ = false;
};

Result<std::unique_ptr<CpuStep>> IntegerProductStep::Create(const Compiled& compiled, const BindContext& context) {
  std::unique_ptr<IntegerProductStep> step(new IntegerProductStep(compiled));
  const Inputs& in = compiled.inputs;
  const TensorSpec &a = context.inputs[in.a], &b = context.inputs[in.b], &y = context.outputs[0];
  step->empty_ = y.shape.num_elements() == 0;
  if (step->empty_) return std::unique_ptr<CpuStep>(std::move(step));
  MatrixOperand lhs = MatrixOf(a, false), rhs = MatrixOf(b, true);
  if (compiled.trans_a) lhs.Transpose();
  if (compiled.trans_b) rhs.Transpose();
  const int64_t n = rhs.cols;
  MatMulArgs& args = step->args_;
  args.m = static_cast<size_t>(lhs.rows);
  args.lhs_row_stride = lhs.row_stride;
  args.lhs_k_stride = lhs.col_stride == 1 ? 0 : lhs.col_stride;
  if (compiled.constant_rhs) {
    args.packed_rhs = &compiled.packed;
    rhs.batch = rhs.batch_strides = {};
  } else {
    args.rhs = RunTimeSource(rhs, compiled.problem.rhs);
    QUERN_ASSIGN_OR_RETURN(step->runtime_product_, RunTimeProduct(compiled.problem, args.m, rhs, compiled.config));
  }
  const auto count = [&](int i) { return context.has_input(i) ? context.inputs[i].shape.num_elements() : int64_t{0}; };
  for (const int i : {in.b_zero, in.b_scale, in.bias, in.counts}) {
    if (count(i) != 0 && count(i) != 1 && count(i) != n) {
      return InvalidArgument("input " + std::to_string(i) + " has " + std::to_string(count(i)) + " elements; 1 or " +
                             std::to_string(n) + " are needed");
    }
  }
  for (const int i : {in.a_zero, in.a_scale, in.y_scale, in.y_zero}) {
    if (count(i) > 1) return InvalidArgument("input " + std::to_string(i) + " must have one element");
  }
  step->n_ = n;
  step->a_type_ = a.dtype;
  step->b_type_ = b.dtype;
  step->y_type_ = y.dtype;
  step->a_zero_ = count(in.a_zero) > 0;
  step->zero_count_ = count(in.b_zero);
  step->scale_count_ = count(in.b_scale);
  step->added_count_ = count(in.counts);
  step->biased_ = count(in.bias) > 0;

  // Numbers of each column lie in scratch: their pointers come with the run, only that they are there counts now.
  static constexpr int32_t kSomewhere = 0;
  if (step->zero_count_ > 0) args.zero_points.rhs_columns = &kSomewhere;
  if (step->added_count_ > 0) step->ops_.push_back({.kind = EpilogueKind::kAddVectorN, .data = &kSomewhere});
  if (IsByte(y.dtype)) {
    step->ops_.push_back(
        {.kind = EpilogueKind::kRequantize, .format = ukernel::FormatOf(y.dtype), .data = &kSomewhere});
  } else if (y.dtype == DType::kF32) {
    step->ops_.push_back({.kind = EpilogueKind::kMulVectorN, .data = &kSomewhere});
    if (step->biased_) step->ops_.push_back({.kind = EpilogueKind::kAddVectorN, .data = &kSomewhere});
  }
  const auto dst_element = static_cast<ptrdiff_t>(DTypeBytes(y.dtype));
  args.dst_row_stride = n * dst_element;
  args.ops = step->ops_.data();
  args.op_count = step->ops_.size();
  const auto batch = BatchDims(lhs, rhs, static_cast<ptrdiff_t>(lhs.rows * n), dst_element, -1);
  if (!batch) return Unsupported("more batch dimensions than the product takes");
  std::copy(batch->begin(), batch->end(), step->batch_);
  args.batch = {step->batch_, batch->size()};
  step->plan_ = step->product().Plan(args, context.concurrency);
  size_t at = (step->plan_.workspace_bytes + 63) / 64 * 64;
  const auto take = [&](bool wanted) {
    const size_t begin = at;
    if (wanted) at += (static_cast<size_t>(n) * sizeof(float) + 63) / 64 * 64;
    return begin;
  };
  step->zeros_offset_ = take(step->zero_count_ > 0);
  step->factors_offset_ = take(y.dtype != DType::kI32);
  step->counts_offset_ = take(step->added_count_ > 0);
  step->scratch_ = at;
  return std::unique_ptr<CpuStep>(std::move(step));
}

Status IntegerProductStep::Run(const StepContext& c) const {
  if (empty_) return OkStatus();
  const Inputs& in = compiled_.inputs;
  const auto data = [&](int i) { return c.inputs[static_cast<size_t>(i)]; };
  const auto number = [&](int i) { return *static_cast<const float*>(data(i)); };
  auto* scratch = static_cast<std::byte*>(c.scratch);
  MatMulArgs args = args_;
  if (a_zero_) args.zero_points.lhs = ByteAt(data(in.a_zero), a_type_, 0);
  if (zero_count_ > 0) {
    auto* zeros = reinterpret_cast<int32_t*>(scratch + zeros_offset_);
    for (int64_t j = 0; j < n_; ++j) zeros[j] = ByteAt(data(in.b_zero), b_type_, zero_count_ == 1 ? 0 : j);
    args.zero_points.rhs_columns = zeros;
  }
  EpilogueOp ops[ukernel::kMaxEpilogueOps];
  std::copy(ops_.begin(), ops_.end(), ops);
  EpilogueOp* op = ops;
  if (added_count_ > 0) {
    auto* counts = reinterpret_cast<int32_t*>(scratch + counts_offset_);
    const auto* given = static_cast<const int32_t*>(data(in.counts));
    for (int64_t j = 0; j < n_; ++j) counts[j] = given[added_count_ == 1 ? 0 : j];
    (op++)->data = counts;
  }
  if (y_type_ != DType::kI32) {
    // In the order in which ONNX's formula multiplies.
    auto* factors = reinterpret_cast<float*>(scratch + factors_offset_);
    const bool stores = y_type_ != DType::kF32;
    const float a_scale = number(in.a_scale) * compiled_.alpha;
    const auto* b_scales = static_cast<const float*>(data(in.b_scale));
    for (int64_t j = 0; j < n_; ++j) {
      const float scale = a_scale * b_scales[scale_count_ == 1 ? 0 : j];
      factors[j] = stores ? scale / number(in.y_scale) : scale;
    }
    op->data = factors;
    if (stores) op->integer = ByteAt(data(in.y_zero), y_type_, 0);
    if (biased_) (op + 1)->data = data(in.bias);
  }
  args.ops = ops;
  args.lhs = data(in.a);
  if (!compiled_.constant_rhs) args.rhs.data = data(in.b);
  args.dst = c.outputs[0];
  return product().Run(
      plan_, args,
      {.executor = c.executor, .cancel = c.cancel, .workspace = scratch, .workspace_bytes = plan_.workspace_bytes});
}

class IntegerProductKernel final : public CpuKernel {
 public:
  explicit IntegerProductKernel(Compiled compiled) : compiled_(std::move(compiled)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return IntegerProductStep::Create(compiled_, context);
  }
  KernelDescription Describe() const override {
    KernelDescription d = Described("by shape", "the row is chosen when a run is planned");
    d.packed_bytes = compiled_.packed.packed_bytes();
    return d;
  }
  uint64_t strided_inputs() const override {
    return uint64_t{1} << compiled_.inputs.a | (compiled_.constant_rhs ? 0 : uint64_t{1} << compiled_.inputs.b);
  }
  uint64_t packed_inputs() const override { return compiled_.constant_rhs ? uint64_t{1} << compiled_.inputs.b : 0; }

 private:
  Compiled compiled_;
};

template <const Inputs& kInputs>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  Compiled c;
  c.config = *context.config;
  c.inputs = kInputs;
  c.trans_a = node.GetInt("transA", 0) != 0;
  c.trans_b = node.GetInt("transB", 0) != 0;
  c.alpha = node.GetFloat("alpha", 1.0f);
  const GraphValue &a = *node.input(kInputs.a), &b = *node.input(kInputs.b);
  c.problem.lhs = ukernel::FormatOf(a.type().dtype);
  c.problem.rhs = ukernel::FormatOf(b.type().dtype);
  if (b.is_constant() && b.type().rank() == 2 && b.constant()->tensor().num_elements() > 0) {
    QUERN_ASSIGN_OR_RETURN(const Tensor w, b.constant()->tensor().Contiguous());
    const Dims& x = *a.type().shape;
    Dim rows = 1;
    for (size_t i = 0; i + 1 < x.size(); ++i) rows = rows * x[i];
    c.problem.expected_m = rows.is_constant() ? static_cast<size_t>(rows.value()) : 0;
    c.problem.k = static_cast<size_t>(w.dim(c.trans_b ? 1 : 0));
    c.problem.n = static_cast<size_t>(w.dim(c.trans_b ? 0 : 1));
    ukernel::RhsSource source;
    source.format = c.problem.rhs;
    source.data = w.unaligned_data();
    source.k_stride = c.trans_b ? 1 : w.dim(1);
    source.n_stride = c.trans_b ? w.dim(1) : 1;
    const kernels::SelectOptions options = SelectOptionsFor(c.config);
    QUERN_ASSIGN_OR_RETURN(const kernels::LayoutChoice layout, kernels::SelectLayout(c.problem, options));
    QUERN_ASSIGN_OR_RETURN(c.packed,
                           kernels::PackedRhs::Pack(c.problem, layout, source, context.packing(), options.cpu));
    QUERN_ASSIGN_OR_RETURN(c.product, kernels::MatMul::Create(c.problem, options, layout));
    c.constant_rhs = true;
  }
  return std::unique_ptr<CpuKernel>(new IntegerProductKernel(std::move(c)));
}

template <const Inputs& kInputs>
std::string Reject(const Node& node, const CpuConfig&) {
  const Inputs& in = kInputs;
  const auto input = [&](int i) { return i < 0 ? nullptr : node.input(i); };
  for (const int i : {in.a, in.b}) {
    if (std::string why = RejectUnlessType(input(i), kBytes); !why.empty()) return why;
    const int rank = input(i)->type().rank();
    if (rank == 0) return "a scalar operand";
    if (rank > 2 + static_cast<int>(kernels::kMaxBatchDims)) return "too many batch dimensions";
  }
  for (const int i : {in.a_scale, in.b_scale, in.y_scale, in.bias}) {
    if (std::string why = RejectUnlessType(input(i), {DType::kF32}); !why.empty()) return why;
  }
  for (const int i : {in.a_zero, in.a_scale, in.y_scale, in.y_zero}) {
    if (input(i) && !Product(*input(i)->type().shape).is_constant(1)) return "scales or zero points of each row";
  }
  const Dims &a = *input(in.a)->type().shape, &b = *input(in.b)->type().shape;
  const Dim& k = a[a.size() > 1 && node.GetInt("transA", 0) != 0 ? a.size() - 2 : a.size() - 1];
  if (k.is_constant() && k.value() > kLongest) return "sums that may leave 32 bits";
  if (k.is_constant(0)) return "products without elements";
  const Dim n = b.size() == 1 ? Dim(1) : b[node.GetInt("transB", 0) != 0 ? b.size() - 2 : b.size() - 1];
  for (const int i : {in.b_zero, in.b_scale, in.bias, in.counts}) {
    if (!input(i)) continue;
    const Dim count = Product(*input(i)->type().shape);
    if (!count.is_constant(1) && !(count == n)) return "scales or zero points of each matrix";
    if (i == in.bias && !(count == n)) return "a bias that broadcasts";
    // One column of several rows would be a number for each row.
    const Dims& shape = *input(i)->type().shape;
    if (!count.is_constant(1) && !(shape.back() == n)) return "scales or zero points of each row";
  }
  return {};
}

constexpr CpuOp kOps[] = {
    {"", "MatMulInteger", Reject<kMatMulInteger>, Compile<kMatMulInteger>},
    {"", "QLinearMatMul", Reject<kQLinearMatMul>, Compile<kQLinearMatMul>},
    {"com.microsoft", "MatMulIntegerToFloat", Reject<kToFloat>, Compile<kToFloat>},
    {"com.microsoft", "QGemm", Reject<kQGemm>, Compile<kQGemm>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsIntegerMatmul = kOps;

}  // namespace quern::cpu
