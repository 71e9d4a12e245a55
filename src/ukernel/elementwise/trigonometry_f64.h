// Trigonometric functions of float64 and their inverses, as math_f64.h. Sine, cosine and tangent have a form for |x| up
// to kNearAngle and one of scalar code for what lies beyond. Within 1 ulp; tangent and the inverses within 2; without
// FMA 1 ulp more. Kernel-safe.
#pragma once

#include "ukernel/elementwise/math_f64.h"

namespace quern::ukernel {

[[maybe_unused]] static constexpr double kPiHalf = 0x1.921fb54442d18p+0, kPiHalfRest = 0x1.1a62633145c07p-54;

// x = (high + low) + quadrant * pi / 2 with |high| <= pi / 4 (a bit more in near angles) and low beyond its last bit.
struct Angle {
  double high, low;
  uint64_t quadrant;  // counts modulo 4
};

[[maybe_unused]] static constexpr double kNearAngle = 1e6;

// x is a T.
template <class T>
QUERN_MATH Angle ReduceNear(double x) {
  // pi / 2 in three parts: 20 bits times the first or the second are exact.
  constexpr double kFirst = 0x1.921fb544p+0, kSecond = 0x1.0b4611a6p-34, kThird = 0x1.3198a2e037073p-69;
  const double shifted = MulAdd(x, 0.6366197723675814, kRoundToLong);
  const double n = shifted - kRoundToLong, first = MulAdd(n, -kFirst, x);
  if constexpr (sizeof(T) == sizeof(float)) {  // no float32 is so close to a multiple of pi / 2 that more would count
    return {MulAdd(n, -(kSecond + kThird), first), 0.0, BitsOf(shifted)};
  } else {
    const double second = n * kSecond, r = first - second, part = r - first;
    const double rest = (first - (r - part)) - (second + part);  // what the difference lost
    const double low = MulAdd(n, -kThird, rest), high = r + low;
    return {high, (r - high) + low, BitsOf(shifted)};
  }
}

// x as 53 bits times a power of two, times those bits of 2 / pi that decide the quadrant and 128 more.
// |x| in (kNearAngle, infinity).
static inline Angle ReduceFar(double x) {
  // A zero word, then 2 / pi.
  static constexpr uint64_t kTwoOverPi[] = {
      0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
      0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
      0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
      0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
      0xf0cfbc209af4361d};
  constexpr uint64_t kPiHalfBits = 0xc90fdaa22168c234;  // times 2^-63
  __extension__ typedef unsigned __int128 Wide;
  const uint64_t bits = BitsOf(x), m = (bits & 0x000fffffffffffff) | 0x0010000000000000;
  // x = m 2^e; the first bit of 2 / pi that counts is the one that makes m 2^1.
  const uint64_t begin = ((bits >> 52) & 0x7ff) - 1075 + 62, word = begin / 64, shift = begin % 64;
  uint64_t window[3];
  for (uint64_t i = 0; i < 3; ++i) {
    const Wide two = static_cast<Wide>(kTwoOverPi[word + i]) << 64 | kTwoOverPi[word + i + 1];
    window[i] = static_cast<uint64_t>(two >> (64 - shift));
  }
  // Two bits of the quadrant, then the fraction.
  const Wide last = static_cast<Wide>(window[2]) * m, middle = static_cast<Wide>(window[1]) * m + (last >> 64);
  const uint64_t top = window[0] * m + static_cast<uint64_t>(middle >> 64);
  const uint64_t next = static_cast<uint64_t>(middle), end = static_cast<uint64_t>(last);
  Wide fraction = static_cast<Wide>(top << 2 | next >> 62) << 64 | (next << 2 | end >> 62);
  uint64_t quadrant = top >> 62;
  bool negative = bits >> 63 != 0;
  if (negative) quadrant = 0 - quadrant;
  if (fraction >> 127) {  // to the nearest multiple
    fraction = 0 - fraction;
    quadrant += negative ? ~uint64_t{0} : 1;
    negative = !negative;
  }
  const uint64_t upper = static_cast<uint64_t>(fraction >> 64);
  const int zeros = upper ? __builtin_clzll(upper) : 64 + __builtin_clzll(static_cast<uint64_t>(fraction) | 1);
  const Wide angle = static_cast<Wide>(static_cast<uint64_t>((fraction << zeros) >> 64)) * kPiHalfBits;
  // 53 bits and what is left, times 2^(-127 - zeros).
  const double unit = (negative ? -1.0 : 1.0) * PowerOfTwo(-static_cast<double>(zeros));
  const double high = static_cast<double>(static_cast<int64_t>(angle >> 75)) * 0x1p-52 * unit;
  const double low = static_cast<double>(static_cast<int64_t>((angle >> 12) & 0x7fffffffffffffff)) * 0x1p-115 * unit;
  return {high, low, quadrant};
}

// Of high + low.
QUERN_MATH double SinOfSmall(const Angle& a) {
  const double x = a.high, z = x * x, cube = z * x;
  const double r = Polynomial(z, 0.008333333333330925, -0.00019841269836722418, 2.755731608381636e-06,
                              -2.5051127944014188e-08, 1.5917848524808262e-10);
  return x - ((z * (0.5 * a.low - cube * r) - a.low) - cube * -0.16666666666666666);
}
QUERN_MATH double CosOfSmall(const Angle& a) {
  const double x = a.high, z = x * x, half = 0.5 * z, w = 1.0 - half;
  const double r = Polynomial(z, 0.041666666666666664, -0.0013888888888887382, 2.480158729874307e-05,
                              -2.7557317260008837e-07, 2.0876143827993133e-09, -1.1382456778061306e-11);
  return w + (((1.0 - w) - half) + (z * z * r - x * a.low));
}

struct Sine {
  QUERN_MATH double Of(const Angle& a) {
    const double y = a.quadrant & 1 ? CosOfSmall(a) : SinOfSmall(a);
    return DoubleOf(BitsOf(y) ^ (a.quadrant & 2) << 62);
  }
  static constexpr bool kIsOdd = true;
};
struct Cosine {
  QUERN_MATH double Of(const Angle& a) { return Sine::Of({a.high, a.low, a.quadrant + 1}); }
  static constexpr bool kIsOdd = false;
};
struct Tangent {
  QUERN_MATH double Of(const Angle& a) {
    const double s = SinOfSmall(a), c = CosOfSmall(a);
    const bool odd = a.quadrant & 1;
    return (odd ? -c : s) / (odd ? s : c);
  }
  static constexpr bool kIsOdd = true;
};

// f(x) of a T with |x| <= kNearAngle; NaN of infinities; any number for others.
template <class F, class T>
QUERN_MATH double OfNearAngle(T x) {
  const double y = F::Of(ReduceNear<T>(x));
  return F::kIsOdd && x == T{0} ? static_cast<double>(x) : y;
}
// Not finite numbers count as near.
QUERN_MATH bool IsFarAngle(double x) {
  const double t = Abs(x);
  return (t > kNearAngle) & (t < kInfinity);
}

QUERN_MATH double Atan(double x) {
  const double t = Abs(x);
  // atan t = base + atan of a quotient within tan(pi / 8).
  const bool far = t > 2.414213562373095, middle = t > 0.41421356237309503;
  const double z = (far ? -1.0 : middle ? t - 1.0 : t) / (far ? t : middle ? t + 1.0 : 1.0), w = z * z;
  const double base = far ? kPiHalf : middle ? 0.5 * kPiHalf : 0.0;
  const double rest = far ? kPiHalfRest : middle ? 0.5 * kPiHalfRest : 0.0;
  const double p = Polynomial(w, -0.3333333333333333, 0.199999999999998, -0.14285714285659326, 0.11111111105106705,
                              -0.09090908751076636, 0.0769229630497447, -0.06666423628069258, 0.058789145444006215,
                              -0.052303478730160745, 0.04551108126325172, -0.034558092551413795, 0.01627194475162406);
  return __builtin_copysign(base + (z + MulAdd(z * w, p, rest)), x);
}

// (asin sqrt z) / sqrt z - 1 for z in [0, 1/4].
QUERN_MATH double AsinExcess(double z) {
  return z * Polynomial(z, 0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247,
                        0.02237217294214989, 0.017352392720869973, 0.013971212973552933, 0.011479177415184906,
                        0.01032281435018578, 0.005457506718640358, 0.01740087944269402, -0.014851887071247204,
                        0.028757851367421566);
}

// Beyond 1/2, asin t = pi / 2 - 2 asin sqrt((1 - t) / 2).
QUERN_MATH double Asin(double x) {
  const double t = Abs(x);
  const bool small = t <= 0.5;
  const double z = small ? t * t : 0.5 * (1.0 - t), s = small ? t : __builtin_sqrt(z);
  const double excess = s * AsinExcess(z);
  const double large = kPiHalf - (2.0 * s + (2.0 * excess - kPiHalfRest));
  return __builtin_copysign(small ? s + excess : large, x);
}

QUERN_MATH double Acos(double x) {
  const double t = Abs(x);
  const bool small = t <= 0.5;
  const double z = small ? t * t : 0.5 * (1.0 - t), s = small ? x : __builtin_sqrt(z);
  const double excess = s * AsinExcess(z);
  const double near_one = 2.0 * (s + excess);
  const double near_minus_one = 2.0 * (kPiHalf - (s + (excess - kPiHalfRest)));
  const double near_zero = kPiHalf - (s - (kPiHalfRest - excess));
  return small ? near_zero : x > 0.0 ? near_one : near_minus_one;
}

// Of a float, within 2e-12 of the result: beyond 1/2 the differences leave enough bits.
QUERN_MATH double AsinOfFloat(double x) {
  const double t = Abs(x);
  const bool small = t <= 0.5;
  const double z = small ? t * t : MulAdd(t, -0.5, 0.5), s = small ? t : __builtin_sqrt(z);
  const double p = Polynomial(z, 0.16666666626729643, 0.07500005041702516, 0.04464068781416172, 0.030426841142051686,
                              0.021863014074603841, 0.020659013955876878, 0.0019485112078092791, 0.032941700453264632);
  const double y = MulAdd(s * z, p, s);
  return __builtin_copysign(small ? y : MulAdd(y, -2.0, kPiHalf), x);
}
QUERN_MATH double AcosOfFloat(double x) { return kPiHalf - AsinOfFloat(x); }

}  // namespace quern::ukernel
