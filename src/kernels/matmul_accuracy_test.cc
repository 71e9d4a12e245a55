// Products by bf16 terms are, with what the driver leaves to multiply-add, at least as close to float64 as a sequential
// loop of float32 multiply-adds, whatever the numbers: medians over seeds of |C - C64| / ||A||B||.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/matmul.h"
#include "kernels/packed_rhs.h"
#include "kernels/row_table.h"
#include "ukernel/number_kinds.h"
#include "ukernel/test_depth.h"

namespace quern::kernels {
namespace {

using ukernel::Depth;
using ukernel::GuardedBuffer;
using ukernel::kNumberKinds;
using ukernel::NumberKind;
using ukernel::TestDepth;

// Several blocks of K; enough rows and columns that multiply-add runs in order.
constexpr size_t kM = 16, kN = 16, kK = 1500;

bool IsTermsRow(const GemmKernel& row) {
  return row.precision == Precision::kFp32 && row.rhs == Format::kF32 && ukernel::ComputesOnTerms(row);
}

struct Errors {
  double product = 0, loop = 0;
  uint64_t fallbacks = 0;
};

class Product {
 public:
  explicit Product(const GemmKernel& row) : name_(ukernel::Name(row).text) {
    options_.cpu = HostCpu().facts();
    options_.rows = TestRows();
    options_.force_row = name_;
    problem_ = {.n = kN, .k = kK};
    problem_.rhs_constant = true;
    layout_ = *SelectLayout(problem_, options_);
  }

  void Measure(const NumberKind& kind, uint32_t seed, Errors* e) {
    std::mt19937 rng(seed);
    std::vector<float> a(kM * kK), b(kN * kK), c(kM * kN);
    for (size_t i = 0; i < a.size(); ++i) a[i] = kind.lhs.Draw(rng, i / kK, i % kK, kK);
    for (size_t i = 0; i < b.size(); ++i) b[i] = kind.rhs.Draw(rng, i / kK, i % kK, kK);
    Multiply(a, b, c, &e->fallbacks);
    double product = 0, loop = 0, norm = 0;
    for (size_t m = 0; m < kM; ++m) {
      for (size_t n = 0; n < kN; ++n) {
        double want = 0, magnitude = 0;
        float sum = 0;
        for (size_t k = 0; k < kK; ++k) {
          const float x = a[m * kK + k], y = b[n * kK + k];
          want += static_cast<double>(x) * static_cast<double>(y);
          magnitude += std::fabs(static_cast<double>(x) * static_cast<double>(y));
          sum = std::fma(x, y, sum);
        }
        product += std::pow(static_cast<double>(c[m * kN + n]) - want, 2);
        loop += std::pow(static_cast<double>(sum) - want, 2);
        norm += magnitude * magnitude;
      }
    }
    e->product = std::sqrt(product / norm);
    e->loop = std::sqrt(loop / norm);
  }

 private:
  void Multiply(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c, uint64_t* fallbacks) {
    ukernel::RhsSource source;
    source.data = b.data();
    source.k_stride = 4;
    source.n_stride = kK * 4;
    InlineExecutor executor;
    Result<PackedRhs> packed = PackedRhs::Pack(problem_, layout_, source, executor, options_.cpu);
    Result<MatMul> matmul = MatMul::Create(problem_, options_, layout_);
    ASSERT_TRUE(packed.ok() && matmul.ok());
    MatMulArgs args;
    args.m = kM;
    args.lhs = a.data();
    args.lhs_row_stride = kK * 4;
    args.lhs_k_stride = 4;
    args.packed_rhs = &*packed;
    args.dst = c.data();
    args.dst_row_stride = kN * 4;
    const MatMulPlan plan = matmul->Plan(args, 1);
    ASSERT_GT(plan.gemm.k_block_count, 1u);
    GuardedBuffer workspace(plan.workspace_bytes);
    DriverCounters counters;
    ASSERT_TRUE(
        matmul
            ->Run(plan, args,
                  {.workspace = workspace.data(), .workspace_bytes = plan.workspace_bytes, .counters = &counters})
            .ok());
    *fallbacks = counters.split_fallbacks;
  }

  const std::string name_;
  SelectOptions options_;
  GemmProblem problem_;
  LayoutChoice layout_;
};

double Median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

class TermsAccuracy : public testing::TestWithParam<const GemmKernel*> {};

TEST_P(TermsAccuracy, AtLeastThatOfALoop) {
  Product product(*GetParam());
  const uint32_t seeds = Depth() == TestDepth::kFull ? 101 : Depth() == TestDepth::kBrief ? 1 : 7;
  for (const NumberKind& kind : kNumberKinds) {
    std::vector<double> mine, loop;
    for (uint32_t seed = 1; seed <= seeds; ++seed) {
      Errors e;
      ASSERT_NO_FATAL_FAILURE(product.Measure(kind, seed, &e));
      mine.push_back(e.product);
      loop.push_back(e.loop);
      if (kind.ordinary) {
        EXPECT_EQ(e.fallbacks, 0u) << kind.name;
      }
    }
    EXPECT_LE(Median(mine), Median(loop)) << kind.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, TermsAccuracy, testing::ValuesIn(RunnableRows(IsTermsRow)), RowTestName);

}  // namespace
}  // namespace quern::kernels
