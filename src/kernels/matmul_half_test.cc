// The product driver by every row of 16-bit floats against float64: tails, K blocks, packed and run-time right sides
// either way round, threads, results of 16 bits.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "base/random_numbers.h"
#include "kernels/matmul.h"
#include "kernels/row_table.h"
#include "parallel/thread_pool.h"
#include "ukernel/convert.h"
#include "ukernel/row_runner.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::GuardedBuffer;
using ukernel::IsFloatFormat;
using ukernel::LoadFloat;
using ukernel::StoreFloat;

bool IsHalfRow(const GemmKernel& row) { return row.rhs == Format::kBf16 || row.rhs == Format::kF16; }

struct Shape {
  size_t m, n, k;
  bool transposed = false, run_time = false;
};

// Rows of a float format, `gap` elements apart.
struct Matrix {
  Format format;
  size_t rows, columns, stride;
  std::unique_ptr<GuardedBuffer> buffer;

  Matrix(Format f, size_t r, size_t c, size_t gap, uint32_t seed) : format(f), rows(r), columns(c), stride(c + gap) {
    buffer = std::make_unique<GuardedBuffer>((r ? (r - 1) * stride + c : 0) * FormatBytes(f));
    std::mt19937 rng(seed);
    NormalNumbers<float> normal;
    for (size_t i = 0; i < buffer->bytes() / FormatBytes(f); ++i) StoreFloat(f, at(i), normal(rng));
  }
  char* at(size_t i) const { return buffer->data() + i * FormatBytes(format); }
  double value(size_t r, size_t c) const { return static_cast<double>(LoadFloat(format, at(r * stride + c))); }
  ptrdiff_t row_bytes() const { return static_cast<ptrdiff_t>(stride * FormatBytes(format)); }
};

class HalfRows : public testing::TestWithParam<const GemmKernel*> {};

// The result's bytes, [m][n] of `out`.
std::vector<char> Compute(const GemmKernel& row, const Shape& s, const Matrix& lhs, const Matrix& rhs, Format out,
                          Executor* executor) {
  const ukernel::KernelName name = ukernel::Name(row);
  SelectOptions options;
  options.cpu = HostCpu().facts();
  options.rows = TestRows();
  options.force_row = name.text;
  const GemmProblem problem{.lhs = lhs.format,
                            .rhs = rhs.format,
                            .n = s.n,
                            .k = s.k,
                            .precision = row.precision,
                            .rhs_constant = !s.run_time,
                            .rhs_contiguous = !s.transposed};
  const LayoutChoice layout = SelectLayout(problem, options).value();
  const MatMul matmul = MatMul::Create(problem, options, layout).value();
  const auto element = static_cast<ptrdiff_t>(FormatBytes(rhs.format));
  const ukernel::RhsSource source{.format = rhs.format,
                                  .data = rhs.buffer->data(),
                                  .k_stride = s.transposed ? element : rhs.row_bytes(),
                                  .n_stride = s.transposed ? rhs.row_bytes() : element};
  InlineExecutor inline_executor;
  PackedRhs packed;
  MatMulArgs args;
  if (s.run_time) {
    args.rhs = source;
  } else {
    packed = PackedRhs::Pack(problem, layout, source, inline_executor, options.cpu).value();
    args.packed_rhs = &packed;
  }
  std::vector<char> dst(s.m * s.n * FormatBytes(out));
  args.m = s.m;
  args.lhs = lhs.buffer->data();
  args.lhs_row_stride = lhs.row_bytes();
  args.dst = dst.data();
  args.dst_row_stride = static_cast<ptrdiff_t>(s.n * FormatBytes(out));
  const EpilogueOp ops[] = {{.kind = EpilogueKind::kMulScalar, .a = 0.5f},
                            {.kind = EpilogueKind::kConvert, .format = out}};
  args.ops = ops;
  args.op_count = out == Format::kF32 ? 1 : 2;
  const MatMulPlan plan = matmul.Plan(args, executor ? executor->concurrency() : 1);
  EXPECT_EQ(plan.gemm.main.row, &row);
  GuardedBuffer workspace(plan.workspace_bytes);
  const Status status = matmul.Run(
      plan, args, {.executor = executor, .workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes});
  EXPECT_TRUE(status.ok()) << status.message();
  return dst;
}

TEST_P(HalfRows, ShapesAndThreads) {
  const GemmKernel& row = *GetParam();
  const Format from = ukernel::LhsSourceFormat(row);
  ThreadPool pool({.threads = 3});
  for (const Shape& s : {Shape{1, 1, 1}, Shape{1, 77, 301}, Shape{7, 40, 0}, Shape{13, 100, 33},
                         Shape{49, 51, 1100, true}, Shape{70, 130, 65, true, true}, Shape{9, 65, 530, false, true}}) {
    const Matrix lhs(from, s.m, s.k, 3, 1);
    const Matrix rhs(row.rhs, s.transposed ? s.n : s.k, s.transposed ? s.k : s.n, 5, 2);
    for (Format out : {Format::kF32, row.rhs}) {
      const std::vector<char> got = Compute(row, s, lhs, rhs, out, nullptr);
      EXPECT_EQ(Compute(row, s, lhs, rhs, out, &pool), got) << "three threads";
      double error = 0, norm = 0;
      for (size_t m = 0; m < s.m; ++m) {
        for (size_t n = 0; n < s.n; ++n) {
          double want = 0;
          for (size_t k = 0; k < s.k; ++k) want += lhs.value(m, k) * (s.transposed ? rhs.value(n, k) : rhs.value(k, n));
          want *= 0.5;
          const double x = LoadFloat(out, got.data() + (m * s.n + n) * FormatBytes(out));
          error += (x - want) * (x - want);
          norm += want * want;
        }
      }
      // Half a unit in the last place of one result; of many at most half of that on average.
      const double half_unit = out == Format::kF32 ? 0 : out == Format::kF16 ? 0x1p-11 : 0x1p-8;
      const double rounded = s.m * s.n == 1 ? half_unit : half_unit / 2;
      const double allowed = (row.precision == Precision::kFp16 ? 2e-3 : 1e-6) + rounded;
      ASSERT_LE(std::sqrt(error), allowed * std::sqrt(norm)) << s.m << "x" << s.n << "x" << s.k << FormatName(out);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, HalfRows, testing::ValuesIn(RunnableRows(IsHalfRow)), RowTestName);

}  // namespace
}  // namespace quern::kernels
