// Rows of precision fp32 (fp64) are at least as close to the exact product as a sequential loop of float32 (float64)
// multiply-adds over the same numbers: the median over seeds of |C - C64| / ||A||B||, also of badly scaled operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/cpu.h"
#include "ukernel/row_runner.h"
#include "ukernel/test_depth.h"

namespace quern::ukernel {
namespace {

std::vector<const GemmKernel*> Rows() {
  std::vector<const GemmKernel*> rows;
  for (auto lists : {AllGemmKernels(), EmulatedGemmKernels()}) {
    for (const auto* list : lists) {
      for (size_t i = 0; i < list->count; ++i) {
        const GemmKernel& row = list->rows[i];
        const bool fp32 = row.precision == Precision::kFp32 && IsFloatFormat(row.lhs);
        if (!fp32 && row.precision != Precision::kFp64) continue;
        if (RowRunner::WhyNot(row, HostCpu().facts()).empty()) rows.push_back(&row);
      }
    }
  }
  return rows;
}

class Accuracy : public testing::TestWithParam<const GemmKernel*> {};

struct Errors {
  double row, loop;
};

// A loop of multiply-adds of T. Portable code has none that are fused: its loop rounds the product too.
template <class T>
double Loop(const GemmKernel& row, const double* x, const double* y, size_t k) {
  T sum = 0;
  for (size_t i = 0; i < k; ++i) {
    const T a = static_cast<T>(x[i]), b = static_cast<T>(y[i]);
    sum = row.isa.any_arch ? sum + a * b : std::fma(a, b, sum);
  }
  return static_cast<double>(sum);
}

// None where the driver takes multiply-add instead, and where an operand overflowed when it was made.
std::optional<Errors> Measure(const GemmKernel& row, const RowProblem& p) {
  RowRunner runner(row, HostCpu().facts(), p);
  runner.Prepare();
  runner.Compute();
  if (runner.FallsBack()) return std::nullopt;
  double row_error = 0, loop_error = 0, norm = 0;
  std::vector<double> lhs(p.k), rhs(p.n * p.k), magnitude;
  const std::vector<double> want = runner.Reference(&magnitude);
  for (size_t n = 0; n < p.n; ++n) {
    for (size_t k = 0; k < p.k; ++k) rhs[n * p.k + k] = runner.RhsValue(0, k, n);
  }
  const auto loop = row.precision == Precision::kFp64 ? Loop<double> : Loop<float>;
  const auto square = [](double x) { return x * x; };
  for (size_t m = 0; m < p.m; ++m) {
    for (size_t k = 0; k < p.k; ++k) lhs[k] = runner.LhsValue(m, 0, k);
    for (size_t n = 0; n < p.n; ++n) {
      const size_t at = m * p.n + n;
      row_error += square(runner.Result(m, n) - want[at]);
      loop_error += square(loop(row, lhs.data(), rhs.data() + n * p.k, p.k) - want[at]);
      norm += square(magnitude[at]);
    }
  }
  if (!std::isfinite(norm)) return std::nullopt;
  return Errors{std::sqrt(row_error / norm), std::sqrt(loop_error / norm)};
}

double Median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// The row's median is at most the loop's. Medians of a few seeds can be the other way round where both err alike: then
// the pairs decide, which have the same operands, by the geometric mean of their ratios.
void ExpectAtMostLoop(const std::vector<Errors>& errors, const std::string& what) {
  std::vector<double> row, loop;
  double log_of_ratios = 0;
  for (const Errors& e : errors) {
    row.push_back(e.row);
    loop.push_back(e.loop);
    if (e.row != e.loop) log_of_ratios += std::log(e.row / e.loop);
  }
  if (Depth() != TestDepth::kFull && log_of_ratios <= 0) return;
  EXPECT_LE(Median(row), Median(loop)) << what << ", logarithms of ratios " << log_of_ratios;
}

TEST_P(Accuracy, AtLeastThatOfALoop) {
  const GemmKernel& row = *GetParam();
  const bool plain = LhsSourceFormat(row) == row.rhs && (row.rhs == Format::kF32 || row.rhs == Format::kF64);
  // One row is what few rows are computed by; a whole tile has more results for each seed.
  for (const size_t m : {size_t{1}, TileM(row, HostCpu().facts())}) {
    // Those of 16-bit floats stay far below the loop; emulated instructions are slow.
    const uint32_t most = m > 1 && row.isa.emulated ? 11 : 101;
    uint32_t seeds = m > 1 ? 3 : plain ? 15 : 5;
    if (Depth() == TestDepth::kFull) seeds = most;
    if (Depth() == TestDepth::kBrief) seeds = m > 1 ? 1 : 3;
    for (Fill fill : {Fill::kNormal, Fill::kScaled}) {
      std::vector<Errors> errors;
      for (uint32_t seed = 1; seed <= seeds; ++seed) {
        const auto e = Measure(row, {.m = m, .n = 16, .k = 1024, .fill = fill, .seed = 1000 + seed});
        ASSERT_TRUE(e) << "falls back";
        errors.push_back(*e);
      }
      ExpectAtMostLoop(errors, (fill == Fill::kNormal ? "normal, " : "scaled, ") + std::to_string(m) + " rows");
    }
    if (TileM(row, HostCpu().facts()) == 1) break;
  }
}

// Rows that are split stage by stage of K: over several of them, which blocks longer than a sum span, and where the
// last block ends early.
TEST_P(Accuracy, OfSplitRowsOverManyStages) {
  const GemmKernel& row = *GetParam();
  if (!row.one_tile) GTEST_SKIP() << "rows are not split";
  for (const size_t m : {size_t{1}, TileM(row, HostCpu().facts())}) {
    for (const size_t block : {size_t{32}, size_t{64}, size_t{192}}) {
      const RowProblem p{.m = m, .n = 40, .k = 9 * 1024 + 40, .block = block, .fill = Fill::kScaled, .seed = 5};
      const auto e = Measure(row, p);
      ASSERT_TRUE(e);
      EXPECT_LE(e->row, e->loop) << m << " rows, blocks of " << block;
    }
  }
}

// Left out are numbers that do not fit into float16, denormals where instructions count them as zero, and, but for bf16
// terms, numbers of which few count: where several sums are joined that rounds up to 1.02 times as much as a loop.
bool Bears(const GemmKernel& row, const NumberKind& kind) {
  const auto is = [&](const char* isa) { return std::string(row.isa.name).starts_with(isa); };
  if (row.lhs == Format::kF16 || row.rhs == Format::kF16) {
    for (const Side& side : {kind.lhs, kind.rhs}) {
      if (std::abs(side.orders) > 10) return false;
    }
  }
  if (kind.denormals && row.lhs == Format::kBf16 && (is("amx") || is("avx512bf16"))) return false;
  return IsSplit(row.lhs) || (!kind.few && (kind.sample || Depth() == TestDepth::kFull));
}

TEST_P(Accuracy, OfNumbersOfAllKinds) {
  const GemmKernel& row = *GetParam();
  if (FormatBits(row.rhs) <= 8) GTEST_SKIP() << "a loop is over weights that were rounded once more";
  const uint32_t seeds = Depth() == TestDepth::kFull ? 101 : 9;
  for (const NumberKind& kind : kNumberKinds) {
    if (!Bears(row, kind)) continue;
    std::vector<Errors> errors;
    for (uint32_t seed = 1; seed <= seeds; ++seed) {
      const auto e = Measure(row, {.m = 4, .n = 16, .k = 1024, .seed = 2000 + seed, .kind = &kind});
      if (e) errors.push_back(*e);
    }
    if (!errors.empty()) ExpectAtMostLoop(errors, kind.name);
  }
}

std::string RowName(const testing::TestParamInfo<const GemmKernel*>& info) { return Name(*info.param).text; }

INSTANTIATE_TEST_SUITE_P(Gemm, Accuracy, testing::ValuesIn(Rows()), RowName);

}  // namespace
}  // namespace quern::ukernel
