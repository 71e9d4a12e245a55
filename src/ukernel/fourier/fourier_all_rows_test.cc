// Every row of the Fourier family against the sums of its header, in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/fourier.h"
#include "ukernel/guarded_buffer.h"
#include "ukernel/rows_that_run.h"

namespace quern::ukernel {
namespace {

using Number = std::complex<double>;

std::vector<const FourierKernel*> Rows() {
  return RowsThatRun(AllFourierKernels(), &FourierKernel::pass, HostCpu().facts());
}

Number Root(size_t k, size_t n) {
  return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n));
}
std::vector<float> Floats(const std::vector<Number>& numbers) {
  std::vector<float> floats;
  for (const Number& z : numbers)
    floats.insert(floats.end(), {static_cast<float>(z.real()), static_cast<float>(z.imag())});
  return floats;
}
std::vector<float> Roots(size_t count, size_t n) {
  std::vector<Number> roots;
  for (size_t k = 0; k < count; ++k) roots.push_back(Root(k, n));
  return Floats(roots);
}

// `elements` complex numbers of all lines of a row, in memory that ends before an inaccessible page.
class Lines {
 public:
  Lines(const FourierKernel& row, size_t elements, bool swapped = false)
      : lanes_(row.lanes),
        swapped_(swapped),
        memory_(2 * elements * row.lanes * sizeof(float)),
        data_(reinterpret_cast<float*>(memory_.data())) {
    static std::mt19937 random;
    NormalNumbers<float> normal;
    for (size_t i = 0; i < 2 * elements * lanes_; ++i) data_[i] = normal(random);
  }
  float* data() { return data_; }
  Number At(size_t j, size_t line) const {
    const double first = static_cast<double>(data_[2 * j * lanes_ + line]);
    const double second = static_cast<double>(data_[(2 * j + 1) * lanes_ + line]);
    return swapped_ ? Number(second, first) : Number(first, second);
  }

 private:
  size_t lanes_;
  bool swapped_;
  GuardedBuffer memory_;
  float* data_;
};

void ExpectNear(Number got, Number want, double bound, const std::string& where) {
  ASSERT_NEAR(got.real(), want.real(), bound) << where;
  ASSERT_NEAR(got.imag(), want.imag(), bound) << where;
}

TEST(FourierRows, PassesAreTheSumsOfTheHeader) {
  for (const FourierKernel* row : Rows()) {
    for (size_t radix = 2; radix <= kLargestRadix; ++radix) {
      for (const auto [parts, stride] : {std::pair<size_t, size_t>{1, 1}, {3, 1}, {1, 3}, {2, 2}, {0, 1}, {1, 0}}) {
        for (const bool swapped : {false, true}) {
          const size_t n = radix * parts * stride;
          Lines x(*row, n, swapped), y(*row, n, swapped);
          std::vector<Number> twiddles;  // no roots, so that none is taken for another
          for (size_t i = 0; i < parts * (radix - 1); ++i)
            twiddles.push_back(std::polar(1.0 + 0.01 * static_cast<double>(i), 0.7 * static_cast<double>(i)));
          const std::vector<float> factors = Floats(twiddles), roots = Roots(radix, radix);
          row->pass({.radix = radix,
                     .parts = parts,
                     .stride = stride,
                     .x = x.data(),
                     .y = y.data(),
                     .twiddles = factors.data(),
                     .roots = roots.data(),
                     .swapped = swapped});
          for (size_t i = 0; i < n; ++i) {
            const size_t q = i % stride, r = i / stride % radix, p = i / stride / radix;
            for (size_t line = 0; line < row->lanes; ++line) {
              Number want = 0;
              for (size_t k = 0; k < radix; ++k) want += x.At(q + stride * (p + parts * k), line) * Root(k * r, radix);
              if (r > 0) want *= twiddles[p * (radix - 1) + r - 1];
              ASSERT_NO_FATAL_FAILURE(ExpectNear(
                  y.At(i, line), want,
                  3e-6 * std::sqrt(static_cast<double>(radix)) * (2 + 0.02 * static_cast<double>(twiddles.size())),
                  std::string(Name(*row).text) + " radix " + std::to_string(radix) + ", element " + std::to_string(i)));
            }
          }
        }
      }
    }
  }
}

TEST(FourierRows, FactorsAndWeights) {
  for (const FourierKernel* row : Rows()) {
    for (const size_t n : {0, 1, 5}) {
      for (const bool swapped : {false, true}) {
        Lines x(*row, n, swapped), y(*row, n, swapped);
        const std::vector<float> factors = Roots(n, 7);
        row->multiply({.n = n, .x = x.data(), .y = y.data(), .factors = factors.data(), .swapped = swapped});
        for (size_t j = 0; j < n; ++j) {
          for (size_t line = 0; line < row->lanes; ++line) {
            ExpectNear(y.At(j, line), x.At(j, line) * Root(j, 7), 2e-6, Name(*row).text);
          }
        }
      }
      const std::vector<float> weights = {2, 4, 8, 16, 32};
      for (const auto [repeat, step] : {std::pair<size_t, size_t>{1, 0}, {2, 1}, {2, 0}}) {
        Lines x(*row, n);
        std::vector<Number> before;
        for (size_t j = 0; j < n; ++j) before.push_back(x.At(j, row->lanes - 1));
        row->scale({.rows = 2 * n, .repeat = repeat, .x = x.data(), .weights = weights.data(), .step = step});
        for (size_t j = 0; j < n; ++j) {
          EXPECT_EQ(x.At(j, row->lanes - 1), before[j] * static_cast<double>(weights[step * j])) << Name(*row).text;
        }
      }
    }
  }
}

// The spectrum of a real line, by the transform of half as many complex numbers; and back.
TEST(FourierRows, SpectraOfRealLines) {
  for (const FourierKernel* row : Rows()) {
    for (const size_t half : {1, 2, 3, 4, 5, 8, 9}) {
      const size_t n = 2 * half;
      const std::vector<float> roots = Roots(half / 2 + 1, n);
      const std::string where = std::string(Name(*row).text) + ", half " + std::to_string(half);
      Lines z(*row, half), whole(*row, n), part(*row, half + 1), joined(*row, half);
      row->split({.half = half, .x = z.data(), .y = whole.data(), .roots = roots.data(), .whole = true});
      row->split({.half = half, .x = z.data(), .y = part.data(), .roots = roots.data()});
      row->join({.half = half, .x = part.data(), .y = joined.data(), .roots = roots.data(), .scale = 0.5f});
      for (size_t line = 0; line < row->lanes; ++line) {
        // The complex line whose transform z is, and the real one that it stands for.
        std::vector<double> real(n);
        for (size_t j = 0; j < half; ++j) {
          Number sum = 0;
          for (size_t k = 0; k < half; ++k) sum += z.At(k, line) * std::conj(Root(j * k, half));
          real[2 * j] = sum.real() / static_cast<double>(half);
          real[2 * j + 1] = sum.imag() / static_cast<double>(half);
        }
        for (size_t k = 0; k < n; ++k) {
          Number want = 0;
          for (size_t j = 0; j < n; ++j) want += real[j] * Root(j * k, n);
          ExpectNear(whole.At(k, line), want, 4e-6, where);
          if (k <= half) ExpectNear(part.At(k, line), want, 4e-6, where);
        }
        for (size_t k = 0; k < half; ++k) ExpectNear(joined.At(k, line), z.At(k, line), 4e-6, where + " back");
      }
    }
  }
}

TEST(FourierRows, TheNarrowestThatTakesAllLines) {
  CpuFacts cpu = HostCpu().facts();
  std::set<size_t> widths;
  for (const FourierKernel* row : Rows()) widths.insert(row->lanes);
  for (size_t lines = 0; lines <= 40; ++lines) {
    const auto wide_enough = widths.lower_bound(lines);
    const size_t want = wide_enough == widths.end() ? *widths.rbegin() : *wide_enough;
    EXPECT_EQ(SelectFourierRow(cpu, lines)->lanes, want) << lines << " lines";
  }
  cpu.disabled = static_cast<uint16_t>(1u << static_cast<unsigned>(KernelGroup::kFourier));
  EXPECT_TRUE(SelectFourierRow(cpu, 40)->isa.any_arch);
}

}  // namespace
}  // namespace quern::ukernel
