// Matrix products: ONNX MatMul and Gemm over run-time operands (float32 or float64), this provider's MatMul with
// packed constant weights, bias, residual and activation, and com.microsoft.MatMulNBits over blocks of 2, 4 and 8 bits.
#include "kernels/matmul.h"

#include <algorithm>
#include <span>
#include <utility>

#include "provider/cpu/common/constants.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/matrix_operand.h"
#include "provider/cpu/common/quantization.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

using kernels::GemmProblem;
using kernels::MatMulArgs;
using ukernel::EpilogueKind;
using ukernel::EpilogueOp;
using ukernel::Format;

constexpr ptrdiff_t kF32 = sizeof(float);

// Everything that is fixed when the node is compiled.
struct Compiled {
  CpuConfig config;
  GemmProblem problem;
  kernels::MatMul product;
  kernels::PackedRhs packed;  // constant weights
  bool constant_rhs = false;
  bool trans_a = false, trans_b = false;
  EpilogueList epilogue;
  ProductZeroPoints zeros;
  std::vector<Tensor> owned;  // memory of epilogue operands
  int matrix_input = -1;      // run-time operand of a kAddMatrix op (Gemm's C or the residual)
  int matrix_op = -1;
  std::string what;  // for reports
};

bool SeesRows(const EpilogueOp& op) {
  switch (op.kind) {
    case EpilogueKind::kAddVectorM:
    case EpilogueKind::kMulVectorM:
    case EpilogueKind::kDivVectorM:
    case EpilogueKind::kAddOuter:
      return true;
    default:
      return IsReduction(op.kind);
  }
}

// Products of few rows, as of a transposed [steps, batch, K], pass over the right side for each step: the longest
// dimension of the batch that shares it becomes the rows, and the rows become that dimension.
void TakeLongestAsRows(MatMulArgs& args, std::vector<kernels::BatchDim>& batch, std::span<EpilogueOp> ops,
                       int matrix_op) {
  if (batch.empty() || std::any_of(ops.begin(), ops.end(), SeesRows)) return;
  const kernels::BatchDim& last = batch.back();
  // The driver makes one product of what continues the rows.
  if (last.rhs == 0 && last.lhs == static_cast<ptrdiff_t>(args.m) * args.lhs_row_stride) return;
  kernels::BatchDim* longest = nullptr;
  for (kernels::BatchDim& d : batch) {
    if (d.rhs == 0 && d.count > (longest ? longest->count : args.m)) longest = &d;
  }
  if (!longest) return;
  std::swap(args.m, longest->count);
  std::swap(args.lhs_row_stride, longest->lhs);
  std::swap(args.dst_row_stride, longest->dst);
  if (matrix_op >= 0) {
    EpilogueOp& op = ops[static_cast<size_t>(matrix_op)];
    const auto rows = static_cast<size_t>(longest->ops[matrix_op]);
    longest->ops[matrix_op] = static_cast<ptrdiff_t>(op.row_stride);
    op.row_stride = rows;
  }
}

class ProductStep final : public CpuStep {
 public:
  static Result<std::unique_ptr<CpuStep>> Create(const Compiled& compiled, const BindContext& context);
  size_t scratch_bytes() const override { return scratch_; }
  KernelDescription Describe() const override {
    if (empty_) return {};
    KernelDescription d =
        DescribeRow(product().problem(), compiled_.config, product().layout(), plan_.gemm.main.row, plan_.m);
    d.why += compiled_.what;
    d.packed_bytes = compiled_.packed.packed_bytes();
    return d;
  }
  Status Run(const StepContext& context) const override {
    if (empty_) return OkStatus();
    MatMulArgs args = args_;
    EpilogueOp ops[ukernel::kMaxEpilogueOps];
    std::copy(ops_.begin(), ops_.end(), ops);
    if (compiled_.matrix_op >= 0) ops[compiled_.matrix_op].data = context.inputs[compiled_.matrix_input];
    args.ops = ops;
    args.lhs = context.inputs[0];
    if (compiled_.constant_rhs) {
      args.packed_rhs = &compiled_.packed;
    } else {
      args.rhs.data = context.inputs[1];
    }
    args.dst = context.outputs[0];
    args.batch = {batch_, batch_count_};
    return product().Run(plan_, args,
                         {.executor = context.executor,
                          .cancel = context.cancel,
                          .workspace = context.scratch,
                          .workspace_bytes = scratch_});
  }

 private:
  explicit ProductStep(const Compiled& compiled) : compiled_(compiled) {}
  const kernels::MatMul& product() const { return compiled_.constant_rhs ? compiled_.product : *runtime_product_; }

  const Compiled& compiled_;
  std::shared_ptr<const kernels::MatMul> runtime_product_;  // for a right side that comes with the run
  MatMulArgs args_;
  kernels::MatMulPlan plan_;
  kernels::BatchDim batch_[kernels::kMaxBatchDims];
  size_t batch_count_ = 0;
  std::vector<EpilogueOp> ops_;
  size_t scratch_ = 0;
  bool empty_ = false;
};

Result<std::unique_ptr<CpuStep>> ProductStep::Create(const Compiled& compiled, const BindContext& context) {
  std::unique_ptr<ProductStep> step(new ProductStep(compiled));
  const TensorSpec &a = context.inputs[0], &b = context.inputs[1], &y = context.outputs[0];
  step->empty_ = y.shape.num_elements() == 0;
  if (step->empty_) return std::unique_ptr<CpuStep>(std::move(step));
  if (compiled.matrix_op >= 0) QUERN_RETURN_IF_ERROR(CheckResultShaped(context, compiled.matrix_input));
  MatMulArgs& args = step->args_;
  MatrixOperand lhs = MatrixOf(a, false), rhs{};
  if (compiled.trans_a) lhs.Transpose();
  args.m = static_cast<size_t>(lhs.rows);
  args.lhs_row_stride = lhs.row_stride;
  args.lhs_k_stride = lhs.col_stride == static_cast<ptrdiff_t>(DTypeBytes(a.dtype)) ? 0 : lhs.col_stride;
  if (compiled.constant_rhs) {
    args.packed_rhs = &compiled.packed;
  } else {
    rhs = MatrixOf(b, true);
    if (compiled.trans_b) rhs.Transpose();
    args.rhs = RunTimeSource(rhs, compiled.problem.rhs);
  }
  const int64_t n = compiled.constant_rhs ? static_cast<int64_t>(compiled.product.problem().n) : rhs.cols;
  const auto dst_element = static_cast<ptrdiff_t>(DTypeBytes(y.dtype));
  args.dst_row_stride = n * dst_element;
  args.zero_points = {.lhs = compiled.zeros.x, .rhs = compiled.zeros.w, .rhs_columns = compiled.zeros.w_vector()};
  auto batch = BatchDims(lhs, rhs, static_cast<ptrdiff_t>(lhs.rows * n), dst_element, compiled.matrix_op);
  if (!batch) return Unsupported("more batch dimensions than the product takes");
  step->ops_ = compiled.epilogue.ops;
  if (compiled.matrix_op >= 0) step->ops_[compiled.matrix_op].row_stride = static_cast<size_t>(n * kF32);
  TakeLongestAsRows(args, *batch, step->ops_, compiled.matrix_op);
  std::copy(batch->begin(), batch->end(), step->batch_);
  step->batch_count_ = batch->size();
  if (!compiled.constant_rhs) {
    QUERN_ASSIGN_OR_RETURN(step->runtime_product_, RunTimeProduct(compiled.problem, args.m, rhs, compiled.config));
  }
  args.ops = step->ops_.data();
  args.op_count = step->ops_.size();
  args.batch = {step->batch_, step->batch_count_};
  step->plan_ = step->product().Plan(args, context.concurrency);
  step->scratch_ = step->plan_.workspace_bytes;
  return std::unique_ptr<CpuStep>(std::move(step));
}

class ProductKernel final : public CpuKernel {
 public:
  explicit ProductKernel(Compiled compiled) : compiled_(std::move(compiled)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return ProductStep::Create(compiled_, context);
  }
  bool sums_products() const override { return true; }
  KernelDescription Describe() const override {
    if (!compiled_.constant_rhs) {
      return {.kernel = "by shape",
              .why = "the right side comes with the run: chosen when a run is planned",
              .rejected = {},
              .layout = {},
              .packed_bytes = 0};
    }
    const size_t m = compiled_.problem.expected_m ? compiled_.problem.expected_m : 64;
    KernelDescription d =
        DescribeRow(compiled_.problem, compiled_.config, compiled_.product.layout(), compiled_.product.RowFor(m), m);
    d.why += compiled_.what;
    d.packed_bytes = compiled_.packed.packed_bytes();
    return d;
  }
  uint64_t strided_inputs() const override { return 3; }
  uint64_t packed_inputs() const override { return compiled_.constant_rhs ? 2 : 0; }

 private:
  Compiled compiled_;
};

bool IsDouble(const Node& node) { return node.input(0)->type().dtype == DType::kF64; }

std::string RejectTypes(const Node& node) {
  const DType number = IsDouble(node) ? DType::kF64 : DType::kF32;
  for (int i = 0; i < 2; ++i) {
    const DType t = node.input(i)->type().dtype;
    const bool blocks = i == 1 && number == DType::kF32 && IsBlockType(t) && node.input(1)->is_constant();
    if (t != number && !blocks) return std::string("type ") + DTypeName(t);
    if (node.input(i)->type().rank() > 2 + static_cast<int>(kernels::kMaxBatchDims)) return "too many batch dimensions";
    if (node.input(i)->type().rank() == 0) return "a scalar operand";
  }
  return {};
}

// ONNX MatMul and this provider's.
std::string RejectMatMul(const Node& node, const CpuConfig&) {
  if (std::string why = RejectTypes(node); !why.empty()) return why;
  if (IsBlockType(node.input(1)->type().dtype) && node.GetInt("transB", 0) == 0)
    return "blocks must lie along K: Gemm with transB";
  return {};
}

std::string RejectGemm(const Node& node, const CpuConfig& config) {
  if (std::string why = RejectMatMul(node, config); !why.empty()) return why;
  const GraphValue* c = node.input(2);
  if (!c) return {};
  if (c->type().dtype != node.input(0)->type().dtype || !c->type().shape) return "the type of C";
  return {};  // what this kernel does not take of it, a pass splits off (cpu_split_gemm)
}

// Selects the layout and packs constant weights.
Status Finish(const Node& node, const CompileContext& context, const ukernel::RhsSource& weights, Compiled& c) {
  const kernels::SelectOptions options = SelectOptionsFor(c.config);
  const Dims& y = *node.output(0)->type().shape;
  Dim rows = 1;
  for (size_t i = 0; i + 1 < y.size(); ++i) rows = rows * y[i];
  c.problem.expected_m = rows.is_constant() ? static_cast<size_t>(rows.value()) : 0;
  QUERN_ASSIGN_OR_RETURN(const kernels::LayoutChoice layout, kernels::SelectLayout(c.problem, options));
  QUERN_ASSIGN_OR_RETURN(c.packed,
                         kernels::PackedRhs::Pack(c.problem, layout, weights, context.packing(), options.cpu));
  QUERN_ASSIGN_OR_RETURN(c.product, kernels::MatMul::Create(c.problem, options, layout));
  c.constant_rhs = true;
  return OkStatus();
}

// Constant weights [K, N], or [N, K] if `transposed`; floats, bytes, or GGUF blocks along K.
Status PackWeights(const Node& node, const CompileContext& context, bool transposed, Compiled& c) {
  QUERN_ASSIGN_OR_RETURN(const Tensor w, node.input(1)->constant()->tensor().Transient());
  const bool vector = w.rank() == 1;
  c.problem.k = static_cast<size_t>(vector || !transposed ? w.dim(0) : w.dim(1));
  c.problem.n = static_cast<size_t>(vector ? 1 : transposed ? w.dim(0) : w.dim(1));
  ukernel::RhsSource source;
  source.format = ukernel::FormatOf(w.dtype());
  source.data = w.unaligned_data();
  c.problem.rhs = source.format;
  if (IsBlockType(w.dtype())) {
    // Blocks stay as they are; rows of the left side are quantized to int8 at run time (numerics.md, qp8_f32_qb4w).
    const DTypeInfo info = GetDTypeInfo(w.dtype());
    c.problem.lhs = Format::kI8d;
    c.problem.block = info.block_elements;
    c.problem.scale = Format::kF16;
    source.block_stride = info.block_bytes;
    source.n_stride = static_cast<ptrdiff_t>(c.problem.k / info.block_elements * info.block_bytes);
  } else {
    const auto element = static_cast<ptrdiff_t>(DTypeBytes(w.dtype()));
    const ptrdiff_t row = static_cast<ptrdiff_t>(vector ? 1 : w.dim(1)) * element;
    c.problem.lhs = ukernel::FormatOf(node.input(0)->type().dtype);
    source.k_stride = transposed ? element : row;
    source.n_stride = transposed ? row : element;
  }
  return Finish(node, context, source, c);
}

Compiled Start(const Node& node, const CompileContext& context) {
  Compiled c;
  c.config = *context.config;
  c.problem.precision = PrecisionFor(*context.config);
  if (IsDouble(node)) c.problem.lhs = c.problem.rhs = Format::kF64;
  return c;
}

Result<std::unique_ptr<CpuKernel>> MakeKernel(Compiled c) {
  return std::unique_ptr<CpuKernel>(new ProductKernel(std::move(c)));
}

Result<std::unique_ptr<CpuKernel>> CompileMatMul(const Node& node, const CompileContext& context) {
  Compiled c = Start(node, context);
  if (node.domain() == kCpuDomain) {
    QUERN_ASSIGN_OR_RETURN(c.epilogue, MakeEpilogue(node));
    if (IsDouble(node) && !c.epilogue.ops.empty()) return Internal("a product of float64 has an epilogue");
    if (c.epilogue.bias_op >= 0) return Internal("the bias of a product is not constant");
    c.matrix_op = c.epilogue.residual_op;
    c.matrix_input = kResidualInput;
    c.what = EpilogueText(node);
    QUERN_ASSIGN_OR_RETURN(c.zeros, ZeroPointsOf(node));
    QUERN_RETURN_IF_ERROR(PackWeights(node, context, node.GetInt("transB", 0) != 0, c));
  }
  return MakeKernel(std::move(c));
}

Result<std::unique_ptr<CpuKernel>> CompileGemm(const Node& node, const CompileContext& context) {
  Compiled c = Start(node, context);
  c.trans_a = node.GetInt("transA", 0) != 0;
  c.trans_b = node.GetInt("transB", 0) != 0;
  const float alpha = node.GetFloat("alpha", 1), beta = node.GetFloat("beta", 1);
  if (IsDouble(node) && (alpha != 1 || node.input(2))) return Internal("a Gemm of float64 was not split");
  if (alpha != 1) c.epilogue.ops.push_back({.kind = EpilogueKind::kMulScalar, .a = alpha});
  if (const GraphValue* v = node.input(2)) {
    if (IsConstantRow(*v, *node.output(0)->type().shape)) {
      QUERN_ASSIGN_OR_RETURN(Tensor row, ConstantTensor(v)->Clone());
      for (float& x : row.values<float>()) x *= beta;
      c.epilogue.ops.push_back({.kind = EpilogueKind::kAddVectorN, .data = row.raw_data()});
      c.owned.push_back(std::move(row));
    } else {
      c.matrix_op = static_cast<int>(c.epilogue.ops.size());
      c.matrix_input = 2;
      c.epilogue.ops.push_back({.kind = EpilogueKind::kAddMatrix});
    }
  }
  if (node.input(1)->is_constant()) QUERN_RETURN_IF_ERROR(PackWeights(node, context, c.trans_b, c));
  return MakeKernel(std::move(c));
}

std::string RejectNBits(const Node& node, const CpuConfig&) {
  if (node.input(0)->type().dtype != DType::kF32) return std::string("type ") + DTypeName(node.input(0)->type().dtype);
  const int64_t bits = node.GetInt("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return "blocks of " + std::to_string(bits) + " bits";
  if (node.GetInt("block_size", 0) % 16 != 0) return "blocks that are no multiple of 16";
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (node.input(i) && !node.input(i)->is_constant()) return "weights, scales and bias must be constant";
  }
  if (node.input(2)->type().dtype != DType::kF32) return "scales that are not float32";
  if (node.input(3) && node.input(3)->type().dtype != DType::kU8 && node.input(3)->type().dtype != DType::kF32) {
    return "zero points that are neither packed nor float32";
  }
  if (node.input(4)) return "g_idx";
  return {};
}

// Whether rows are quantized by blocks of 32: a few large elements then cost the others of their block alone their
// accuracy, for a tenth of the speed of many rows. Weights of 4 bits have rows for that on every CPU.
bool TakesBlocksOfInt8(const Compiled& c) {
  constexpr size_t kBlock = 32;
  kernels::GemmProblem problem = c.problem;
  if (problem.rhs != Format::kU4 || problem.block % kBlock != 0 || problem.k % kBlock != 0) return false;
  problem.lhs = Format::kI8b;
  return kernels::SelectLayout(problem, SelectOptionsFor(c.config)).ok();
}

// y = a * dequantized(B)', B as it is, a quantized to int8 by blocks or by row where accuracy_level allows that (4).
Result<std::unique_ptr<CpuKernel>> CompileNBits(const Node& node, const CompileContext& context) {
  Compiled c = Start(node, context);
  QUERN_ASSIGN_OR_RETURN(const Tensor b, node.input(1)->constant()->tensor().Transient());
  const Tensor& scales = node.input(2)->constant()->tensor();
  const int64_t n = node.GetInt("N", 0), k = node.GetInt("K", 0), block = node.GetInt("block_size", 32);
  const int64_t bits = node.GetInt("bits", 4), blocks = (k + block - 1) / block, block_bytes = block * bits / 8;
  const bool int8_rows = node.GetInt("accuracy_level", 0) == 4;
  if (static_cast<int64_t>(b.bytes()) != n * blocks * block_bytes || scales.num_elements() != n * blocks) {
    return InvalidArgument("B or its scales do not have the size that N, K and block_size say");
  }
  c.problem.lhs = int8_rows ? Format::kI8d : Format::kF32;
  c.problem.rhs = bits == 2 ? Format::kU2 : bits == 4 ? Format::kU4 : Format::kU8;
  c.problem.n = static_cast<size_t>(n);
  c.problem.k = static_cast<size_t>(k);
  c.problem.block = static_cast<size_t>(block);
  c.problem.scale = Format::kF32;
  ukernel::RhsSource source;
  source.format = c.problem.rhs;
  source.data = b.unaligned_data();
  source.n_stride = blocks * block_bytes;
  source.block_stride = block_bytes;
  source.scales = scales.raw_data();
  source.scale_format = Format::kF32;
  source.scale_n_stride = blocks * kF32;
  source.scale_block_stride = kF32;
  if (const GraphValue* z = node.input(3)) {
    const bool packed = z->type().dtype == DType::kU8;
    c.problem.zero_point = packed ? Format::kU8 : Format::kF32;
    source.zero_points = z->constant()->tensor().raw_data();
    source.zero_point_format = packed ? c.problem.rhs : Format::kF32;
    source.zero_point_n_stride = packed ? (blocks * bits + 7) / 8 : blocks * kF32;
  }
  if (const GraphValue* bias = node.input(5)) {
    c.epilogue.bias = bias->constant()->tensor();
    c.epilogue.ops.push_back({.kind = EpilogueKind::kAddVectorN, .data = c.epilogue.bias.raw_data()});
  }
  c.what = std::string(int8_rows ? ", int8" : ", float32") + " rows by " + std::to_string(bits) + "-bit blocks of " +
           std::to_string(block);
  if (int8_rows && TakesBlocksOfInt8(c)) c.problem.lhs = Format::kI8b;
  QUERN_RETURN_IF_ERROR(Finish(node, context, source, c));
  return MakeKernel(std::move(c));
}

std::string RejectBnb4(const Node& node, const CpuConfig&) {
  for (const int i : {0, 2}) {
    if (node.input(i)->type().dtype != DType::kF32)
      return std::string("type ") + DTypeName(node.input(i)->type().dtype);
  }
  if (!node.input(1)->is_constant() || !node.input(2)->is_constant()) return "weights and scales must be constant";
  if (node.input(0)->type().rank() > 2 + static_cast<int>(kernels::kMaxBatchDims)) return "too many batch dimensions";
  return {};
}

Status InferProduct(InferContext& c) {
  const std::optional<Dims> a = c.input_shape(0), b = c.input_shape(1);
  if (!a || !b || a->empty() || b->size() != 2) return c.Error("the operands' shapes must be known");
  const Dim &k = a->back(), &rows = (*b)[c.node().GetInt("transB", 0) ? 1 : 0];
  if (k.is_constant() && rows.is_constant() && k.value() != rows.value()) {
    return c.Error("the left side has " + k.ToString() + " columns but the right side has " + rows.ToString() +
                   " rows");
  }
  Dims y(a->begin(), a->end() - 1);
  y.push_back((*b)[c.node().GetInt("transB", 0) ? 0 : 1]);
  c.SetOutputType(0, ValueType::Tensor(ProductType(c.node()), std::move(y)));
  return OkStatus();
}

constexpr CpuOp kOps[] = {
    {"", "MatMul", RejectMatMul, CompileMatMul},
    {"", "Gemm", RejectGemm, CompileGemm},
    {kCpuDomain, "MatMul", RejectMatMul, CompileMatMul, 0, InferProduct},
    {"com.microsoft", "MatMulBnb4", RejectBnb4, nullptr},  // becomes this provider's (cpu_multiply_levels)
    {"com.microsoft", "MatMulNBits", RejectNBits, CompileNBits},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsMatmul = kOps;

}  // namespace quern::cpu
