#include "provider/cpu/common/svm_functions.h"

#include <algorithm>
#include <cstring>

#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ukernel::BinaryKind;
using ukernel::EpilogueKind;
using ukernel::UnaryKind;
using Type = SvmKernel::Type;

constexpr ptrdiff_t kF32 = sizeof(float);
// Support vectors and features whose differences are 16 KB, half of a first-level cache.
constexpr int64_t kVectorBlock = 256, kFeatureBlock = 16;
constexpr int64_t kDistanceFloats = (kFeatureBlock + 1) * kVectorBlock;  // differences, and sums of their squares
constexpr int64_t kPowerBlock = 256;

}  // namespace

Result<SvmFunctions> SvmFunctions::Create(const SvmKernel& kernel, std::span<const float> vectors, int64_t features,
                                          int64_t expected_rows, const CompileContext& context) {
  SvmFunctions f;
  f.kernel_ = kernel;
  f.features_ = features;
  f.count_ = static_cast<int64_t>(vectors.size()) / features;
  f.config_ = *context.config;
  f.vector_ = VectorRowFor(f.config_);
  if (kernel.type == Type::kRbf) {
    f.columns_.resize(vectors.size());
    f.vector_->transpose({.rows = static_cast<size_t>(features),
                          .cols = static_cast<size_t>(f.count_),
                          .x = vectors.data(),
                          .x_col = features,
                          .y = f.columns_.data(),
                          .y_row = f.count_});
    return f;
  }
  if (kernel.type != Type::kLinear) {
    f.ops_.push_back({.kind = EpilogueKind::kMulScalar, .a = static_cast<float>(kernel.gamma)});
    f.ops_.push_back({.kind = EpilogueKind::kAddScalar, .a = static_cast<float>(kernel.coef0)});
  }
  if (kernel.type == Type::kSigmoid) f.ops_.push_back({.kind = EpilogueKind::kTanh});
  if (kernel.type == Type::kPoly && kernel.degree != 1 && kernel.degree != 2 && kernel.degree != 3) {
    f.power_ = ElementwiseRowFor(f.config_)->binary(BinaryKind::kPow, DType::kF32, DType::kF32);
    f.exponents_.assign(kPowerBlock, static_cast<float>(kernel.degree));
  }
  // In float32 whatever precision the session has: a vote has no result that is nearly right.
  kernels::GemmProblem problem;
  problem.n = static_cast<size_t>(f.count_);
  problem.k = static_cast<size_t>(features);
  problem.expected_m = static_cast<size_t>(expected_rows);
  const kernels::SelectOptions options = SelectOptionsFor(f.config_);
  ukernel::RhsSource source;
  source.format = ukernel::Format::kF32;
  source.data = vectors.data();
  source.k_stride = kF32;
  source.n_stride = features * kF32;
  QUERN_ASSIGN_OR_RETURN(const kernels::LayoutChoice layout, kernels::SelectLayout(problem, options));
  QUERN_ASSIGN_OR_RETURN(f.packed_, kernels::PackedRhs::Pack(problem, layout, source, context.packing(), options.cpu));
  QUERN_ASSIGN_OR_RETURN(f.product_, kernels::MatMul::Create(problem, options, layout));
  return f;
}

kernels::MatMulArgs SvmFunctions::Args(int64_t rows) const {
  kernels::MatMulArgs args;
  args.m = static_cast<size_t>(rows);
  args.lhs_row_stride = features_ * kF32;
  args.packed_rhs = &packed_;
  args.dst_row_stride = count_ * kF32;
  args.ops = ops_.data();
  args.op_count = ops_.size();
  return args;
}

SvmFunctions::Plan SvmFunctions::PlanRows(int64_t rows, int concurrency) const {
  Plan plan{.rows = rows, .concurrency = concurrency, .product = {}, .workspace_bytes = 0};
  if (rows == 0) return plan;
  if (kernel_.type == Type::kRbf) {
    plan.workspace_bytes = static_cast<size_t>(concurrency) * kDistanceFloats * sizeof(float);
  } else {
    plan.product = product_.Plan(Args(rows), concurrency);
    plan.workspace_bytes = plan.product.workspace_bytes;
  }
  return plan;
}

// exp(-gamma |x - s|^2) for the support vectors [first, first + n). From the differences: the squares of both and their
// product would cancel.
void SvmFunctions::Distances(const float* x, int64_t first, int64_t n, float* scratch, float* y) const {
  const auto columns = static_cast<size_t>(n);
  float* sums = scratch + kFeatureBlock * kVectorBlock;
  for (int64_t f0 = 0; f0 < features_; f0 += kFeatureBlock) {
    const int64_t features = std::min(kFeatureBlock, features_ - f0);
    for (int64_t f = 0; f < features; ++f) {
      vector_->binary({.kind = BinaryKind::kSub,
                       .n = columns,
                       .x = columns_.data() + (f0 + f) * count_ + first,
                       .z = x + f0 + f,
                       .y = scratch + f * n,
                       .z_step = 0});
    }
    vector_->fold_rows({.kind = ukernel::FoldKind::kSumSquares,
                        .rows = static_cast<size_t>(features),
                        .n = columns,
                        .x = scratch,
                        .row_stride = n,
                        .scale = -static_cast<float>(kernel_.gamma),
                        .y = f0 == 0 ? y : sums});
    if (f0 > 0) vector_->binary({.kind = BinaryKind::kAdd, .n = columns, .x = y, .z = sums, .y = y});
  }
  vector_->unary({.kind = UnaryKind::kExp, .n = columns, .x = y, .y = y});
}

Status SvmFunctions::RaiseToDegree(const StepContext& c, int64_t n, float* y) const {
  return ForRange(c, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
    if (!power_) {
      const UnaryKind kind = kernel_.degree == 2 ? UnaryKind::kSquare : UnaryKind::kCube;
      vector_->unary({.kind = kind, .n = static_cast<size_t>(end - begin), .x = y + begin, .y = y + begin});
      return;
    }
    float powers[kPowerBlock];
    for (int64_t i = begin; i < end; i += kPowerBlock) {
      const int64_t count = std::min(kPowerBlock, end - i);
      power_(count, y + i, exponents_.data(), powers);  // float32 knows no fault
      std::copy_n(powers, count, y + i);
    }
  });
}

Status SvmFunctions::Run(const StepContext& c, const Plan& plan, void* workspace, const float* x, float* y) const {
  if (kernel_.type == Type::kRbf) {
    const auto tile = [&](int slot, int64_t row, int64_t, int64_t first, int64_t end) {
      Distances(x + row * features_, first, end - first, static_cast<float*>(workspace) + slot * kDistanceFloats,
                y + row * count_ + first);
    };
    const Grid grid{.rows = plan.rows,
                    .cols = count_,
                    .row_tile = 1,
                    .col_tile = kVectorBlock,
                    .grain = std::max<int64_t>(1, kCheapGrain / (features_ * std::min(kVectorBlock, count_)))};
    return ParallelForGrid(*c.executor, grid, tile, c.cancel, plan.concurrency);
  }
  kernels::MatMulArgs args = Args(plan.rows);
  args.lhs = x;
  args.dst = y;
  QUERN_RETURN_IF_ERROR(product_.Run(
      plan.product, args,
      {.executor = c.executor, .cancel = c.cancel, .workspace = workspace, .workspace_bytes = plan.workspace_bytes}));
  if (kernel_.type != Type::kPoly || kernel_.degree == 1) return OkStatus();
  return RaiseToDegree(c, plan.rows * count_, y);
}

KernelDescription SvmFunctions::Describe(int64_t rows) const {
  if (kernel_.type == Type::kRbf) {
    KernelDescription d = Described(*vector_, "exponentials of distances to " + std::to_string(count_) + " vectors");
    d.packed_bytes = columns_.size() * sizeof(float);
    return d;
  }
  const auto m = static_cast<size_t>(rows);
  KernelDescription d = DescribeRow(product_.problem(), config_, product_.layout(), product_.RowFor(m), m);
  d.packed_bytes = packed_.packed_bytes();
  return d;
}

}  // namespace quern::cpu
