// Powers of float64 and float32 without branches, calls or tables, by the rules of C's pow. Kernel-safe.
#pragma once

#include "ukernel/elementwise/math_f64.h"

namespace quern::ukernel {

// The power of x, out of that of |x|.
QUERN_MATH double SignedPower(double x, double y, double power) {
  const double half = 0.5 * y;
  const bool whole = Floor(y) == y, odd = whole & (Floor(half) != half);
  const uint64_t sign = BitsOf(x) & (odd ? uint64_t{1} << 63 : uint64_t{0});
  const bool unknown = !whole & (x < 0.0) & (x != -kInfinity);
  const double signed_power = unknown ? __builtin_nan("") : DoubleOf(BitsOf(power) ^ sign);
  const bool is_one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (Abs(y) == kInfinity));
  return is_one ? 1.0 : signed_power;
}

// x to the power of y by the rules of C, for x that are a float32 and a result that is rounded to one: the logarithm is
// within 2^-42 and the power within 2^-35, which leaves half an ulp of float32 and a little.
QUERN_MATH double PowerOfFloat(double x, double y) {
  const double t = Abs(x);
  const LogReduction l = ReduceLog(t);
  const double s = l.f / (2.0 + l.f), z = s * s;
  const double sum = Polynomial(z, 0.6666666666737665, 0.39999998795219155, 0.2857175496835035, 0.22191373380944632,
                                0.19363186932161763);  // of ln((1 + s) / (1 - s)) = 2 s + s z (2/3 + ...)
  const double finite = MulAdd(l.exponent, kLn2, s * MulAdd(z, sum, 2.0));
  const double log = t == 0.0 ? -kInfinity : t < kInfinity ? finite : t;
  const double product = y * log;
  // Beyond these the result is 0 or infinity; a NaN stays.
  const double bounded = product < -120.0 ? -120.0 : product > 100.0 ? 100.0 : product;
  const double n = MulAdd(bounded, 1.4426950408889634, kRoundToLong) - kRoundToLong, r = MulAdd(n, -kLn2, bounded);
  const double p =
      Polynomial(r, 0.4999999999995475, 0.16666666666662555, 0.04166666678698556, 0.008333333344268395,
                 0.0013888838910996056, 0.00019841224418291943, 2.4868002978056962e-05, 2.7617685465165067e-06);
  const double power = (1.0 + MulAdd(p, r * r, r)) * PowerOfTwo(n);
  return SignedPower(x, y, power);
}

// A number as the sum of two, of which the second is at most half an ulp of the first.
struct Twofold {
  double high, low;
};
// a + b for |a| >= |b| or a == 0.
QUERN_MATH Twofold QuickSum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
// a * b.
QUERN_MATH Twofold ExactProduct(double a, double b) {
  const double p = a * b;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return {p, __builtin_fma(a, b, -p)};
#else
  // Halves of 26 bits, whose products are exact (Dekker, 1971).
  const double wide_a = 134217729.0 * a, wide_b = 134217729.0 * b;
  const double high_a = wide_a - (wide_a - a), high_b = wide_b - (wide_b - b);
  const double low_a = a - high_a, low_b = b - high_b;
  return {p, ((high_a * high_b - p) + high_a * low_b + low_a * high_b) + low_a * low_b};
#endif
}
QUERN_MATH Twofold Product(Twofold a, Twofold b) {
  const Twofold p = ExactProduct(a.high, b.high);
  return QuickSum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

// The logarithm to base 2 of a finite x > 0, within 2^-63 of it.
QUERN_MATH Twofold LogToBase2(double x) {
  const bool tiny = x < 0x1p-1022;
  const LogReduction l = ReduceLog(tiny ? x * 0x1p54 : x);
  const double exponent = l.exponent - (tiny ? 54.0 : 0.0), f = l.f;
  // ln(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = f / (2 + f), |s| < 0.172.
  const Twofold divisor = QuickSum(2.0, f);
  const double quotient = f / divisor.high;
  const Twofold back = ExactProduct(quotient, divisor.high);
  const Twofold s{quotient, (((f - back.high) - back.low) - quotient * divisor.low) / divisor.high};
  const Twofold z = Product(s, s);
  const double rest = z.high * Polynomial(z.high, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                                          1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27);
  const Twofold third = QuickSum(0x1.5555555555555p-2, rest);
  const Twofold cubic = Product(s, Product(z, {third.high, third.low + 0x1.5555555555555p-56}));
  const Twofold sum = QuickSum(s.high, cubic.high);
  const Twofold scaled =
      Product({sum.high, sum.low + (s.low + cubic.low)}, {0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55});  // 2 / ln 2
  const Twofold log = QuickSum(exponent, scaled.high);
  return QuickSum(log.high, log.low + scaled.low);
}

// x to the power of y, within 0.7 ulp where |y log2 x| is below 64, growing to 1.2 at the ends of the range.
QUERN_MATH double PowerOfDouble(double x, double y) {
  const double t = Abs(x);
  const Twofold log = LogToBase2(t);
  // Beyond these a power is 0, 1 or infinity; a NaN stays.
  const double exponent = y < -0x1p70 ? -0x1p70 : y > 0x1p70 ? 0x1p70 : y;
  const Twofold product = ExactProduct(exponent, log.high);
  const double low = product.low + exponent * log.low, far = y > 0.0 ? 0x1p70 : y < 0.0 ? -0x1p70 : y;
  const double ends = t == 0.0 ? -far : t < kInfinity ? product.high : t == t ? far : t;
  const double high = ends < -1100.0 ? -1100.0 : ends > 1030.0 ? 1030.0 : ends;
  const double n = (high + kRoundToLong) - kRoundToLong;
  const Twofold f = QuickSum(high - n, high == product.high ? low : 0.0);
  // 2^f = e^(r + rest) = (1 + r) + (e^r - 1 - r + rest e^r), the first sum in two parts.
  const Twofold r = ExactProduct(f.high, kLn2);
  const double rest = r.low + MulAdd(f.high, 0x1.abc9e3b39803fp-56, f.low * kLn2);
  const Twofold one = QuickSum(1.0, r.high);
  const double square = r.high * r.high;
  const double curve =
      Polynomial(r.high, 0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326084, 0.0013888888888883711,
                 0.0001984126987500228, 2.480158732567746e-05, 2.755725517000089e-06, 2.755727347871858e-07,
                 2.5105312729622103e-08, 2.09147553258932e-09);
  const double power = one.high + (one.low + MulAdd(curve, square, MulAdd(rest, r.high, rest)));
  // 2^n as two factors: n may lie outside the exponents of double.
  const double half = MulAdd(n, 0.5, kRoundToLong) - kRoundToLong;
  return SignedPower(x, y, power * PowerOfTwo(half) * PowerOfTwo(n - half));
}

}  // namespace quern::ukernel
