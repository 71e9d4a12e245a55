// Elementary functions of float64 without branches, calls or tables, so that loops over them vectorize on every ISA:
// no conversion between 64-bit integers and floats, exponents by shifts of bit patterns. Over the whole range,
// denormals, infinities and NaN included, exp and log are within 1 ulp, the others within 2.5; without FMA 1 ulp more.
// Trigonometric functions are in trigonometry_f64.h, powers in power_f64.h. Kernel-safe.
#pragma once

#include <cstdint>

#include "ukernel/vector_math.h"

namespace quern::ukernel {

QUERN_MATH double MulAdd(double a, double b, double c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}
QUERN_MATH uint64_t BitsOf(double x) { return __builtin_bit_cast(uint64_t, x); }
QUERN_MATH double DoubleOf(uint64_t bits) { return __builtin_bit_cast(double, bits); }
QUERN_MATH double Abs(double x) { return __builtin_fabs(x); }

// The whole number next to x towards zero, downwards, upwards, or nearest (half to even); -0 stays.
#if defined(__SSE4_1__) || defined(__aarch64__)
QUERN_MATH double Trunc(double x) { return __builtin_trunc(x); }
QUERN_MATH double Floor(double x) { return __builtin_floor(x); }
QUERN_MATH double Ceil(double x) { return __builtin_ceil(x); }
QUERN_MATH double Round(double x) { return __builtin_nearbyint(x); }
#else
// From 2^52 on all numbers are whole.
QUERN_MATH double Round(double x) {
  const double t = Abs(x);
  return t < 0x1p52 ? __builtin_copysign((t + 0x1p52) - 0x1p52, x) : x;
}
QUERN_MATH double Trunc(double x) {
  const double t = Abs(x), r = Round(t);
  return __builtin_copysign(r > t ? r - 1.0 : r, x);
}
QUERN_MATH double Floor(double x) {
  const double r = Round(x);
  return r > x ? r - 1.0 : r;
}
QUERN_MATH double Ceil(double x) {
  const double r = Round(x);
  return r < x ? __builtin_copysign(r + 1.0, x) : r;
}
#endif

// c0 + c1 x + c2 x^2 + ...: two chains of every other term, as the time of one would count in long polynomials.
QUERN_MATH double EveryOther(double, double c0) { return c0; }
QUERN_MATH double EveryOther(double, double c0, double) { return c0; }
template <class... Rest>
QUERN_MATH double EveryOther(double square, double c0, double, Rest... rest) {
  return MulAdd(EveryOther(square, rest...), square, c0);
}
template <class... Rest>
QUERN_MATH double Polynomial(double x, double c0, Rest... rest) {
  const double square = x * x;
  return MulAdd(EveryOther(square, rest...), x, EveryOther(square, c0, rest...));
}

[[maybe_unused]] static constexpr double kInfinity = __builtin_inf();
// 1.5 * 2^52: adding it leaves the nearest integer in the low bits.
[[maybe_unused]] static constexpr double kRoundToLong = 6755399441055744.0;
[[maybe_unused]] static constexpr double kLn2 = 0.6931471805599453;
// ln 2 in two parts, so that up to 11 bits times the first is exact.
[[maybe_unused]] static constexpr double kLn2High = 0x1.62e42fefa3000p-1, kLn2Low = 0x1.3de6af278ece6p-42;

// 2^n for a whole n in [-1022, 1023].
QUERN_MATH double PowerOfTwo(double n) { return DoubleOf((BitsOf(n + kRoundToLong) + 1023) << 52); }

// x = n ln2 + r with |r| <= ln2 / 2, for |x| < 2^10.
struct LongExpReduction {
  double n, r;
};
QUERN_MATH LongExpReduction ReduceExp(double x) {
  const double n = MulAdd(x, 1.4426950408889634, kRoundToLong) - kRoundToLong;
  return {n, MulAdd(n, -kLn2Low, MulAdd(n, -kLn2High, x))};
}

// e^r - 1 for |r| <= ln2 / 2.
QUERN_MATH double Expm1Reduced(double r) {
  const double p =
      Polynomial(r, 0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326084, 0.0013888888888883711,
                 0.0001984126987500228, 2.480158732567746e-05, 2.755725517000089e-06, 2.755727347871858e-07,
                 2.5105312729622103e-08, 2.09147553258932e-09);
  return MulAdd(p, r * r, r);
}

// e^x 2^k for a small whole k.
QUERN_MATH double ExpTimesPower(double x, double k) {
  // Beyond these the result is 0 or infinity; a NaN stays.
  const double bounded = x < -750.0 ? -750.0 : x > 712.0 ? 712.0 : x;
  const LongExpReduction e = ReduceExp(bounded);
  // 2^n as two factors: n may lie outside the exponents of double.
  const double n = e.n + k, half = MulAdd(n, 0.5, kRoundToLong) - kRoundToLong;
  return (Expm1Reduced(e.r) + 1.0) * PowerOfTwo(half) * PowerOfTwo(n - half);
}

// e^x.
QUERN_MATH double Exp(double x) { return ExpTimesPower(x, 0.0); }

// e^x - 1.
QUERN_MATH double Expm1(double x) {
  const double bounded = x < -40.0 ? -40.0 : x > 712.0 ? 712.0 : x;
  const LongExpReduction e = ReduceExp(bounded);
  const double half_power = PowerOfTwo((e.n > 1024.0 ? 1024.0 : e.n) - 1.0);
  const double y = 2.0 * MulAdd(half_power, Expm1Reduced(e.r), half_power - 0.5);
  return x == 0.0 ? x : x > 710.0 ? kInfinity : y;
}

// x = (1 + f) 2^exponent with 1 + f in [sqrt 1/2, sqrt 2), for a finite x that is positive and normal.
struct LogReduction {
  double exponent, f;
};
QUERN_MATH LogReduction ReduceLog(double x) {
  // The exponent as a double by adding 2^52 to its bits.
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const uint64_t offset = BitsOf(x) - kSqrtHalf;
  const uint64_t biased = ((offset + 0x4000000000000000) >> 52) | 0x4330000000000000;
  return {DoubleOf(biased) - (4503599627370496.0 + 1024.0), DoubleOf((offset & 0x000fffffffffffff) + kSqrtHalf) - 1.0};
}

// ln(x 2^-shift) + c for such an x; c is small beside it or x is near 1.
QUERN_MATH double LogPlus(double x, double shift, double c) {
  const LogReduction l = ReduceLog(x);
  const double exponent = l.exponent - shift, f = l.f;
  // ln(1 + f) = ln((1 + s) / (1 - s)) = f - (f^2 / 2 - s (f^2 / 2 + r)) with r = s^2 times a minimax polynomial.
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double r = z * Polynomial(z, 0.666666666666667, 0.3999999999989924, 0.2857142862609589, 0.2222221111514416,
                                  0.18182890556695602, 0.1533167403016786, 0.1461703754879165);
  return exponent * kLn2High - ((half - MulAdd(s, half + r, MulAdd(exponent, kLn2Low, c))) - f);
}

// `y` but for arguments x at the ends of the logarithm's range.
QUERN_MATH double AtEndsOfLog(double x, double y) {
  y = x == kInfinity || x != x ? x : y;
  y = x == 0.0 ? -kInfinity : y;
  return x < 0.0 ? __builtin_nan("") : y;
}

// ln x.
QUERN_MATH double Log(double x) {
  const bool tiny = x < 0x1p-1022;
  return AtEndsOfLog(x, LogPlus(tiny ? x * 0x1p54 : x, tiny ? 54.0 : 0.0, 0.0));
}

// ln(1 + x); of -0 it is 0.
QUERN_MATH double Log1p(double x) {
  const double u = 1.0 + x, part = u - 1.0;
  const double lost = (1.0 - (u - part)) + (x - part);  // by the sum
  return AtEndsOfLog(u, LogPlus(u, 0.0, lost / u));
}

// 1 / (1 + e^-x).
QUERN_MATH double Sigmoid(double x) {
  const double e = Exp(-Abs(x));
  const double s = 1.0 / (1.0 + e);
  return x >= 0.0 ? s : e * s;
}

// ln(1 + e^x).
QUERN_MATH double Softplus(double x) { return (x < 0.0 ? 0.0 : x) + Log1p(Exp(-Abs(x))); }

QUERN_MATH double Tanh(double x) {
  const double e = Expm1(-2.0 * Abs(x));
  return __builtin_copysign(-e / (e + 2.0), x);
}

QUERN_MATH double Sinh(double x) {
  const double t = Abs(x), e = Expm1(t);
  const double small = 0.5 * (e + e / (e + 1.0));
  return __builtin_copysign(t > 40.0 ? ExpTimesPower(t, -1.0) : small, x);
}

QUERN_MATH double Cosh(double x) {
  const double half = ExpTimesPower(Abs(x), -1.0);  // of e^|x|
  return half + 0.25 / half;
}

[[maybe_unused]] static constexpr double kManyBits = 0x1p60;  // from there on, adding 1 does not count

QUERN_MATH double Asinh(double x) {
  const double t = Abs(x);
  const bool large = t > kManyBits;
  const double square = large ? 0.0 : t * t;
  const double y = Log1p(t + square / (1.0 + __builtin_sqrt(square + 1.0)));
  return __builtin_copysign(y + (large ? kLn2 : 0.0), x);
}

QUERN_MATH double Acosh(double x) {
  const bool large = x > kManyBits;
  const double t = large ? 0.0 : x - 1.0;
  const double y = Log1p(large ? x - 1.0 : t + __builtin_sqrt(t * (t + 2.0))) + (large ? kLn2 : 0.0);
  return x < 1.0 ? __builtin_nan("") : y;
}

QUERN_MATH double Atanh(double x) {
  const double t = Abs(x);
  return __builtin_copysign(0.5 * Log1p(2.0 * t / (1.0 - t)), x);
}

QUERN_MATH double Erf(double x) {
  const double t = Abs(x), square = x * x;
  const double small =
      Polynomial(square, 0.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792,
                 0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05,
                 1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08, -1.1372848856791674e-09,
                 5.957176147748911e-11);
  // 1 - e^(-u^2) times a minimax polynomial in v; at 6 it is 1.
  const double u = t > 6.0 ? 6.0 : t, v = (u - 3.0) / (u + 3.0);
  const double scaled = Polynomial(
      v, 0.17900115118138996, -0.3262335600430372, 0.24560380171233093, -0.15011593650077582, 0.07166583719797331,
      -0.024392499318790735, 0.004269136333077869, 0.0007077464435611972, -0.0005970619531815352, 4.525520140579536e-05,
      6.405657794051666e-05, -1.2859347351455289e-05, -7.977696579644072e-06, 2.1124428949403864e-06,
      1.2459620847174093e-06, -2.6915157592850126e-07, -2.0355575642200858e-07);
  const double large = __builtin_copysign(1.0 - Exp(-u * u) * scaled, x);
  return t < 1.0 ? MulAdd(small, x, x) : large;
}

}  // namespace quern::ukernel
