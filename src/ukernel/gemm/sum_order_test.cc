// Rows add up in the order that docs/kernels.md says: the same bits as a plain loop in that order gives.
#include "ukernel/sum_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/cpu.h"
#include "ukernel/row_runner.h"

namespace quern::ukernel {
namespace {

using Floats = std::vector<float>;

// a * b + c, of which portable rows round the product too.
struct MultiplyAdd {
  bool fused;
  template <class T>
  T operator()(T a, T b, T c) const {
    return fused ? std::fma(a, b, c) : c + a * b;
  }
};

// k in turn, `sets` sums of every sets-th one, joined at the end.
template <class T>
T Interleaved(const std::vector<T>& x, const std::vector<T>& w, size_t sets, MultiplyAdd fma) {
  std::vector<T> sum(sets, T{0});
  size_t k = 0;
  for (; k + sets <= x.size(); k += sets) {
    for (size_t s = 0; s < sets; ++s) sum[s] = fma(x[k + s], w[k + s], sum[s]);
  }
  for (size_t s = 1; s < sets; ++s) sum[0] += sum[s];
  for (; k < x.size(); ++k) sum[0] = fma(x[k], w[k], sum[0]);
  return sum[0];
}

// Chains of 256 k, an even number in all.
float Chains(SumOrder order, const Floats& x, const Floats& w, size_t sets, MultiplyAdd fma) {
  float total = 0;
  for (size_t begin = 0; begin < x.size(); begin += 256) {
    Floats even(sets, 0.0f), odd(sets, 0.0f);
    const auto pair = [&](size_t k, size_t s) {
      if (order == SumOrder::kApartChains) {
        even[s] = fma(x[k], w[k], even[s]);
        odd[s] = fma(x[k + 1], w[k + 1], odd[s]);
      } else {
        const size_t first = order == SumOrder::kOddFirstChains ? k + 1 : k, second = 2 * k + 1 - first;
        even[s] = fma(x[second], w[second], fma(x[first], w[first], even[s]));
      }
    };
    const size_t end = std::min(x.size(), begin + 256);
    size_t k = begin;
    for (; k + 2 * sets <= end; k += 2 * sets) {
      for (size_t s = 0; s < sets; ++s) pair(k + 2 * s, s);
    }
    for (size_t s = 1; s < sets; ++s) {
      even[0] += even[s];
      odd[0] += odd[s];
    }
    for (; k < end; k += 2) pair(k, 0);
    const float chain = order == SumOrder::kApartChains ? even[0] + odd[0] : even[0];
    total = begin == 0 ? chain : total + chain;
  }
  return total;
}

float ThirtyTwoApart(const Floats& x, const Floats& w, MultiplyAdd fma) {
  float sum = 0;
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float even = 0, odd = 0;
    for (size_t k = begin; k < std::min(x.size(), begin + 32); k += 2) {
      even = fma(x[k], w[k], even);
      odd = fma(x[k + 1], w[k + 1], odd);
    }
    sum += even + odd;
  }
  return sum;
}

// The order is known to the bit, and weights are read as they are stored.
bool IsTold(const GemmKernel& row) {
  if (FormatBits(row.rhs) <= 8 || IsSplit(row.lhs)) return false;
  switch (SumOrderOf(row)) {
    case SumOrder::kInOrder:
    case SumOrder::kInterleaved:
    case SumOrder::kChains:
    case SumOrder::kOddFirstChains:
    case SumOrder::kApartChains:
    case SumOrder::kThirtyTwo:
      return true;
    default:
      return false;
  }
}

std::vector<const GemmKernel*> Rows() {
  std::vector<const GemmKernel*> rows;
  for (auto lists : {AllGemmKernels(), EmulatedGemmKernels()}) {
    for (const auto* list : lists) {
      for (size_t i = 0; i < list->count; ++i) {
        const GemmKernel& row = list->rows[i];
        if (IsTold(row) && RowRunner::WhyNot(row, HostCpu().facts()).empty()) rows.push_back(&row);
      }
    }
  }
  return rows;
}

float InOrder(SumOrder order, const Floats& x, const Floats& w, size_t sets, MultiplyAdd fma) {
  return order == SumOrder::kInOrder       ? Interleaved(x, w, 1, fma)
         : order == SumOrder::kInterleaved ? Interleaved(x, w, sets, fma)
         : order == SumOrder::kThirtyTwo   ? ThirtyTwoApart(x, w, fma)
                                           : Chains(order, x, w, sets, fma);
}
double InOrder(SumOrder order, const std::vector<double>& x, const std::vector<double>& w, size_t sets,
               MultiplyAdd fma) {
  return Interleaved(x, w, order == SumOrder::kInOrder ? 1 : sets, fma);
}

class Sums : public testing::TestWithParam<const GemmKernel*> {
 protected:
  // T: what the row sums.
  template <class T>
  void Check() {
    const GemmKernel& row = *GetParam();
    const SumOrder order = SumOrderOf(row);
    const CpuFacts cpu = HostCpu().facts();
    const MultiplyAdd fma{!row.isa.any_arch};
    // One row by 16 columns, a whole tile, and one of fewer columns than half a unit of weights.
    const std::pair<size_t, size_t> kShapes[] = {{1, 16}, {TileM(row, cpu), TileN(row, cpu)}, {TileM(row, cpu), 3}};
    for (const auto& [m, n] : kShapes) {
      const RowProblem p{.m = m, .n = n, .k = 600, .fill = Fill::kNormal, .seed = 17};
      const size_t bytes = row.isa.any_arch ? 16 : std::string(row.isa.name).starts_with("avx512") ? 64 : 32;
      const size_t unit = row.consumed.n_unit, lanes = bytes / sizeof(T);
      // Of a call; rows of several k side by side know no half units.
      const size_t narrow = row.kr == 1 ? std::max(unit / 2, lanes) : unit;
      const size_t columns = n < unit ? narrow : std::min(n, TileN(row, cpu));
      const size_t vectors = p.m * columns * sizeof(T) / bytes * (order == SumOrder::kApartChains ? 2 : 1);
      const size_t sets = vectors >= 8 ? 1 : vectors >= 4 ? 2 : 4;
      RowRunner runner(row, cpu, p);
      runner.Prepare();
      runner.Compute();
      for (size_t i = 0; i < m; ++i) {
        std::vector<T> x(p.k), w(p.k);
        for (size_t k = 0; k < p.k; ++k) x[k] = static_cast<T>(runner.LhsValue(i, 0, k));
        for (size_t j = 0; j < n; ++j) {
          for (size_t k = 0; k < p.k; ++k) w[k] = static_cast<T>(runner.RhsValue(0, k, j));
          const T want = InOrder(order, x, w, sets, fma);
          ASSERT_EQ(runner.Result(i, j), static_cast<double>(want)) << TextOf(order).name << " at " << i << "," << j;
        }
      }
    }
  }
};

TEST_P(Sums, AreInTheOrderTold) {
  if (GetParam()->dst == Format::kF64) {
    Check<double>();
  } else {
    Check<float>();
  }
}

INSTANTIATE_TEST_SUITE_P(Gemm, Sums, testing::ValuesIn(Rows()),
                         [](const auto& info) { return std::string(Name(*info.param).text); });

}  // namespace
}  // namespace quern::ukernel
