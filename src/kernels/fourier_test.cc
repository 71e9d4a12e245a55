// Fourier plans of every form and row against the sums of the definition, in double precision.
#include "kernels/fourier.h"
#include "base/random_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <string>

#include "base/cpu.h"

namespace quern::kernels {
namespace {

using Number = std::complex<double>;

// What a plan makes of x, whose elements beyond are zero: sum over j of x[j] * exp(-+ 2 pi i j k / n), over n when
// inverse.
Number Sum(const std::vector<Number>& x, size_t k, size_t n, bool inverse) {
  Number sum = 0;
  for (size_t j = 0; j < x.size(); ++j) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
    sum += x[j] * std::polar(1.0, inverse ? turn : -turn);
  }
  return inverse ? sum / static_cast<double>(n) : sum;
}

struct Case {
  FourierForm form;
  bool inverse;
  size_t components, kept;
};

// `columns`: elements of a line stand apart and lines side by side, else the other way round.
void Check(const ukernel::FourierKernel& row, size_t n, const Case& c, size_t lines, size_t taken, bool columns) {
  const size_t results = c.form == FourierForm::kToReal ? 1 : 2;
  std::mt19937 random(static_cast<uint32_t>(n * 7 + lines));
  NormalNumbers<float> normal;
  std::vector<float> x(lines * taken * c.components), y(lines * c.kept * results), window(taken);
  for (float& v : x) v = normal(random);
  for (float& v : window) v = normal(random);
  const auto count = static_cast<int64_t>(lines);
  const auto in = static_cast<int64_t>(c.components), out = static_cast<int64_t>(results);
  const int64_t x_line = columns ? in : in * static_cast<int64_t>(taken);
  const int64_t x_element = columns ? in * count : in;
  const int64_t y_line = columns ? out : out * static_cast<int64_t>(c.kept);
  const int64_t y_element = columns ? out * count : out;
  const FourierPlan plan(static_cast<int64_t>(n), c.form, c.inverse, static_cast<int>(c.components),
                         static_cast<int64_t>(c.kept));
  std::vector<float> workspace(plan.workspace_floats(row), NAN);
  plan.Run(row, *ukernel::SelectVectorRow(HostCpu().facts()),
           {.lines = count,
            .x = x.data(),
            .x_line = x_line,
            .x_element = x_element,
            .taken = static_cast<int64_t>(taken),
            .window = window.data(),
            .y = y.data(),
            .y_line = y_line,
            .y_element = y_element},
           workspace.data());
  for (size_t line = 0; line < lines; ++line) {
    std::vector<Number> numbers(taken);
    for (size_t j = 0; j < taken; ++j) {
      const size_t at = line * static_cast<size_t>(x_line) + j * static_cast<size_t>(x_element);
      numbers[j] = {x[at], c.components == 2 ? x[at + 1] : 0.0f};
      numbers[j] *= static_cast<double>(window[j]);
    }
    if (c.form == FourierForm::kToReal) {
      numbers[0] = numbers[0].real();
      if (n % 2 == 0 && taken == n / 2 + 1) numbers[n / 2] = numbers[n / 2].real();
      numbers.resize(n);
      for (size_t k = 1; k < (n + 1) / 2; ++k) numbers[n - k] = std::conj(numbers[k]);
    }
    const double bound =
        2e-6 * std::sqrt(static_cast<double>(n)) * (c.inverse ? 2 / std::sqrt(static_cast<double>(n)) : 1);
    for (size_t k = 0; k < c.kept; ++k) {
      const Number want = Sum(numbers, k, n, c.inverse);
      const float* got = y.data() + line * static_cast<size_t>(y_line) + k * static_cast<size_t>(y_element);
      const std::string where = std::string(ukernel::Name(row).text) + ", length " + std::to_string(n) + ", line " +
                                std::to_string(line) + ", element " + std::to_string(k);
      ASSERT_NEAR(got[0], want.real(), bound) << where;
      if (results == 2) ASSERT_NEAR(got[1], want.imag(), bound) << where;
    }
  }
}

TEST(Fourier, IsTheSumOfItsDefinition) {
  const CpuFacts cpu = HostCpu().facts();
  for (const size_t lines : {1, 6, 40}) {
    const ukernel::FourierKernel& row = *ukernel::SelectFourierRow(cpu, lines);
    const size_t together = std::min<size_t>(lines, row.lanes);
    // Passes of each radix, alone and together; 67 and 134 by Bluestein.
    for (const size_t n : {1, 2, 3, 4, 5, 8, 15, 16, 22, 60, 67, 97, 134}) {
      const Case cases[] = {{FourierForm::kComplex, false, 2, n},      {FourierForm::kComplex, true, 2, n},
                            {FourierForm::kComplex, true, 1, n},       {FourierForm::kReal, false, 1, n},
                            {FourierForm::kReal, false, 1, n / 2 + 1}, {FourierForm::kToReal, true, 2, n}};
      for (const Case& c : cases) {
        const size_t all = c.form == FourierForm::kToReal ? n / 2 + 1 : n;
        for (const size_t taken : {all, (all + 1) / 2}) {
          for (const bool columns : {false, true}) {
            ASSERT_NO_FATAL_FAILURE(Check(row, n, c, together, taken, columns));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern::kernels
