// What the tests of the elementwise family share: the rows that a CPU runs, types, drawn elements.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ukernel/elementwise/row_loops.h"
#include "ukernel/rows_that_run.h"

namespace quern::ukernel {

inline std::vector<const ElementwiseKernel*> ElementwiseRows(const CpuFacts& cpu) {
  return RowsThatRun(AllElementwiseKernels(), &ElementwiseKernel::unary, cpu);
}

// f.operator()<T>() for each type of elements.
template <class... Ts, class F>
void EachType(TypeList<Ts...>, F f) {
  (f.template operator()<Ts>(), ...);
}

// What holds a T in a vector: bools are bytes.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;

// Small numbers, numbers of any bits, and the ends of the range.
template <class T>
std::vector<Stored<T>> DrawElements(size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<Stored<T>> x(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = random();
    const unsigned what = static_cast<unsigned>(bits >> 60);
    if constexpr (std::is_same_v<T, bool>) {
      x[i] = bits & 1;
    } else if constexpr (std::is_integral_v<T>) {
      using Range = std::numeric_limits<T>;
      const T special[] = {Range::min(), Range::max(), T{0}, T{1}, static_cast<T>(-1), T{6}, static_cast<T>(-6)};
      x[i] = what < 8    ? static_cast<T>(bits)
             : what < 13 ? static_cast<T>(static_cast<int64_t>(bits % 41) - (std::is_signed_v<T> ? 20 : 0))
                         : special[bits % std::size(special)];
    } else if constexpr (sizeof(T) == 2) {
      std::memcpy(&x[i], &bits, sizeof(T));
    } else {
      using Range = std::numeric_limits<T>;
      const T special[] = {T{0},
                           -T{0},
                           Range::infinity(),
                           -Range::infinity(),
                           Range::quiet_NaN(),
                           Range::max(),
                           Range::min(),
                           -Range::max(),
                           -Range::min(),
                           Range::denorm_min(),
                           T{1},
                           T{-1},
                           T{0.5},
                           static_cast<T>(1e10)};
      const T unit = static_cast<T>(static_cast<double>(bits & 0xffffffffffff) * 0x1p-48);
      T any;  // of any exponent
      std::memcpy(&any, &bits, sizeof(T));
      x[i] = what < 6    ? (unit - T{0.5}) * T{20}
             : what < 9  ? (unit - T{0.5}) * T{2000}
             : what < 10 ? (unit - T{0.5}) * static_cast<T>(0x1p65)
             : what < 14 ? any
                         : special[bits % std::size(special)];
    }
  }
  return x;
}

// The same bits, or both NaN.
template <class T>
bool IsSame(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a && b != b) return true;
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

}  // namespace quern::ukernel
