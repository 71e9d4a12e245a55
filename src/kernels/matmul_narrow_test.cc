// Products of 16-bit floats by the driver: every row that this host can run, against float64 of the operands.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "kernels/matmul.h"
#include "kernels/packed_rhs.h"
#include "kernels/select.h"
#include "parallel/executor.h"
#include "ukernel/convert.h"
#include "ukernel/row_runner.h"

namespace quern::kernels {
namespace {

// `count` numbers of a format, and what they are.
struct Numbers {
  Numbers(Format format, size_t count, uint32_t seed) : bytes(count * FormatBytes(format)) {
    std::mt19937 rng(seed);
    NormalNumbers<float> normal;
    for (size_t i = 0; i < count; ++i) {
      char* p = bytes.data() + i * FormatBytes(format);
      ukernel::StoreFloat(format, p, normal(rng));
      values.push_back(static_cast<double>(ukernel::LoadFloat(format, p)));
    }
  }
  std::vector<char> bytes;
  std::vector<double> values;
};

void CheckRow(const GemmKernel& row, size_t m, size_t n, size_t k, Format out) {
  SCOPED_TRACE(std::string(ukernel::Name(row).text) + " m=" + std::to_string(m) + " n=" + std::to_string(n));
  const Numbers lhs(row.lhs, m * k, 1), rhs(row.rhs, k * n, 2);
  SelectOptions options;
  options.cpu = HostCpu().facts();
  options.force_row = ukernel::Name(row).text;
  const GemmProblem problem{.lhs = row.lhs, .rhs = row.rhs, .n = n, .k = k, .precision = row.precision};
  const Result<LayoutChoice> layout = SelectLayout(problem, options);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  Result<MatMul> matmul = MatMul::Create(problem, options, *layout);
  ASSERT_TRUE(matmul.ok()) << matmul.status().message();
  ukernel::RhsSource source;
  source.format = row.rhs;
  source.data = rhs.bytes.data();
  source.n_stride = static_cast<ptrdiff_t>(FormatBytes(row.rhs));
  source.k_stride = static_cast<ptrdiff_t>(n * FormatBytes(row.rhs));
  InlineExecutor executor;
  Result<PackedRhs> packed = PackedRhs::Pack(problem, *layout, source, executor, options.cpu);
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  const ukernel::EpilogueOp convert{.kind = ukernel::EpilogueKind::kConvert, .format = out};
  const size_t bytes = FormatBytes(out);
  std::vector<char> dst(m * n * bytes);
  MatMulArgs args;
  args.m = m;
  args.lhs = lhs.bytes.data();
  args.lhs_row_stride = static_cast<ptrdiff_t>(k * FormatBytes(row.lhs));
  args.lhs_k_stride = static_cast<ptrdiff_t>(FormatBytes(row.lhs));
  args.packed_rhs = &*packed;
  args.dst = dst.data();
  args.dst_row_stride = static_cast<ptrdiff_t>(n * bytes);
  args.ops = &convert;
  args.op_count = 1;
  const MatMulPlan plan = matmul->Plan(args, 1);
  std::vector<char> workspace(plan.workspace_bytes + 64);
  char* aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  const Status status =
      matmul->Run(plan, args, {.executor = &executor, .workspace = aligned, .workspace_bytes = plan.workspace_bytes});
  ASSERT_TRUE(status.ok()) << status.message();
  double error = 0, norm = 0;
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double want = 0;
      for (size_t l = 0; l < k; ++l) want += lhs.values[i * k + l] * rhs.values[l * n + j];
      const double x = static_cast<double>(ukernel::LoadFloat(out, dst.data() + (i * n + j) * bytes));
      error += (x - want) * (x - want);
      norm += want * want;
    }
  }
  const double rounding = out == Format::kBf16 ? 4e-3 : out == Format::kF16 ? 5e-4 : 0;
  const double sums = row.precision == Precision::kFp32 ? 1e-6 : row.precision == Precision::kFp16 ? 3e-3 : 5e-3;
  EXPECT_LE(std::sqrt(error / norm), rounding + sums);
}

TEST(MatMulNarrow, EveryRow) {
  const CpuFacts host = HostCpu().facts();
  size_t checked = 0;
  for (const auto* list : ukernel::AllGemmKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const GemmKernel& row = list->rows[i];
      const bool half = row.rhs == Format::kF16 || row.rhs == Format::kBf16;
      if (!half || ukernel::LhsSourceFormat(row) != row.lhs || !ukernel::RowRunner::WhyNot(row, host).empty()) continue;
      CheckRow(row, 17, 45, 700, row.rhs);
      CheckRow(row, 1, 70, 33, Format::kF32);
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << "no row of 16-bit floats runs here";
}

}  // namespace
}  // namespace quern::kernels
