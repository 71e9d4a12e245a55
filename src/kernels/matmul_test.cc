// The product driver against float64 and integer loops: every row, tails, K blocks, strides, batches, threads.
#include "kernels/matmul.h"
#include "base/random_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <tuple>

#include "base/cpu.h"
#include "kernels/row_table.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "ukernel/convert.h"
#include "ukernel/row_runner.h"
#include "ukernel/test_depth.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::GuardedBuffer;
using ukernel::RhsSource;

SelectOptions Options(std::string_view row = {}) {
  SelectOptions o;
  o.cpu = HostCpu().facts();
  o.rows = TestRows();
  o.force_row = row;
  return o;
}

struct Shape {
  size_t m = 1, n = 1, k = 1;
  size_t block = 32;
  size_t lhs_gap = 3, dst_gap = 5;  // elements
  bool transposed_rhs = false, transposed_lhs = false, run_time = false;
  bool special = false;  // an infinity and a NaN among the operands
  uint32_t seed = 1;
};

// A product of float32 operands with everything that it needs, and its float64 result.
class FloatCase {
 public:
  FloatCase(const Shape& s) : s_(s) {
    std::mt19937 rng(s.seed);
    NormalNumbers<float> normal;
    const size_t lhs_rows = s.transposed_lhs ? s.k : s.m, lhs_columns = s.transposed_lhs ? s.m : s.k;
    lhs_stride_ = lhs_columns + s.lhs_gap;
    lhs_ = std::make_unique<GuardedBuffer>(lhs_rows ? ((lhs_rows - 1) * lhs_stride_ + lhs_columns) * 4 : 0);
    for (size_t i = 0; i < lhs_->bytes() / 4; ++i) lhs()[i] = normal(rng);
    rhs_ = std::make_unique<GuardedBuffer>(s.k * s.n * 4);
    for (size_t i = 0; i < s.k * s.n; ++i) rhs()[i] = normal(rng);
    bias_.resize(s.n);
    for (float& x : bias_) x = normal(rng);
    if (s.special && s.m > 2 && s.k > 3 && s.n > 3) {
      LhsAt(1, 2) = std::numeric_limits<float>::infinity();
      LhsAt(2, 3) = std::numeric_limits<float>::quiet_NaN();
      RhsAt(3, s.n - 1) = 1e-34f;  // its lower terms would be denormal
    }
    dst_stride_ = s.n + s.dst_gap;
  }

  float& LhsAt(size_t m, size_t k) { return lhs()[s_.transposed_lhs ? k * lhs_stride_ + m : m * lhs_stride_ + k]; }
  float& RhsAt(size_t k, size_t n) { return rhs()[s_.transposed_rhs ? n * s_.k + k : k * s_.n + n]; }
  float* lhs() { return reinterpret_cast<float*>(lhs_->data()); }
  float* rhs() { return reinterpret_cast<float*>(rhs_->data()); }

  RhsSource Source() {
    RhsSource r;
    r.data = rhs_->data();
    r.k_stride = static_cast<ptrdiff_t>(s_.transposed_rhs ? 4 : s_.n * 4);
    r.n_stride = static_cast<ptrdiff_t>(s_.transposed_rhs ? s_.k * 4 : 4);
    return r;
  }

  GemmProblem Problem(Precision precision = Precision::kFp32) const {
    GemmProblem p;
    p.n = s_.n;
    p.k = s_.k;
    p.precision = precision;
    p.rhs_constant = !s_.run_time;
    p.rhs_contiguous = !s_.transposed_rhs;
    return p;
  }

  // relu(x + bias) by the driver with this executor; empty on an error (reported).
  std::vector<float> Run(std::string_view row, Precision precision, Executor* executor,
                         DriverCounters* counters = nullptr) {
    const SelectOptions options = Options(row);
    const GemmProblem problem = Problem(precision);
    Result<LayoutChoice> layout = SelectLayout(problem, options);
    if (!layout.ok()) return Fail(layout.status());
    Result<MatMul> matmul = MatMul::Create(problem, options, *layout);
    if (!matmul.ok()) return Fail(matmul.status());
    InlineExecutor inline_executor;
    PackedRhs packed;
    MatMulArgs args;
    if (!s_.run_time) {
      Result<PackedRhs> made = PackedRhs::Pack(problem, *layout, Source(), inline_executor, options.cpu);
      if (!made.ok()) return Fail(made.status());
      packed = std::move(*made);
      args.packed_rhs = &packed;
    } else {
      args.rhs = Source();
    }
    args.m = s_.m;
    args.lhs = lhs_->data();
    args.lhs_row_stride = static_cast<ptrdiff_t>(s_.transposed_lhs ? 4 : lhs_stride_ * 4);
    args.lhs_k_stride = static_cast<ptrdiff_t>(s_.transposed_lhs ? lhs_stride_ * 4 : 4);
    const size_t dst_bytes = s_.m ? ((s_.m - 1) * dst_stride_ + s_.n) * 4 : 0;
    GuardedBuffer dst(dst_bytes);
    std::memset(dst.data(), 0x7e, dst_bytes);
    args.dst = dst.data();
    args.dst_row_stride = static_cast<ptrdiff_t>(dst_stride_ * 4);
    const EpilogueOp ops[] = {{.kind = EpilogueKind::kAddVectorN, .data = bias_.data()},
                              {.kind = EpilogueKind::kLeakyRelu, .a = 0.25f}};
    args.ops = ops;
    args.op_count = 2;
    const MatMulPlan plan = matmul->Plan(args, executor ? executor->concurrency() : 1);
    GuardedBuffer workspace(plan.workspace_bytes);
    std::memset(workspace.data(), 0x55, plan.workspace_bytes);
    const Status status = matmul->Run(plan, args,
                                      {.executor = executor,
                                       .workspace = workspace.data(),
                                       .workspace_bytes = plan.workspace_bytes,
                                       .counters = counters});
    if (!status.ok()) return Fail(status);
    std::vector<float> out(s_.m * s_.n);
    for (size_t m = 0; m < s_.m; ++m) {
      std::memcpy(out.data() + m * s_.n, dst.data() + m * dst_stride_ * 4, s_.n * 4);
      for (size_t i = s_.n * 4; m + 1 < s_.m && i < dst_stride_ * 4; ++i) {
        EXPECT_EQ(dst.data()[m * dst_stride_ * 4 + i], 0x7e) << "gap written";
      }
    }
    return out;
  }

  void ExpectRight(const std::vector<float>& out, double allowed, const std::string& what) {
    ASSERT_EQ(out.size(), s_.m * s_.n) << what;
    double error = 0, norm = 0;
    for (size_t m = 0; m < s_.m; ++m) {
      for (size_t n = 0; n < s_.n; ++n) {
        double x = 0;
        for (size_t k = 0; k < s_.k; ++k) {
          x += static_cast<double>(LhsAt(m, k)) * static_cast<double>(RhsAt(k, n));
        }
        norm += std::isfinite(x) ? x * x : 0;
        x += static_cast<double>(bias_[n]);
        x = x < 0 ? x * 0.25 : x;
        const double y = out[m * s_.n + n];
        if (!std::isfinite(x) || std::fabs(x) > 3e38) {
          ASSERT_FALSE(std::isfinite(y)) << what << " at " << m << "," << n << " is " << y << " not " << x;
          ASSERT_EQ(std::isnan(x), std::isnan(y)) << what << " at " << m << "," << n;
          continue;
        }
        if (s_.special) {  // magnitudes differ too much for one norm
          ASSERT_NEAR(y, x, 1e-3 + 1e-5 * std::fabs(x)) << what << " at " << m << "," << n;
          continue;
        }
        error += (x - y) * (x - y);
      }
    }
    ASSERT_LE(std::sqrt(error), allowed * std::sqrt(norm) + 1e-6 * std::sqrt(static_cast<double>(s_.m * s_.n))) << what;
  }

 private:
  std::vector<float> Fail(const Status& s) {
    ADD_FAILURE() << s.message();
    return {};
  }

  Shape s_;
  size_t lhs_stride_ = 0, dst_stride_ = 0;
  std::unique_ptr<GuardedBuffer> lhs_, rhs_;
  std::vector<float> bias_;
};

double Allowed(Precision p) { return p == Precision::kBf16 ? 5e-3 : p == Precision::kFp32Fast ? 1e-5 : 1e-6; }

std::string Text(const GemmKernel& row, const Shape& s) {
  return std::string(ukernel::Name(row).text) + " m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) +
         " k=" + std::to_string(s.k);
}

bool IsFloatRow(const GemmKernel& row) {
  return ukernel::LhsSourceFormat(row) == Format::kF32 && row.rhs == Format::kF32;
}

class FloatRows : public testing::TestWithParam<const GemmKernel*> {};

TEST_P(FloatRows, Shapes) {
  const GemmKernel& row = *GetParam();
  const std::string name = ukernel::Name(row).text;
  const Shape shapes[] = {{.m = 1, .n = 1, .k = 1},
                          {.m = 1, .n = 77, .k = 300},
                          {.m = 7, .n = 64, .k = 0},
                          {.m = 13, .n = 100, .k = 33},
                          {.m = 49, .n = 51, .k = 700},
                          {.m = 33, .n = 47, .k = 2100, .transposed_rhs = true},
                          {.m = 100, .n = 130, .k = 65, .transposed_lhs = true},
                          {.m = 20, .n = 96, .k = 1300, .transposed_rhs = true, .run_time = true},
                          {.m = 3, .n = 96, .k = 1300, .run_time = true},
                          {.m = 300, .n = 33, .k = 40, .run_time = true}};
  for (const Shape& s : shapes) {
    if (s.k % row.k_divisor) continue;
    FloatCase c(s);
    c.ExpectRight(c.Run(name, row.precision, nullptr), Allowed(row.precision), Text(row, s));
    if (HasFatalFailure()) return;
  }
}

TEST_P(FloatRows, SameBitsForAnyThreads) {
  const GemmKernel& row = *GetParam();
  const std::string name = ukernel::Name(row).text;
  for (const Shape& s : {Shape{.m = 150, .n = 200, .k = 640}, Shape{.m = 2, .n = 1500, .k = 320},
                         Shape{.m = 1200, .n = 30, .k = 96}, Shape{.m = 64, .n = 200, .k = 640, .run_time = true}}) {
    FloatCase c(s);
    const std::vector<float> want = c.Run(name, row.precision, nullptr);
    const bool brief = ukernel::Depth() == ukernel::TestDepth::kBrief;
    for (int threads : {2, 1, 4}) {
      ThreadPool pool({.threads = threads});
      EXPECT_EQ(c.Run(name, row.precision, &pool), want) << Text(row, s) << " threads " << threads;
      if (brief) break;
    }
    for (uint64_t seed = 0; seed < (brief ? 1 : 3); ++seed) {
      HostileExecutor hostile(seed);
      EXPECT_EQ(c.Run(name, row.precision, &hostile), want) << Text(row, s) << " hostile " << seed;
    }
  }
}

TEST_P(FloatRows, InfinitiesAndNaNSurvive) {
  const GemmKernel& row = *GetParam();
  if (row.precision == Precision::kBf16) GTEST_SKIP() << "inputs are rounded to bf16";
  const Shape s{.m = 40, .n = 70, .k = 200, .special = true};
  FloatCase c(s);
  DriverCounters counters;
  c.ExpectRight(c.Run(ukernel::Name(row).text, row.precision, nullptr, &counters), 0, Text(row, s));
  const bool split = row.lhs == Format::kBf16x2 || row.lhs == Format::kBf16x3;
  EXPECT_EQ(counters.split_fallbacks > 0, split);
}

INSTANTIATE_TEST_SUITE_P(Rows, FloatRows, testing::ValuesIn(RunnableRows(IsFloatRow)), RowTestName);

// Few rows by a matrix that comes with the run, longer than the results that L1 holds, which begins anywhere.
TEST(MatMul, FewRowsStreamAMatrixOfTheRun) {
  const size_t n = 5003, k = 70;
  GemmProblem problem{.n = n, .k = k, .rhs_constant = false, .rhs_contiguous = true};
  const SelectOptions options = Options();
  const MatMul matmul = MatMul::Create(problem, options, SelectLayout(problem, options).value()).value();
  EXPECT_TRUE(matmul.RowFor(1)->only_in_place);
  std::vector<float> lhs(3 * k), stored(1 + 2 * n * k);
  std::mt19937 rng(7);
  for (auto* v : {&lhs, &stored}) {
    for (float& x : *v) x = static_cast<float>(static_cast<int>(rng() % 9) - 4);
  }
  // Also as it was not announced: columns apart, for which the row that streams is of no use.
  for (const ptrdiff_t column : {1, 2}) {
    const float* rhs = stored.data() + 1;
    const ptrdiff_t line = static_cast<ptrdiff_t>(n) * column;
    for (const size_t m : {1, 2, 3}) {
      for (const int threads : {1, 2}) {
        std::vector<float> dst(m * n, -1.0f);
        MatMulArgs args;
        args.m = m;
        args.lhs = lhs.data();
        args.lhs_row_stride = k * 4;
        args.rhs = {.data = rhs, .k_stride = line * 4, .n_stride = column * 4};
        args.dst = dst.data();
        args.dst_row_stride = n * 4;
        ThreadPool pool({.threads = threads});
        const MatMulPlan plan = matmul.Plan(args, threads);
        EXPECT_EQ(plan.rhs_in_place && m == 1, column == 1 && m == 1);
        GuardedBuffer workspace(plan.workspace_bytes);
        ASSERT_TRUE(
            matmul
                .Run(plan, args,
                     {.executor = &pool, .workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes})
                .ok());
        for (size_t i = 0; i < m * n; ++i) {
          double x = 0;
          for (size_t j = 0; j < k; ++j) {
            x += static_cast<double>(lhs[i / n * k + j]) *
                 static_cast<double>(rhs[static_cast<ptrdiff_t>(j) * line + static_cast<ptrdiff_t>(i % n) * column]);
          }
          ASSERT_EQ(dst[i], x) << m << " " << i << " " << column;
        }
      }
    }
  }
}

// As the values of attention lie, whose heads are side by side.
TEST(MatMul, ShortRowsFarApartArePackedForManyRows) {
  GemmProblem problem{.n = 64, .k = 200, .rhs_constant = false, .rhs_contiguous = true};
  const SelectOptions options = Options();
  const MatMul matmul = MatMul::Create(problem, options, SelectLayout(problem, options).value()).value();
  const auto in_place = [&](size_t m, ptrdiff_t stride) {
    MatMulArgs args{.m = m, .lhs_row_stride = 800};
    args.rhs = {.k_stride = stride, .n_stride = 4};
    args.dst_row_stride = 256;
    return matmul.Plan(args, 1).rhs_in_place;
  };
  EXPECT_EQ(in_place(100, 256), in_place(100, 1024));
  EXPECT_FALSE(in_place(100, 3072));
  EXPECT_EQ(in_place(8, 3072), in_place(8, 256));
}

TEST(MatMul, BatchesBroadcastAndMerge) {
  // [2][3][m x k] x [3][k x n] (repeated over the first dimension) -> [2][3][m x n], run-time right sides.
  const size_t m = 5, n = 19, k = 23;
  std::vector<float> lhs(6 * m * k), rhs(3 * k * n), mask(3 * m * n);
  std::mt19937 rng(7);
  for (auto* v : {&lhs, &rhs, &mask}) {
    for (float& x : *v) x = static_cast<float>(static_cast<int>(rng() % 9) - 4);
  }
  GemmProblem problem{.n = n, .k = k, .rhs_constant = false, .rhs_contiguous = true};
  const SelectOptions options = Options();
  const LayoutChoice layout = SelectLayout(problem, options).value();
  const MatMul matmul = MatMul::Create(problem, options, layout).value();
  for (int threads : {1, 2}) {
    for (bool merged : {false, true}) {
      std::vector<float> dst(6 * m * n, -1.0f);
      BatchDim dims[2];
      dims[0] = {.count = 2, .lhs = 3 * m * k * 4, .rhs = 0, .dst = 3 * m * n * 4};
      dims[1] = {.count = 3,
                 .lhs = m * k * 4,
                 .rhs = merged ? 0 : static_cast<ptrdiff_t>(k * n * 4),
                 .dst = m * n * 4,
                 .ops = {static_cast<ptrdiff_t>(m * n * 4)}};
      MatMulArgs args;
      args.m = m;
      args.lhs = lhs.data();
      args.lhs_row_stride = k * 4;
      args.rhs = {.data = rhs.data(), .k_stride = n * 4, .n_stride = 4};
      args.dst = dst.data();
      args.dst_row_stride = n * 4;
      args.batch = dims;
      const EpilogueOp op{.kind = EpilogueKind::kAddMatrix, .data = mask.data(), .row_stride = n * 4};
      args.ops = &op;
      args.op_count = 1;
      ThreadPool pool({.threads = threads});
      const MatMulPlan plan = matmul.Plan(args, threads);
      EXPECT_EQ(plan.batch_count, merged ? 2u : 6u);
      GuardedBuffer workspace(plan.workspace_bytes);
      ASSERT_TRUE(matmul
                      .Run(plan, args,
                           {.executor = &pool, .workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes})
                      .ok());
      for (size_t b = 0; b < 6; ++b) {
        const float* w = rhs.data() + (merged ? 0 : b % 3 * k * n);
        for (size_t i = 0; i < m * n; ++i) {
          double x = mask[b % 3 * m * n + i];
          for (size_t j = 0; j < k; ++j) {
            x += static_cast<double>(lhs[(b * m + i / n) * k + j]) * static_cast<double>(w[j * n + i % n]);
          }
          ASSERT_EQ(dst[b * m * n + i], x) << b << " " << i;
        }
      }
    }
  }
}

TEST(MatMul, ARightSideOfARunIsPackedOnceForSeveralRuns) {
  const size_t m = 9, n = 33, k = 40;
  std::vector<float> lhs(2 * m * k), rhs(k * n), dst(2 * m * n);
  std::mt19937 rng(7);
  for (auto* v : {&lhs, &rhs}) {
    for (float& x : *v) x = static_cast<float>(static_cast<int>(rng() % 9) - 4);
  }
  const GemmProblem problem{.n = n, .k = k, .rhs_constant = false, .rhs_contiguous = false};
  const SelectOptions options = Options();
  const MatMul matmul = MatMul::Create(problem, options, SelectLayout(problem, options).value()).value();
  MatMulArgs args;
  args.m = m;
  args.lhs_row_stride = k * 4;
  args.rhs = {.data = rhs.data(), .k_stride = 4, .n_stride = k * 4};  // transposed: not read in place
  args.dst_row_stride = n * 4;
  const MatMulPlan plan = matmul.Plan(args, 1);
  GuardedBuffer workspace(plan.workspace_bytes);
  DriverCounters counters;
  for (size_t run = 0; run < 2; ++run) {
    args.lhs = lhs.data() + run * m * k;
    args.dst = dst.data() + run * m * n;
    args.rhs_is_packed = run > 0;
    ASSERT_TRUE(
        matmul
            .Run(plan, args,
                 {.workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes, .counters = &counters})
            .ok());
    EXPECT_EQ(counters.rhs_packed_bytes, plan.gemm.rhs_geometry.total_bytes);
  }
  for (size_t i = 0; i < 2 * m * n; ++i) {
    double x = 0;
    for (size_t j = 0; j < k; ++j) {
      x += static_cast<double>(lhs[i / n * k + j]) * static_cast<double>(rhs[i % n * k + j]);
    }
    ASSERT_EQ(dst[i], x) << i;
  }
}

TEST(MatMul, RefusesASmallWorkspace) {
  GemmProblem problem{.n = 40, .k = 3000};
  const SelectOptions options = Options();
  const LayoutChoice layout = SelectLayout(problem, options).value();
  const MatMul matmul = MatMul::Create(problem, options, layout).value();
  MatMulArgs args;
  args.m = 64;
  const MatMulPlan plan = matmul.Plan(args, 1);
  const Status status = matmul.Run(plan, args, {.workspace_bytes = plan.workspace_bytes - 1});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

// ---- integers

struct IntegerCase {
  size_t m, n, k;
  Format lhs, rhs;
  int32_t lhs_zero, rhs_zero;
  bool per_column;
  bool per_row = false;   // zero points of the left side: lhs_zero and the four below it in turn
  bool few_wide = false;  // signed weights of which few neighbours add up to more than 128
};

int At(Format f, const std::vector<uint8_t>& v, size_t i) {
  return f == Format::kI8 ? static_cast<int8_t>(v[i]) : v[i];
}

void CheckInteger(const GemmKernel* row, const IntegerCase& c, Executor* executor) {
  std::mt19937 rng(static_cast<uint32_t>(c.m * 31 + c.n * 7 + c.k));
  std::vector<uint8_t> lhs(c.m * c.k), rhs(c.k * c.n);
  for (auto* v : {&lhs, &rhs}) {
    for (uint8_t& x : *v) x = static_cast<uint8_t>(rng());
  }
  if (c.few_wide) {
    for (uint8_t& x : rhs) x = static_cast<uint8_t>(rng() % 1000 ? static_cast<int>(rng() % 121) - 60 : 127);
  }
  std::vector<int32_t> bias(c.n), zeros(c.n), row_zeros(c.m);
  for (size_t m = 0; m < c.m; ++m) row_zeros[m] = c.lhs_zero - (c.per_row ? static_cast<int32_t>(m % 5) : 0);
  std::vector<float> scale(c.n);
  for (size_t n = 0; n < c.n; ++n) {
    bias[n] = static_cast<int32_t>(rng() % 2000) - 1000;
    zeros[n] = c.rhs_zero + static_cast<int32_t>(n % 5);
    scale[n] = 1e-4f * static_cast<float>(1 + rng() % 20);
  }
  GemmProblem problem{.lhs = c.lhs, .rhs = c.rhs, .n = c.n, .k = c.k};
  const std::string name = row ? ukernel::Name(*row).text : "";
  const SelectOptions options = Options(name);
  Result<LayoutChoice> layout = SelectLayout(problem, options);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  const MatMul matmul = MatMul::Create(problem, options, *layout).value();
  const RhsSource source{.format = c.rhs, .data = rhs.data(), .k_stride = static_cast<ptrdiff_t>(c.n), .n_stride = 1};
  InlineExecutor inline_executor;
  const PackedRhs packed = PackedRhs::Pack(problem, *layout, source, inline_executor, options.cpu).value();
  const EpilogueOp ops[] = {
      {.kind = EpilogueKind::kAddVectorN, .data = bias.data()},
      {.kind = EpilogueKind::kRequantize, .format = Format::kU8, .data = scale.data(), .integer = 7}};
  for (size_t op_count : {size_t{0}, size_t{1}, size_t{2}}) {
    const size_t element = op_count == 2 ? 1 : 4;
    std::vector<char> dst(c.m * c.n * element);
    MatMulArgs args;
    args.m = c.m;
    args.lhs = lhs.data();
    args.lhs_row_stride = static_cast<ptrdiff_t>(c.k);
    args.packed_rhs = &packed;
    args.dst = dst.data();
    args.dst_row_stride = static_cast<ptrdiff_t>(c.n * element);
    args.ops = ops;
    args.op_count = op_count;
    args.zero_points.lhs = c.lhs_zero;
    if (c.per_row) args.zero_points.lhs_rows = row_zeros.data();
    args.zero_points.rhs = c.rhs_zero;
    if (c.per_column) args.zero_points.rhs_columns = zeros.data();
    const MatMulPlan plan = matmul.Plan(args, executor ? executor->concurrency() : 1);
    GuardedBuffer workspace(plan.workspace_bytes);
    ASSERT_TRUE(matmul
                    .Run(plan, args,
                         {.executor = executor, .workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes})
                    .ok());
    for (size_t m = 0; m < c.m; ++m) {
      for (size_t n = 0; n < c.n; ++n) {
        int32_t want = 0;
        for (size_t k = 0; k < c.k; ++k) {
          want += (At(c.lhs, lhs, m * c.k + k) - row_zeros[m]) *
                  (At(c.rhs, rhs, k * c.n + n) - (c.per_column ? zeros[n] : c.rhs_zero));
        }
        if (op_count > 0) want += bias[n];
        if (op_count < 2) {
          ASSERT_EQ(ukernel::LoadAs<int32_t>(dst.data() + (m * c.n + n) * 4), want) << name << " " << m << "," << n;
          continue;
        }
        const float q = std::nearbyint(static_cast<float>(want) * scale[n]) + 7.0f;
        ASSERT_EQ(static_cast<uint8_t>(dst[m * c.n + n]), static_cast<int>(std::min(255.0f, std::max(0.0f, q))))
            << name << " " << m << "," << n;
      }
    }
  }
}

bool IsIntegerRow(const GemmKernel& row) { return row.dst == Format::kI32 && row.lhs != Format::kI8d; }

class IntegerRows : public testing::TestWithParam<const GemmKernel*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(IntegerRows);

TEST_P(IntegerRows, ZeroPointsBiasRequantize) {
  const Format lhs = ukernel::LhsSourceFormat(*GetParam());
  const int32_t zero = lhs == Format::kU8 ? 131 : -9;
  ThreadPool pool({.threads = 2});
  HostileExecutor hostile(3);
  for (Executor* e :
       {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool), static_cast<Executor*>(&hostile)}) {
    CheckInteger(GetParam(), {1, 33, 70, lhs, Format::kI8, zero, 0, false}, e);
    CheckInteger(GetParam(), {37, 50, 129, lhs, Format::kI8, zero, 0, false}, e);
    CheckInteger(GetParam(), {37, 50, 64, lhs, Format::kI8, zero, 3, true}, e);
    CheckInteger(GetParam(), {37, 50, 64, lhs, Format::kI8, zero, 0, false, true}, e);
    CheckInteger(GetParam(), {37, 50, 700, lhs, Format::kI8, zero, 0, false, false, true}, e);
    CheckInteger(GetParam(), {9, 300, 5000, lhs, Format::kI8, zero, 0, false, false, true}, e);
    CheckInteger(GetParam(), {130, 96, 700, lhs, Format::kU8, zero, 100, true, true}, e);
    CheckInteger(GetParam(), {12, 20, 5000, lhs, Format::kU8, 0, 120, false}, e);
    CheckInteger(GetParam(), {9, 17, 31, lhs, Format::kU8, zero, 128, false}, e);
    CheckInteger(GetParam(), {300, 200, 100, lhs, Format::kU8, zero, 100, true}, e);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, IntegerRows, testing::ValuesIn(RunnableRows(IsIntegerRow)), RowTestName);

// ---- dynamic int8 rows, and other rows by blocks

bool IsDynamicRow(const GemmKernel& row) { return IsDynamic(row.lhs) || row.layouts[0].scale != Format::kNone; }

class DynamicRows : public testing::TestWithParam<const GemmKernel*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DynamicRows);

// The formula of numerics.md, written out.
void QuantizeRow(const float* x, size_t k, std::vector<int>* q, float* scale, int* zero) {
  float lo = 0, hi = 0;
  for (size_t i = 0; i < k; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  const float s = lo == hi ? 1.0f : 255.0f / (hi - lo);
  const float zmin = -128.0f + lo * s, zmax = 127.0f + hi * s;
  const float z = zmin + zmax > 0 ? -128.0f - lo * s : 127.0f - hi * s;
  *scale = s;
  *zero = static_cast<int>(std::nearbyint(std::min(127.0f, std::max(-128.0f, z))));
  q->resize(k);
  for (size_t i = 0; i < k; ++i) {
    (*q)[i] = std::min(127, std::max(-128, static_cast<int>(std::round(x[i] * s)) + *zero));
  }
}

struct BlockWeights {
  size_t n, k, block;
  Format scale_format;
  std::vector<uint8_t> nibbles, zeros;
  std::vector<char> scales;

  BlockWeights(size_t n_, size_t k_, size_t block_, Format scale, bool with_zeros)
      : n(n_), k(k_), block(block_), scale_format(scale) {
    std::mt19937 rng(11);
    const size_t blocks = ukernel::CeilDiv(k, block);
    nibbles.resize(n * blocks * block / 2);
    for (uint8_t& x : nibbles) x = static_cast<uint8_t>(rng());
    scales.resize(n * blocks * FormatBytes(scale));
    for (size_t i = 0; i < n * blocks; ++i) {
      ukernel::StoreFloat(scale, scales.data() + i * FormatBytes(scale),
                          0.01f + 0.001f * static_cast<float>(rng() % 50));
    }
    if (with_zeros) {
      zeros.resize(n * ukernel::CeilDiv(blocks, size_t{2}));
      for (uint8_t& x : zeros) x = static_cast<uint8_t>(rng());
    }
  }
  RhsSource Source() const {
    const ptrdiff_t blocks = static_cast<ptrdiff_t>(ukernel::CeilDiv(k, block));
    const ptrdiff_t bytes = static_cast<ptrdiff_t>(FormatBytes(scale_format));
    RhsSource s;
    s.format = Format::kU4;
    s.data = nibbles.data();
    s.block_stride = static_cast<ptrdiff_t>(block / 2);
    s.n_stride = blocks * s.block_stride;
    s.scales = scales.data();
    s.scale_format = scale_format;
    s.scale_block_stride = bytes;
    s.scale_n_stride = bytes * blocks;
    if (!zeros.empty()) {
      s.zero_points = zeros.data();
      s.zero_point_format = Format::kU4;
      s.zero_point_n_stride = (blocks + 1) / 2;
    }
    return s;
  }
  double Scale(size_t row, size_t b) const {
    const size_t blocks = ukernel::CeilDiv(k, block);
    return ukernel::LoadFloat(scale_format, scales.data() + (row * blocks + b) * FormatBytes(scale_format));
  }
  int Weight(size_t row, size_t i) const {
    const size_t blocks = ukernel::CeilDiv(k, block), b = i / block;
    const uint8_t byte = nibbles[(row * blocks + b) * block / 2 + i % block / 2];
    int zero = 8;
    if (!zeros.empty()) zero = zeros[row * ((blocks + 1) / 2) + b / 2] >> (b % 2 * 4) & 15;
    return (byte >> (i % 2 * 4) & 15) - zero;
  }
};

// Rows `x` by packed weights, plus bias.
std::vector<float> RunPacked(const MatMul& matmul, const PackedRhs& packed, const GemmProblem& problem,
                             const std::vector<float>& x, const std::vector<float>& bias, Executor* executor) {
  MatMulArgs args;
  args.m = x.size() / problem.k;
  std::vector<float> dst(args.m * problem.n);
  args.lhs = x.data();
  args.lhs_row_stride = static_cast<ptrdiff_t>(problem.k * 4);
  args.packed_rhs = &packed;
  args.dst = dst.data();
  args.dst_row_stride = static_cast<ptrdiff_t>(problem.n * 4);
  const EpilogueOp op{.kind = EpilogueKind::kAddVectorN, .data = bias.data()};
  args.ops = &op;
  args.op_count = 1;
  const MatMulPlan plan = matmul.Plan(args, executor ? executor->concurrency() : 1);
  GuardedBuffer workspace(plan.workspace_bytes);
  const Status status = matmul.Run(
      plan, args, {.executor = executor, .workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes});
  EXPECT_TRUE(status.ok()) << status.message();
  return dst;
}

void CheckBlocks(const GemmKernel* row, size_t m_count, const BlockWeights& w, Executor* executor, float tolerance) {
  GemmProblem problem{.lhs = Format::kI8d,
                      .rhs = Format::kU4,
                      .n = w.n,
                      .k = w.k,
                      .block = w.block,
                      .scale = w.scale_format,
                      .zero_point = w.zeros.empty() ? Format::kNone : Format::kU8};
  const std::string name = row ? ukernel::Name(*row).text : "";
  const SelectOptions options = Options(name);
  Result<LayoutChoice> layout = SelectLayout(problem, options);
  if (!layout.ok()) return;  // scales or zero points that this row does not take
  const MatMul matmul = MatMul::Create(problem, options, *layout).value();
  InlineExecutor inline_executor;
  const PackedRhs packed = PackedRhs::Pack(problem, *layout, w.Source(), inline_executor, options.cpu).value();
  const size_t units = ukernel::CeilDiv(w.n, packed.geometry().n_unit) * packed.geometry().n_unit;
  const size_t blocks = ukernel::CeilDiv(w.k, w.block);
  EXPECT_LT(packed.packed_bytes(), units * (blocks * w.block / 2 + blocks * 6 + 4) + 4096 * (units / 16))
      << "4-bit blocks must stay 4-bit";
  std::mt19937 rng(5);
  NormalNumbers<float> normal;
  std::vector<float> x(m_count * w.k), bias(w.n);
  for (float& v : x) v = normal(rng) + 0.3f;
  for (float& v : bias) v = normal(rng);
  const std::vector<float> dst = RunPacked(matmul, packed, problem, x, bias, executor);
  for (size_t m = 0; m < m_count; ++m) {
    std::vector<int> q;
    float scale;
    int zero;
    QuantizeRow(x.data() + m * w.k, w.k, &q, &scale, &zero);
    for (size_t n = 0; n < w.n; ++n) {
      double sum = 0, magnitude = 0;
      for (size_t b = 0; b * w.block < w.k; ++b) {
        int64_t inner = 0;
        for (size_t k = b * w.block; k < std::min(w.k, (b + 1) * w.block); ++k) inner += (q[k] - zero) * w.Weight(n, k);
        sum += w.Scale(n, b) * static_cast<double>(inner);
        magnitude += std::fabs(w.Scale(n, b) * static_cast<double>(inner));
      }
      const double want = sum / static_cast<double>(scale) + static_cast<double>(bias[n]);
      ASSERT_NEAR(dst[m * w.n + n], want, static_cast<double>(tolerance) * (magnitude / static_cast<double>(scale) + 1))
          << name << " " << m << "," << n;
    }
  }
}

TEST_P(DynamicRows, BlocksOfFourBits) {
  if (GetParam()->rhs != Format::kU4 || GetParam()->lhs != Format::kI8d) GTEST_SKIP() << "no dynamic rows by 4 bits";
  ThreadPool pool({.threads = 2});
  for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) {
    for (bool zeros : {false, true}) {
      for (size_t block : {32, 64, 128}) {
        CheckBlocks(GetParam(), 1, BlockWeights(40, 4 * block, block, scale, zeros), nullptr, 2e-6f);
        CheckBlocks(GetParam(), 19, BlockWeights(100, 1024, block, scale, zeros), &pool, 2e-6f);
      }
    }
  }
  CheckBlocks(GetParam(), 50, BlockWeights(300, 4096, 32, GetParam()->layouts[0].scale, false), &pool, 4e-6f);
}

// A product of dynamic rows by `rhs` through the forced row, plus bias; empty when the row does not take the problem.
std::vector<float> RunDynamic(const GemmKernel& row, const GemmProblem& problem, const RhsSource& source,
                              const std::vector<float>& x, const std::vector<float>& bias, Executor* executor) {
  const ukernel::KernelName name = ukernel::Name(row);  // which the options point at
  const SelectOptions options = Options(name.text);
  const Result<LayoutChoice> layout = SelectLayout(problem, options);
  if (!layout.ok()) return {};
  const MatMul matmul = MatMul::Create(problem, options, *layout).value();
  InlineExecutor inline_executor;
  const PackedRhs packed = PackedRhs::Pack(problem, *layout, source, inline_executor, options.cpu).value();
  return RunPacked(matmul, packed, problem, x, bias, executor);
}

std::vector<float> Normal(size_t count, uint32_t seed, float shift) {
  std::mt19937 rng(seed);
  NormalNumbers<float> normal;
  std::vector<float> v(count);
  for (float& x : v) x = normal(rng) + shift;
  return v;
}

// qp8_f32_qc8w of numerics.md: the same bits on every ISA.
TEST_P(DynamicRows, Int8PerChannelIsExact) {
  if (GetParam()->lhs != Format::kI8d) GTEST_SKIP() << "not dynamic";
  ThreadPool pool({.threads = 2});
  for (const auto& [m, n, k] : {std::tuple<size_t, size_t, size_t>{1, 40, 100}, {23, 70, 333}, {130, 129, 2048}}) {
    std::mt19937 rng(3);
    std::vector<int8_t> w(k * n);
    for (int8_t& v : w) v = static_cast<int8_t>(rng());
    const std::vector<float> scales = Normal(n, 4, 0), bias = Normal(n, 5, 0), x = Normal(m * k, 6, 0.4f);
    const GemmProblem problem{.lhs = Format::kI8d, .rhs = Format::kI8, .n = n, .k = k, .channel_scales = true};
    RhsSource source{.format = Format::kI8, .data = w.data(), .k_stride = static_cast<ptrdiff_t>(n), .n_stride = 1};
    source.channel_scales = scales.data();
    const std::vector<float> got = RunDynamic(*GetParam(), problem, source, x, bias, &pool);
    if (got.empty()) GTEST_SKIP() << "no weights per channel";
    for (size_t i = 0; i < m; ++i) {
      std::vector<int> q;
      float scale;
      int zero;
      QuantizeRow(x.data() + i * k, k, &q, &scale, &zero);
      for (size_t j = 0; j < n; ++j) {
        int32_t acc = 0;
        for (size_t c = 0; c < k; ++c) acc += (q[c] - zero) * w[c * n + j];
        const float real = static_cast<float>(acc) / scale;
        const float scaled = real * scales[j];
        ASSERT_EQ(got[i * n + j], scaled + bias[j]) << i << "," << j;
      }
    }
  }
}

// qp8_f32_qc4w of numerics.md: the same bits on every ISA, from both signed numbers and unsigned ones plus 8.
TEST_P(DynamicRows, FourBitsPerChannelAreExact) {
  if (GetParam()->lhs != Format::kI8d) GTEST_SKIP() << "not dynamic";
  ThreadPool pool({.threads = 2});
  for (const Format format : {Format::kI4, Format::kU4}) {
    for (const auto& [m, n, k] : {std::tuple<size_t, size_t, size_t>{1, 40, 101}, {23, 70, 333}, {130, 129, 2048}}) {
      std::mt19937 rng(3);
      const size_t row_bytes = (k + 1) / 2;
      std::vector<uint8_t> w(n * row_bytes);
      for (uint8_t& v : w) v = static_cast<uint8_t>(rng());
      const std::vector<float> scales = Normal(n, 4, 0), bias = Normal(n, 5, 0), x = Normal(m * k, 6, 0.4f);
      const GemmProblem problem{.lhs = Format::kI8d, .rhs = format, .n = n, .k = k, .channel_scales = true};
      RhsSource source{.format = format, .data = w.data(), .n_stride = static_cast<ptrdiff_t>(row_bytes)};
      source.channel_scales = scales.data();
      const std::vector<float> got = RunDynamic(*GetParam(), problem, source, x, bias, &pool);
      if (got.empty()) GTEST_SKIP() << "no weights of 4 bits per channel";
      for (size_t i = 0; i < m; ++i) {
        std::vector<int> q;
        float scale;
        int zero;
        QuantizeRow(x.data() + i * k, k, &q, &scale, &zero);
        for (size_t j = 0; j < n; ++j) {
          int32_t acc = 0;
          for (size_t c = 0; c < k; ++c) {
            const int bits = w[j * row_bytes + c / 2] >> (c % 2 * 4) & 15;
            acc += (q[c] - zero) *
                   (format == Format::kU4 || bits < 8 ? bits - (format == Format::kU4 ? 8 : 0) : bits - 16);
          }
          const float real = static_cast<float>(acc) / scale;
          const float scaled = real * scales[j];
          ASSERT_EQ(got[i * n + j], scaled + bias[j]) << FormatName(format) << " " << i << "," << j;
        }
      }
    }
  }
}

// What a row of the left side stands for to a micro-kernel.
std::vector<double> SeenAs(Format lhs, const float* x, size_t k) {
  std::vector<double> seen(x, x + k);
  if (lhs == Format::kI8d) {
    std::vector<int> q;
    float scale;
    int zero;
    QuantizeRow(x, k, &q, &scale, &zero);
    for (size_t c = 0; c < k; ++c) seen[c] = (q[c] - zero) / static_cast<double>(scale);
  } else if (lhs == Format::kI8b) {
    for (size_t b = 0; b < k; b += 32) {
      float largest = 0;
      for (size_t c = b; c < std::min(k, b + 32); ++c) largest = std::max(largest, std::fabs(x[c]));
      const float d = largest / 127.0f;
      const double stored = F16BitsToF32(F32ToF16Bits(d));
      for (size_t c = b; c < std::min(k, b + 32); ++c)
        seen[c] = stored * std::round(static_cast<double>(x[c] * (1.0f / d)));
    }
  }
  return seen;
}

// GGUF's blocks, whose scales (and minima) are inside.
TEST_P(DynamicRows, GgufBlocks) {
  ThreadPool pool({.threads = 2});
  size_t seen = 0;
  for (const Format format : {Format::kQ4_0, Format::kQ4_1, Format::kQ8_0}) {
    const size_t m = 9, n = 50, k = 256, blocks = k / 32;
    const size_t bytes = format == Format::kQ4_0 ? 18 : format == Format::kQ4_1 ? 20 : 34;
    std::mt19937 rng(8);
    std::vector<uint8_t> w(n * blocks * bytes);
    for (uint8_t& v : w) v = static_cast<uint8_t>(rng());
    for (size_t b = 0; b < n * blocks; ++b) {
      ukernel::StoreFloat(Format::kF16, w.data() + b * bytes, 0.01f + 0.001f * static_cast<float>(rng() % 40));
      if (format == Format::kQ4_1) ukernel::StoreFloat(Format::kF16, w.data() + b * bytes + 2, -0.1f);
    }
    const auto weight = [&](size_t j, size_t c) {
      const uint8_t* b = w.data() + (j * blocks + c / 32) * bytes;
      const double d = ukernel::LoadFloat(Format::kF16, b);
      if (format == Format::kQ8_0) return d * static_cast<int8_t>(b[2 + c % 32]);
      const uint8_t byte = b[bytes - 16 + c % 16];
      const int q = c % 32 < 16 ? byte & 15 : byte >> 4;
      return format == Format::kQ4_0 ? d * (q - 8) : d * q + ukernel::LoadFloat(Format::kF16, b + 2);
    };
    const std::vector<float> bias = Normal(n, 5, 0), x = Normal(m * k, 6, 0.4f);
    GemmProblem problem{.lhs = GetParam()->lhs, .rhs = format, .n = n, .k = k, .scale = Format::kF16};
    if (format == Format::kQ4_1) problem.zero_point = Format::kF32;
    const RhsSource source{.format = format,
                           .data = w.data(),
                           .n_stride = static_cast<ptrdiff_t>(blocks * bytes),
                           .block_stride = static_cast<ptrdiff_t>(bytes)};
    const std::vector<float> got = RunDynamic(*GetParam(), problem, source, x, bias, &pool);
    if (got.empty()) continue;
    ++seen;
    for (size_t i = 0; i < m; ++i) {
      const std::vector<double> seen = SeenAs(GetParam()->lhs, x.data() + i * k, k);
      for (size_t j = 0; j < n; ++j) {
        double sum = 0, magnitude = 1;
        for (size_t c = 0; c < k; ++c) {
          sum += seen[c] * weight(j, c);
          magnitude += std::fabs(seen[c] * weight(j, c));
        }
        ASSERT_NEAR(got[i * n + j], sum + static_cast<double>(bias[j]), 1e-6 * magnitude)
            << FormatName(format) << " " << i << "," << j;
      }
    }
  }
  if (!seen) GTEST_SKIP() << "no blocks of GGUF";
}

INSTANTIATE_TEST_SUITE_P(Rows, DynamicRows, testing::ValuesIn(RunnableRows(IsDynamicRow)), RowTestName);

}  // namespace
}  // namespace quern::kernels
