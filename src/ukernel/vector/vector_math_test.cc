// The bounds that docs/numerics.md states for float32's elementary functions, of every row of the vector family, over
// all exponents.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

struct Bound {
  UnaryKind kind;
  const char* name;
  std::function<double(double)> f;
  double ulps;        // with FMA; half an ulp more without, but for operations of IEEE
  double growth = 0;  // times x^2: ulps more
  double least = 0;   // results below it may become anything that small
  float a = 0, b = 0;
};

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }
double SoftplusOf(double x) {
  return std::isinf(x) ? std::fmax(x, 0) : std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
}

std::vector<Bound> Bounds() {
  constexpr double kTiny = 0x1p-126, kSmall = 0x1p-119;
  const auto gelu = [](double x) { return x * (0.5 * std::erfc(-x * 0.70710678118654752440)); };
  const auto gelu_tanh = [](double x) { return x * SigmoidOf(1.59576912160573071176 * (x + 0.044715 * x * x * x)); };
  return {
      {UnaryKind::kExp, "exp", [](double x) { return std::exp(x); }, 1},
      {UnaryKind::kLog, "log", [](double x) { return std::log(x); }, 1},
      {UnaryKind::kTanh, "tanh", [](double x) { return std::tanh(x); }, 2.5},
      {UnaryKind::kErf, "erf", [](double x) { return std::erf(x); }, 2},
      {UnaryKind::kSigmoid, "sigmoid", SigmoidOf, 2.5, 0, kTiny},
      {UnaryKind::kSilu, "silu", [](double x) { return x * SigmoidOf(x); }, 2.5, 0, kSmall, 1},
      {UnaryKind::kGelu, "gelu", gelu, 9, 0.9, kTiny},
      {UnaryKind::kGeluTanh, "gelu tanh", gelu_tanh, 3, 2.5, kSmall},
      {UnaryKind::kSoftplus, "softplus", SoftplusOf, 2},
      {UnaryKind::kMish, "mish", [](double x) { return x * std::tanh(SoftplusOf(x)); }, 4.5, 0, kSmall},
      {UnaryKind::kElu, "elu", [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; }, 1, 0, 0, 0.5f},
      {UnaryKind::kCelu, "celu", [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; }, 1, 0, 0, 2},
      {UnaryKind::kSelu, "selu", [](double x) { return 1.25 * (x > 0 ? x : 1.5 * std::expm1(x)); }, 2.5, 0, 0, 1.5f,
       1.25f},
      {UnaryKind::kSoftsign, "softsign", [](double x) { return std::isinf(x) ? NAN : x / (1 + std::fabs(x)); }, 1.5},
      {UnaryKind::kSqrt, "sqrt", [](double x) { return std::sqrt(x); }, 0.5},
      {UnaryKind::kReciprocal, "reciprocal", [](double x) { return 1 / x; }, 0.5},
  };
}

// Numbers of every sign and exponent, zeros, denormals, infinities and NaN among them, and many where functions bend.
std::vector<float> Arguments() {
  std::vector<float> x;
  std::mt19937 random(3);
  for (uint32_t high = 0; high < 512; ++high) {
    for (uint32_t i = 0; i < 48; ++i) {
      const uint32_t fraction = i == 0 ? 0 : i == 1 ? 0x7fffff : random() & 0x7fffff;
      x.push_back(std::bit_cast<float>((high << 23) | fraction));
    }
  }
  for (const float span : {1.0f, 6.0f, 20.0f, 110.0f}) {
    UniformNumbers<float> uniform(-span, span);
    for (int i = 0; i < 8000; ++i) x.push_back(uniform(random));
  }
  return x;
}

double UlpsOff(float actual, double expected, double least) {
  if (std::isnan(expected)) return std::isnan(actual) ? 0 : 1e9;
  const float rounded = static_cast<float>(expected);
  if (std::isinf(rounded)) return actual == rounded || std::fabs(actual) >= 3.4028e38f ? 0 : 1e9;
  const double value = actual, size = std::fabs(expected);
  if (size < least && std::fabs(value) <= least) return 0;
  return std::fabs(value - expected) / std::ldexp(1.0, (size < 0x1p-126 ? -126 : std::ilogb(size)) - 23);
}

TEST(VectorRows, FunctionsKeepTheirBounds) {
  const std::vector<float> x = Arguments();
  std::vector<float> y(x.size());
  const CpuFacts cpu = HostCpu().facts();
  for (const KernelList<VectorKernel>* list : AllVectorKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const VectorKernel& row = list->rows[i];
      if (!row.unary || !IsaRunsOn(row.isa, cpu)) continue;
      for (const Bound& c : Bounds()) {
        row.unary({.kind = c.kind, .n = x.size(), .x = x.data(), .y = y.data(), .a = c.a, .b = c.b});
        const bool fma = !row.isa.any_arch || cpu.arch == Arch::kAArch64;
        const double ulps = c.ulps + (fma || c.ulps <= 0.5 ? 0 : 0.5);
        double worst = 0;
        size_t at = 0;
        for (size_t k = 0; k < x.size(); ++k) {
          const double more = c.growth > 0 && std::isfinite(x[k]) ? c.growth * x[k] * x[k] : 0;
          const double off = UlpsOff(y[k], c.f(x[k]), c.least) - more;
          if (off > worst) worst = off, at = k;
        }
        EXPECT_LE(worst, ulps) << Name(row).text << " " << c.name << " of " << x[at] << " gives " << y[at] << ", not "
                               << c.f(x[at]);
      }
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
