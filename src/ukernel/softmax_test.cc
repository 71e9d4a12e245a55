// Softmax of every row that has one (vector: float32, elementwise: float64) against the formula in a wider type;
// operands end at guard pages.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/elementwise.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/rows_that_run.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

template <typename T>
void CheckSoftmax(const char* name, void (*softmax)(const SoftmaxLines<T>&), SoftmaxLines<T> args, bool in_place) {
  using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
  std::mt19937 random(11);
  NormalNumbers<T> normal(0, 4);
  const size_t n = args.width * args.count * args.lines;
  GuardedBuffer x(n * sizeof(T)), y(n * sizeof(T));
  auto* from = reinterpret_cast<T*>(x.data());
  std::vector<T> operand(n);
  for (T& v : operand) v = normal(random);
  if (args.lines > 2) operand[args.count] = std::numeric_limits<T>::quiet_NaN();  // of the second line alone
  std::memcpy(from, operand.data(), n * sizeof(T));
  args.x = from;
  args.y = in_place ? from : reinterpret_cast<T*>(y.data());
  args.stride = static_cast<ptrdiff_t>(args.width);
  softmax(args);
  for (size_t w = 0; w < args.width * args.lines; ++w) {
    const auto at = [&](size_t k) { return args.lines > 1 ? w * args.count + k : k * args.width + w; };
    Wide largest = operand[at(0)], sum = 0;
    for (size_t k = 0; k < args.count; ++k) {
      largest = std::max(largest, static_cast<Wide>(operand[at(k)]));
    }
    for (size_t k = 0; k < args.count; ++k) sum += std::exp(operand[at(k)] - largest);
    for (size_t k = 0; k < args.count; ++k) {
      if (sum != sum) {
        ASSERT_TRUE(args.y[at(k)] != args.y[at(k)]) << name << ", line " << w << " has a NaN";
        continue;
      }
      const Wide d = operand[at(k)] - largest;
      const auto expected = static_cast<double>(args.log ? d - std::log(sum) : std::exp(d) / sum);
      // The exponent is rounded, the sum with each element, and what follows a few times more.
      const double steps = 8 + static_cast<double>(args.count) / 32 - static_cast<double>(d);
      const double error = std::numeric_limits<T>::epsilon() * steps;
      ASSERT_NEAR(args.y[at(k)], expected, error * (args.log ? 1 : expected))
          << name << " " << args.count << " elements, line " << w << " of " << args.width;
    }
  }
}

template <typename T>
void CheckSoftmaxRow(const char* name, void (*softmax)(const SoftmaxLines<T>&)) {
  for (const bool log : {false, true}) {
    for (const size_t width : {1, 4, 5, 33, 70}) {
      for (const size_t count : {1, 3, 16, 301}) {
        for (const bool in_place : {false, true}) {
          ASSERT_NO_FATAL_FAILURE(
              CheckSoftmax<T>(name, softmax, {.count = count, .width = width, .log = log}, in_place));
          if (width > 1) continue;
          for (const size_t lines : {2, 5}) {
            ASSERT_NO_FATAL_FAILURE(CheckSoftmax<T>(
                name, softmax, {.count = count, .log = log, .lines = lines, .pitch = static_cast<ptrdiff_t>(count)},
                in_place));
          }
        }
      }
    }
  }
}

// What is added, and what it hides, against the softmax of the sums that are left.
template <typename T>
void CheckAdded(const char* name, void (*softmax)(const SoftmaxLines<T>&)) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  std::mt19937 random(5);
  NormalNumbers<T> normal(0, 4);
  for (const size_t n : {1, 7, 40, 300}) {
    for (const int hidden : {0, 2, 1}) {  // none, some, all of them
      for (const bool second : {false, true}) {
        GuardedBuffer x(n * sizeof(T)), a(n * sizeof(T)), b(n * sizeof(T)), y(n * sizeof(T));
        T *from = reinterpret_cast<T*>(x.data()), *first = reinterpret_cast<T*>(a.data());
        T *other = reinterpret_cast<T*>(b.data()), *to = reinterpret_cast<T*>(y.data());
        double sum = 0;
        std::vector<double> expected(n);
        for (size_t i = 0; i < n; ++i) {
          from[i] = normal(random), first[i] = normal(random), other[i] = normal(random);
          const bool hides = hidden == 1 || (hidden == 2 && i % 3 == 1);
          if (hides) (second && i % 2 ? other : first)[i] = -kInfinity;
          if (hides && i % 4 == 1) from[i] = i % 8 == 1 ? kInfinity : std::numeric_limits<T>::quiet_NaN();
          expected[i] = hides ? 0
                              : std::exp(static_cast<double>(from[i]) + static_cast<double>(first[i]) +
                                         (second ? static_cast<double>(other[i]) : 0.0));
          sum += expected[i];
        }
        softmax({.count = n, .x = from, .y = to, .add = {first, second ? other : nullptr}});
        GuardedBuffer unscaled(n * sizeof(T));
        auto* weights = reinterpret_cast<T*>(unscaled.data());
        T inverse = 0;
        softmax({.count = n, .x = from, .y = weights, .add = {first, second ? other : nullptr}, .inverse = &inverse});
        for (size_t i = 0; i < n; ++i) {
          const double want = sum > 0 ? expected[i] / sum : 0;
          ASSERT_NEAR(static_cast<double>(to[i]), want, 1e-4 * want) << name << " element " << i << " of " << n;
          ASSERT_EQ(weights[i] * inverse, to[i]) << name << " element " << i << " of " << n;
          ASSERT_LE(weights[i], 1) << name << " element " << i << " of " << n;
        }
      }
    }
  }
}

// Hidden elements first, more than a vector of them, then one that is no number.
template <typename T>
void CheckNan(const char* name, void (*softmax)(const SoftmaxLines<T>&)) {
  constexpr size_t kCount = 100;
  for (const size_t at : {0, 1, 50, 99}) {
    std::vector<T> x(kCount, T{1}), add(kCount, -std::numeric_limits<T>::infinity()), y(kCount);
    add[at] = 0;
    x[at] = std::numeric_limits<T>::quiet_NaN();
    softmax({.count = kCount, .x = x.data(), .y = y.data(), .add = {add.data(), nullptr}});
    EXPECT_TRUE(std::isnan(y[at])) << name << " element " << at;
  }
}

// Lines that come in blocks of any lengths, against the softmax of what is left: earlier results follow by the factors.
template <typename T>
void CheckBlocks(const char* name, void (*softmax)(const SoftmaxLines<T>&)) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  std::mt19937 random(13);
  NormalNumbers<T> normal(0, 4);
  // Largest elements that grow from block to block, shrink, or neither; first blocks that are hidden, or all of them; a
  // number of its own before all, which is no result.
  for (const T slope : {T{0}, T{0.3}, T{-0.3}}) {
    for (const size_t hidden : {0, 37, 400}) {
      for (const bool sinks : {false, true}) {
        constexpr size_t kCount = 400;
        std::vector<T> x(kCount), add(kCount), y(kCount);
        const T sink = 2;
        double sum = sinks ? std::exp(static_cast<double>(sink)) : 0;
        for (size_t i = 0; i < kCount; ++i) {
          x[i] = normal(random) + slope * static_cast<T>(i);
          if (i < hidden) {
            add[i] = -kInfinity;
            if (i % 5 == 0) x[i] = kInfinity;
          } else {
            add[i] = normal(random);
            sum += std::exp(static_cast<double>(x[i]) + static_cast<double>(add[i]));
          }
        }
        SoftmaxCarry<T> carry;
        if (sinks) carry = {.largest = sink, .sum = 1};
        size_t begin = 0;
        for (const size_t n : {1, 36, 17, 300, 46}) {
          GuardedBuffer from(n * sizeof(T)), added(n * sizeof(T));
          std::memcpy(from.data(), &x[begin], n * sizeof(T));
          std::memcpy(added.data(), &add[begin], n * sizeof(T));
          auto* block = reinterpret_cast<T*>(from.data());
          softmax({.count = n,
                   .x = block,
                   .y = block,
                   .add = {reinterpret_cast<const T*>(added.data()), nullptr},
                   .carry = &carry});
          for (size_t i = 0; i < begin; ++i) y[i] *= carry.factor;
          std::copy_n(block, n, &y[begin]);
          begin += n;
        }
        ASSERT_EQ(begin, kCount);
        for (size_t i = 0; i < kCount; ++i) {
          const double want = i < hidden ? 0 : std::exp(static_cast<double>(x[i]) + static_cast<double>(add[i])) / sum;
          ASSERT_NEAR(static_cast<double>(y[i]), want, 1e-4 * want + std::numeric_limits<T>::min())
              << name << " element " << i << ", slope " << slope << ", hidden " << hidden;
        }
      }
    }
  }
  // One that is no number, in any block, leaves none.
  for (const size_t bad : {0, 1, 2}) {
    SoftmaxCarry<T> carry;
    T y[3][40];
    for (size_t block = 0; block < 3; ++block) {
      std::vector<T> x(40, block == 1 ? -kInfinity : T{1}), add(40, block == 1 ? -kInfinity : T{0});
      if (block == bad) x[39] = std::numeric_limits<T>::quiet_NaN(), add[39] = 0;
      softmax({.count = 40, .x = x.data(), .y = y[block], .add = {add.data(), nullptr}, .carry = &carry});
      for (size_t i = 0; i < block; ++i) y[i][0] *= carry.factor;
    }
    EXPECT_TRUE(std::isnan(carry.sum)) << name << " block " << bad;
    EXPECT_TRUE(std::isnan(y[0][0])) << name << " block " << bad;
    EXPECT_TRUE(std::isnan(y[bad][39])) << name << " block " << bad;
    EXPECT_TRUE(std::isnan(y[2][0])) << name << " block " << bad;
  }
}

// Lines of any lengths against the formula; infinities, and what is no number, as they are.
template <typename T>
void CheckLogSums(const char* name, void (*softmax)(const SoftmaxLines<T>&)) {
  using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity(), kNan = std::numeric_limits<T>::quiet_NaN();
  constexpr size_t kLines = 9;
  std::mt19937 random(17);
  NormalNumbers<T> normal(0, 4);
  for (const size_t n : {1, 5, 16, 40, 301, 10000}) {
    GuardedBuffer buffer(n * kLines * sizeof(T));
    auto* x = reinterpret_cast<T*>(buffer.data());
    for (size_t i = 0; i < n * kLines; ++i) x[i] = normal(random);
    const auto last = [&](size_t line) -> T& { return x[line * n + n - 1]; };
    last(1) = kNan;
    last(2) = kInfinity;
    last(3) = -kInfinity;
    for (size_t line = 4; line < 8; ++line) {
      for (size_t i = 0; i < n; ++i) x[line * n + i] = line < 6 ? -kInfinity : kInfinity;
    }
    last(5) = last(7) = kNan;
    T sums[kLines];
    softmax({.count = n, .x = x, .lines = kLines, .pitch = static_cast<ptrdiff_t>(n), .log_sum = sums});
    for (size_t line = 0; line < kLines; ++line) {
      Wide largest = -kInfinity, sum = 0;
      for (size_t i = 0; i < n; ++i) {
        const Wide v = x[line * n + i];
        largest = v > largest || v != v ? v : largest;
      }
      for (size_t i = 0; i < n; ++i) sum += std::exp(x[line * n + i] - largest);
      const Wide expected = std::isinf(largest) ? largest : largest + std::log(sum);
      if (!std::isfinite(expected)) {
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(sums[line]) : sums[line] == static_cast<T>(expected))
            << name << ", line " << line << " of " << n << ": " << sums[line];
        continue;
      }
      const Wide error = 8 * std::numeric_limits<T>::epsilon() * std::max(Wide{1}, std::fabs(expected));
      EXPECT_LE(std::fabs(sums[line] - expected), error) << name << ", line " << line << " of " << n;
    }
  }
}

template <class T, class Kernel>
void CheckRow(const Kernel& row) {
  CheckSoftmaxRow<T>(Name(row).text, row.softmax);
  CheckAdded<T>(Name(row).text, row.softmax);
  CheckNan<T>(Name(row).text, row.softmax);
  CheckBlocks<T>(Name(row).text, row.softmax);
  CheckLogSums<T>(Name(row).text, row.softmax);
}

TEST(SoftmaxRows, FollowTheFormula) {
  for (const VectorKernel* row : RowsThatRun(AllVectorKernels(), &VectorKernel::softmax, HostCpu().facts()))
    CheckRow<float>(*row);
  for (const ElementwiseKernel* row :
       RowsThatRun(AllElementwiseKernels(), &ElementwiseKernel::softmax, HostCpu().facts())) {
    CheckRow<double>(*row);
  }
}

}  // namespace
}  // namespace quern::ukernel
