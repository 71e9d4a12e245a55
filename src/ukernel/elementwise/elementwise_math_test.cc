// Functions of float64 and float32 of every row of the elementwise family against the C library's long doubles.
#include <functional>

#include "base/cpu.h"
#include "base/random_numbers.h"
#include "ukernel/elementwise/elementwise_test_rows.h"

namespace quern::ukernel {
namespace {

using Wide = long double;

struct FunctionCase {
  UnaryKind kind;
  const char* name;
  std::function<Wide(Wide)> f;
  double ulps;       // of float64, on CPUs with FMA
  bool f32 = false;  // has a row of float32 too
  RowParameters parameters = {};
  double slack = 0;        // times 2^-53 |x|: where the formula cancels
  double low = -INFINITY;  // below, parts of the formula are denormal
};

Wide SigmoidOf(Wide x) { return 1 / (1 + std::exp(-x)); }
Wide SoftplusOf(Wide x) { return std::fmax(x, Wide{0}) + std::log1p(std::exp(-std::fabs(x))) + (x - x); }
Wide Zeroed(Wide x, Wide y) { return std::isnan(x) ? x : y; }

std::vector<FunctionCase> Cases() {
  const auto softplus = [](Wide x) { return std::isinf(x) ? (x > 0 ? x : 0) : SoftplusOf(x); };
  return {
      {UnaryKind::kRelu, "relu", [](Wide x) { return x < 0 ? 0 : x; }, 0},
      {UnaryKind::kLeakyRelu, "leaky", [](Wide x) { return x < 0 ? 0.25L * x : x; }, 0.5, false, {.a = 0.25}},
      {UnaryKind::kThresholdedRelu, "thresholded", [](Wide x) { return x > 1.5L ? x : 0; }, 0, false, {.a = 1.5}},
      {UnaryKind::kHardSigmoid,
       "hard sigmoid",
       [](Wide x) { return Zeroed(x, std::fmin(std::fmax(0.25L * x + 0.5L, Wide{0}), Wide{1})); },
       0.5,
       false,
       {.a = 0.25, .b = 0.5},
       1},
      {UnaryKind::kHardSwish,
       "hard swish",
       [](Wide x) { return Zeroed(x, x * std::fmin(std::fmax(x / 6 + 0.5L, Wide{0}), Wide{1})); },
       2,
       false,
       {},
       4},
      {UnaryKind::kSigmoid, "sigmoid", SigmoidOf, 2.5},
      {UnaryKind::kSilu, "silu", [](Wide x) { return x * SigmoidOf(0.5L * x); }, 3.5, false, {.a = 0.5}},
      {UnaryKind::kTanh, "tanh", [](Wide x) { return std::tanh(x); }, 2.5},
      {UnaryKind::kExp, "exp", [](Wide x) { return std::exp(x); }, 1},
      {UnaryKind::kLog, "log", [](Wide x) { return std::log(x); }, 1},
      {UnaryKind::kSqrt, "sqrt", [](Wide x) { return std::sqrt(x); }, 0.51},
      {UnaryKind::kNeg, "neg", [](Wide x) { return -x; }, 0},
      {UnaryKind::kAbs, "abs", [](Wide x) { return std::fabs(x); }, 0},
      {UnaryKind::kReciprocal, "reciprocal", [](Wide x) { return 1 / x; }, 0.51},
      {UnaryKind::kFloor, "floor", [](Wide x) { return std::floor(x); }, 0},
      {UnaryKind::kCeil, "ceil", [](Wide x) { return std::ceil(x); }, 0},
      {UnaryKind::kRound, "round", [](Wide x) { return std::nearbyint(x); }, 0},
      {UnaryKind::kSign, "sign", [](Wide x) { return x > 0    ? 1
                                                     : x < 0  ? -1
                                                     : x == 0 ? 0
                                                              : x; }, 0},
      {UnaryKind::kErf, "erf", [](Wide x) { return std::erf(x); }, 1.5},
      {UnaryKind::kElu, "elu", [](Wide x) { return x < 0 ? 0.5L * std::expm1(x) : x; }, 2, false, {.a = 0.5}},
      {UnaryKind::kCelu, "celu", [](Wide x) { return x < 0 ? 2 * std::expm1(x / 2) : x; }, 2, false, {.a = 2}},
      {UnaryKind::kSelu,
       "selu",
       [](Wide x) { return 1.25L * (x > 0 ? x : 1.5L * std::expm1(x)); },
       4,
       false,
       {.a = 1.5, .b = 1.25}},
      {UnaryKind::kSoftplus, "softplus", softplus, 2},
      {UnaryKind::kSoftsign, "softsign", [](Wide x) { return std::isinf(x) ? NAN : x / (1 + std::fabs(x)); }, 1.5},
      {UnaryKind::kGelu,
       "gelu",
       [](Wide x) { return 0.5L * x * (1 + std::erf(x * 0.70710678118654752440L)); },
       3,
       false,
       {},
       2},
      {UnaryKind::kGeluTanh,
       "gelu tanh",
       [](Wide x) { return 0.5L * x * (1 + std::tanh(0.79788456080286535588L * (x + 0.044715L * x * x * x))); },
       4,
       false,
       {},
       4},
      {UnaryKind::kMish, "mish", [=](Wide x) { return x * std::tanh(softplus(x)); }, 5, false, {}, 0, -700},
      {UnaryKind::kSquare, "square", [](Wide x) { return x * x; }, 0.51},
      {UnaryKind::kCube, "cube", [](Wide x) { return x * x * x; }, 1.5},
      {UnaryKind::kSin, "sin", [](Wide x) { return std::sin(x); }, 1, true},
      {UnaryKind::kCos, "cos", [](Wide x) { return std::cos(x); }, 1, true},
      {UnaryKind::kTan, "tan", [](Wide x) { return std::tan(x); }, 2, true},
      {UnaryKind::kAsin, "asin", [](Wide x) { return std::asin(x); }, 2, true},
      {UnaryKind::kAcos, "acos", [](Wide x) { return std::acos(x); }, 2, true},
      {UnaryKind::kAtan, "atan", [](Wide x) { return std::atan(x); }, 2, true},
      {UnaryKind::kSinh, "sinh", [](Wide x) { return std::sinh(x); }, 2.5, true},
      {UnaryKind::kCosh, "cosh", [](Wide x) { return std::cosh(x); }, 2, true},
      {UnaryKind::kAsinh, "asinh", [](Wide x) { return std::asinh(x); }, 2.5, true},
      {UnaryKind::kAcosh, "acosh", [](Wide x) { return std::acosh(x); }, 2.5, true},
      {UnaryKind::kAtanh, "atanh", [](Wide x) { return std::atanh(x); }, 2.5, true},
      {UnaryKind::kAffine, "affine", [](Wide x) { return 0.5L * x + 0.25L; }, 0.51, true, {.a = 0.5, .b = 0.25}},
      {UnaryKind::kScale, "scale", [](Wide x) { return 0.75L * x; }, 0.51, true, {.a = 0.75}},
      {UnaryKind::kScaledTanh,
       "scaled tanh",
       [](Wide x) { return 0.5L * std::tanh(0.25L * x); },
       3,
       true,
       {.a = 0.5, .b = 0.25}},
      {UnaryKind::kParametricSoftplus,
       "parametric softplus",
       [=](Wide x) { return 0.5L * softplus(0.25L * x); },
       2,
       true,
       {.a = 0.5, .b = 0.25}},
      {UnaryKind::kDivide, "divide", [](Wide x) { return x / 3; }, 0.51, false, {.a = 3}},
      {UnaryKind::kShrink,
       "shrink",
       [](Wide x) { return x < -0.5L  ? x + 0.25L
                           : x > 0.5L ? x - 0.25L
                                      : 0; },
       0.51,
       true,
       {.a = 0.25, .b = 0.5}},
  };
}

// Distance in units in the last place of the expected value (of the smallest normal number below it).
template <class T>
double UlpsOff(T actual, Wide expected, Wide slack) {
  if (std::isnan(expected)) return std::isnan(actual) ? 0 : 1e9;
  const T rounded = static_cast<T>(expected);
  if (std::isinf(rounded))
    return actual == rounded || std::fabs(actual) >= 0.99999 * std::numeric_limits<T>::max() ? 0 : 1e9;
  constexpr int kDigits = std::numeric_limits<T>::digits, kLeast = std::numeric_limits<T>::min_exponent - 1;
  const int exponent = expected == 0 ? kLeast : std::max(std::ilogb(expected), kLeast);
  const Wide off = std::fabs(static_cast<Wide>(actual) - expected) - slack;
  return static_cast<double>(std::fmax(off, Wide{0}) / std::ldexp(Wide{1}, exponent - kDigits + 1));
}

// Arguments where a function of T changes its form, and steps around multiples of pi / 2.
template <class T>
std::vector<T> Arguments() {
  std::vector<T> x = DrawElements<T>(6000, 3);
  std::mt19937_64 random(5);
  const auto around = [&](double center, double width) {
    UniformNumbers<double> near(center - width, center + width);
    for (int i = 0; i < 100; ++i) x.push_back(static_cast<T>(near(random)));
  };
  for (const double c :
       {0.0, 0.41421356, 0.5, 1.0, 2.41421356, 6.0, 22.0, 40.0, 709.78, -709.78, -745.0, 710.47, 88.7}) {
    around(c, 0.25);
    around(-c, 1e-4);
  }
  around(0, 1e-9);
  for (int i = 1; i < 500; ++i) x.push_back(static_cast<T>(i * 1.5707963267948966));
  UniformNumbers<double> exponent(0, std::numeric_limits<T>::max_exponent);
  for (int i = 0; i < 2000; ++i) x.push_back(static_cast<T>(std::exp2(exponent(random))));
  x.push_back(static_cast<T>(1e6));
  x.push_back(static_cast<T>(6381956970095103.0 * 0x1p797));  // next to a multiple of pi / 2
  return x;
}

template <class T>
void CheckAccuracy(const ElementwiseKernel& row, const FunctionCase& c, double ulps) {
  const DType t = DTypeOf<T>();
  const UnaryRow run = row.unary(c.kind, t, t);
  ASSERT_NE(run, nullptr) << c.name;
  const std::vector<T> x = Arguments<T>();
  std::vector<T> y(x.size());
  run(static_cast<int64_t>(x.size()), x.data(), y.data(), c.parameters);
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] < c.low && std::isfinite(x[i])) continue;
    const Wide v = x[i], expected = c.f(v);
    const double off = UlpsOff(y[i], expected, c.slack * 0x1p-53L * std::fabs(v));
    if (off > worst) worst = off, at = x[i];
    if (expected == 0 && v == 0) EXPECT_EQ(std::signbit(y[i]), std::signbit(expected)) << c.name << " of " << x[i];
  }
  EXPECT_LE(worst, ulps) << Name(row).text << " " << DTypeName(t) << " " << c.name << " of " << at << " ("
                         << std::hexfloat << static_cast<double>(at) << "), expected " << static_cast<double>(c.f(at));
}

TEST(ElementwiseRows, FunctionsAreAccurate) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    // The portable row may lack FMA.
    const double more = row->isa.any_arch ? 1 : 0;
    for (const FunctionCase& c : Cases()) {
      CheckAccuracy<double>(*row, c, c.ulps + (c.ulps > 0.51 ? more : 0));
      if (c.f32) CheckAccuracy<float>(*row, c, 0.5001);
    }
  }
}

TEST(ElementwiseRows, PowersOfFloatsAreThoseOfC) {
  const float special[] = {0.0f,  -0.0f,  1.0f,  -1.0f,  INFINITY,   -INFINITY,   NAN,
                           2.0f,  -2.0f,  0.5f,  -0.5f,  3.0f,       -3.0f,       1e-40f,
                           3e38f, -3e38f, 1e10f, -1e10f, 8388607.0f, 16777217.0f, 0.25f,
                           7.0f,  -8.0f,  1.5f,  -1.5f,  -1e-40f,    1.0000001f,  0.9999999f};
  std::vector<float> x, f;
  for (const float a : special) {
    for (const float b : special) x.push_back(a), f.push_back(b);
  }
  const std::vector<float> more = DrawElements<float>(20000, 7), exponents = DrawElements<float>(20000, 8);
  for (size_t i = 0; i < more.size(); ++i) {
    x.push_back(i % 2 ? more[i] : std::fabs(more[i]));
    f.push_back(i % 3 ? exponents[i] : std::nearbyint(exponents[i] / 2));
  }
  std::vector<double> d(f.begin(), f.end());
  std::vector<int64_t> whole;
  for (const float e : f) whole.push_back(std::fabs(e) < 1e18f ? static_cast<int64_t>(e) : -3);
  d.push_back(0x1p53 + 2), d.push_back(0x1p53 - 1), d.push_back(0x1p51 + 0.5);
  std::vector<float> bases = x;
  bases.insert(bases.end(), {-1.0f, -1.0f, -2.0f});
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    const auto check = [&](DType t, const auto& exponent) {
      const BinaryRow run = row->binary(BinaryKind::kPow, DType::kF32, t);
      ASSERT_NE(run, nullptr);
      const size_t n = exponent.size();
      std::vector<float> y(n);
      EXPECT_TRUE(run(static_cast<int64_t>(n), bases.data(), exponent.data(), y.data()));
      for (size_t i = 0; i < n; ++i) {
        const Wide expected = std::pow(static_cast<Wide>(bases[i]), static_cast<Wide>(exponent[i]));
        ASSERT_LE(UlpsOff(y[i], expected, 0), 0.5005)
            << Name(*row).text << " " << bases[i] << " ^ " << exponent[i] << " = " << y[i];
        if (expected == 0) ASSERT_EQ(std::signbit(y[i]), std::signbit(expected));
      }
    };
    check(DType::kF32, f);
    check(DType::kF64, d);
    check(DType::kI64, whole);
  }
}

TEST(ElementwiseRows, PowersOfDoublesAreThoseOfC) {
  const double special[] = {0.0,  -0.0, 1.0,   -1.0,   INFINITY, -INFINITY,   NAN,         2.0,          -2.0,   0.5,
                            -0.5, 3.0,  -3.0,  5e-324, 1e-310,   1.7e308,     -1.7e308,    1e10,         -1e10,  0x1p53,
                            7.0,  -8.0, 1.5,   -1.5,   -1e-310,  1 + 0x1p-52, 1 - 0x1p-53, 1e300,        -1e300, 0.25,
                            1e-5, 1023, -1023, -1074,  1100,     0x1p53 + 2,  0x1p53 - 1,  0x1p51 + 0.5, 10};
  std::vector<double> x, y;
  for (const double a : special) {
    for (const double b : special) x.push_back(a), y.push_back(b);
  }
  const std::vector<double> bases = DrawElements<double>(20000, 7), exponents = DrawElements<double>(20000, 8);
  std::mt19937 random(9);
  UniformNumbers<double> near(0.01, 20), spread(-300, 300);
  for (size_t i = 0; i < bases.size(); ++i) {
    x.push_back(i % 2 ? bases[i] : std::fabs(bases[i]));
    y.push_back(i % 3 ? exponents[i] : std::nearbyint(exponents[i] / 2));
    x.push_back(near(random));  // results all over the range
    y.push_back(spread(random) / std::max(1.0, std::fabs(std::log10(x.back()))));
  }
  for (int base = 2; base <= 12; ++base) {  // exact ones
    for (int e = -8; e <= 12; ++e) x.push_back(base), y.push_back(e);
  }
  std::vector<int64_t> whole;
  for (const double e : y) whole.push_back(std::fabs(e) < 1e18 ? static_cast<int64_t>(e) : -3);
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    const auto check = [&](DType t, const auto& exponent) {
      const BinaryRow run = row->binary(BinaryKind::kPow, DType::kF64, t);
      ASSERT_NE(run, nullptr);
      std::vector<double> z(x.size());
      EXPECT_TRUE(run(static_cast<int64_t>(x.size()), x.data(), exponent.data(), z.data()));
      for (size_t i = 0; i < x.size(); ++i) {
        const double e = static_cast<double>(exponent[i]);
        const Wide expected = std::pow(static_cast<Wide>(x[i]), static_cast<Wide>(e));
        const double size = std::fabs(e * std::log2(std::fabs(x[i])));
        ASSERT_LE(UlpsOff(z[i], expected, 0), size < 64 ? 0.7 : 1.2)
            << Name(*row).text << " " << x[i] << " ^ " << e << " = " << z[i];
        if (expected == 0) ASSERT_EQ(std::signbit(z[i]), std::signbit(expected));
        if (std::nearbyint(x[i]) == x[i] && std::nearbyint(e) == e && e >= 0 && e <= 12 &&
            std::fabs(expected) < 0x1p53) {
          ASSERT_EQ(z[i], static_cast<double>(expected)) << x[i] << " ^ " << e;
        }
      }
    };
    check(DType::kF64, y);
    check(DType::kI64, whole);
  }
}

template <class T>
void CheckRemainders(const ElementwiseKernel& row) {
  std::vector<T> a = DrawElements<T>(20000, 11), b = DrawElements<T>(20000, 12), y(20000);
  for (size_t i = 0; i < a.size(); i += 3) b[i] = a[(i * 7) % a.size()];
  for (size_t i = 1; i < a.size(); i += 5) b[i] = static_cast<T>(std::nextafter(a[i] / T{3}, T{0}));
  const DType t = DTypeOf<T>();
  for (const BinaryKind kind : {BinaryKind::kMod, BinaryKind::kTruncMod}) {
    EXPECT_TRUE(row.binary(kind, t, t)(static_cast<int64_t>(a.size()), a.data(), b.data(), y.data()));
    for (size_t i = 0; i < a.size(); ++i) {
      T r = std::fmod(a[i], b[i]);
      if (kind == BinaryKind::kMod && r == r) {
        r = r == 0 ? std::copysign(T{0}, b[i]) : (r < 0) != (b[i] < 0) ? r + b[i] : r;
      }
      ASSERT_TRUE(IsSame(y[i], r)) << Name(row).text << " " << a[i] << " mod " << b[i] << " = " << y[i] << ", not "
                                   << r;
    }
  }
}
TEST(ElementwiseRows, RemaindersOfFloatsAreExact) {
  for (const ElementwiseKernel* row : ElementwiseRows(HostCpu().facts())) {
    CheckRemainders<float>(*row);
    CheckRemainders<double>(*row);
  }
}

}  // namespace
}  // namespace quern::ukernel
