// Elementary functions of float32 without branches, calls or tables, so that loops over them vectorize on every ISA.
// Within about 2 ulp over the whole range, denormals, infinities and NaN included, unless said otherwise. Kernel-safe.
#pragma once

#include <cstdint>

// The loop's iterations are independent: an output is either no operand or the operand at the same index.
#if defined(__clang__)
#define QUERN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define QUERN_INDEPENDENT_BY_FOURS _Pragma("clang loop vectorize(assume_safety) interleave_count(4)")
#else
#define QUERN_INDEPENDENT _Pragma("GCC ivdep")
#define QUERN_INDEPENDENT_BY_FOURS QUERN_INDEPENDENT
#endif

// Inlined whatever its size: a loop with a call is no vector code.
#define QUERN_MATH __attribute__((always_inline)) static inline

namespace quern::ukernel {

// a * b + c, rounded once where the ISA of the file can.
static inline float MulAdd(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

static inline uint32_t BitsOf(float x) { return __builtin_bit_cast(uint32_t, x); }
static inline float FloatOf(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// x = n ln2 + r with |r| <= ln2 / 2; `shifted` holds n in its low bits, above those of kRoundToInt.
struct ExpReduction {
  float n, r;
  uint32_t power;  // n as two's complement
};
// 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
[[maybe_unused]] static constexpr float kRoundToInt = 12582912.0f;

static inline ExpReduction ReduceExp(float x) {
  const float shifted = MulAdd(x, 1.44269504088896341f, kRoundToInt);
  const float n = shifted - kRoundToInt;
  // ln2 in two parts, so that n times the first is exact.
  float r = MulAdd(n, -0.693359375f, x);
  r = MulAdd(n, 2.12194440e-4f, r);
  return {n, r, BitsOf(shifted) - BitsOf(kRoundToInt)};
}

// e^r - 1 for |r| <= ln2 / 2: r + r^2 times a minimax polynomial of (e^r - 1 - r) / r^2.
static inline float Expm1Reduced(float r) {
  float p = 1.991819881e-4f;
  p = MulAdd(p, r, 1.394580584e-3f);
  p = MulAdd(p, r, 8.333264850e-3f);
  p = MulAdd(p, r, 4.166627303e-2f);
  p = MulAdd(p, r, 1.666666716e-1f);
  p = MulAdd(p, r, 0.5f);
  return MulAdd(p, r * r, r);
}

// x within [low, high]; a NaN stays. In this form each bound is one instruction.
static inline float Within(float low, float high, float x) {
  const float above = low > x ? low : x;
  return high < above ? high : above;
}

// e^x.
static inline float Exp(float x) {
  const float bounded = Within(-104.0f, 89.0f, x);  // beyond the result is 0 or infinity
  // 2^n as two factors, as n may lie outside the exponents of float: theirs, each with its bias of 127, are the halves
  // of the number in the low bits.
  constexpr float kShift = kRoundToInt + 254.0f;
  const float shifted = MulAdd(bounded, 1.44269504088896341f, kShift);
  const float n = shifted - kShift;
  float r = MulAdd(n, -0.693359375f, bounded);
  r = MulAdd(n, 2.12194440e-4f, r);
  // 1 + r + r^2 times a minimax polynomial of (e^r - 1 - r) / r^2 for |r| <= ln2 / 2: within 4.6e-9.
  float p = 1.3946497002e-3f;
  p = MulAdd(p, r, 8.3666106006e-3f);
  p = MulAdd(p, r, 4.1666281399e-2f);
  p = MulAdd(p, r, 1.6666542794e-1f);
  p = MulAdd(p, r, 0.5f);
  p = MulAdd(p, r, 1.0f);
  p = MulAdd(p, r, 1.0f);
  const uint32_t half = (BitsOf(shifted) << 22) & 0xff800000u;
  const uint32_t rest = (BitsOf(shifted) << 23) - half;
  return p * FloatOf(half) * FloatOf(rest);
}

// 1 + e^-x in fewer steps than with Exp: 1 where e^-x is below 2^-127, infinity above 2^128.
static inline float OnePlusExpOfNegated(float x) {
  const float bounded = Within(-89.0f, 88.0f, x);
  // The exponent of 2^n, n + 127, stands in the low bits.
  constexpr float kShift = kRoundToInt + 127.0f;
  const float shifted = MulAdd(bounded, -1.44269504088896341f, kShift);
  const float n = shifted - kShift;
  float r = MulAdd(n, -0.693359375f, -bounded);
  r = MulAdd(n, 2.12194440e-4f, r);
  // Minimax polynomial of e^r for |r| <= ln2 / 2, within 2.6e-9.
  float p = 1.40614216567e-3f;
  p = MulAdd(p, r, 8.37905900123e-3f);
  p = MulAdd(p, r, 4.1664773328e-2f);
  p = MulAdd(p, r, 1.66663648093e-1f);
  p = MulAdd(p, r, 0.500000043574f);
  p = MulAdd(p, r, 1.0000000498f);
  p = MulAdd(p, r, 1.0f);
  return MulAdd(p, FloatOf(BitsOf(shifted) << 23), 1.0f);
}

// e^x for x of at most 1 in fewer steps yet, as ln2 is one number: within 2 + 0.04 |x| ulp, without FMA 2.2 + 0.8 |x|.
// 1 at 0, 0 below -87.7.
static inline float ExpOfNegative(float x) {
  const float bounded = -88.0f > x ? -88.0f : x;
  constexpr float kShift = kRoundToInt + 127.0f;
  const float shifted = MulAdd(bounded, 1.44269504088896341f, kShift);
  const float r = MulAdd(shifted - kShift, -0.693147180559945f, bounded);
  // Minimax polynomial of e^r for |r| <= ln2 / 2 that is 1 at 0, within 9.2e-8.
  float p = 8.29027214636e-3f;
  p = MulAdd(p, r, 4.18981602524e-2f);
  p = MulAdd(p, r, 0.166676381309f);
  p = MulAdd(p, r, 0.499991478364f);
  p = MulAdd(p, r, 0.999999706311f);
  p = MulAdd(p, r, 1.0f);
  return p * FloatOf(BitsOf(shifted) << 23);
}

// e^x - 1 for x <= 0, accurate near 0.
static inline float Expm1OfNegative(float x) {
  const float bounded = x < -30.0f ? -30.0f : x;
  const ExpReduction e = ReduceExp(bounded);
  const float power = FloatOf((e.power + 127u) << 23);
  return MulAdd(power, Expm1Reduced(e.r), power - 1.0f);
}

// ln x.
static inline float Log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;  // 2^23
  // x = m 2^e with m in [sqrt 1/2, sqrt 2).
  const uint32_t offset = BitsOf(scaled) - 0x3f3504f3u;
  const float exponent = static_cast<float>(static_cast<int32_t>(offset) >> 23) - (tiny ? 23.0f : 0.0f);
  const float f = FloatOf((offset & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  // ln(1 + f) = f - f^2 / 2 + f^3 times a minimax polynomial.
  float p = 6.915631145e-2f;
  p = MulAdd(p, f, -1.178880855e-1f);
  p = MulAdd(p, f, 1.187229007e-1f);
  p = MulAdd(p, f, -1.238449141e-1f);
  p = MulAdd(p, f, 1.421878338e-1f);
  p = MulAdd(p, f, -1.666924506e-1f);
  p = MulAdd(p, f, 2.000221908e-1f);
  p = MulAdd(p, f, -2.499998659e-1f);
  p = MulAdd(p, f, 3.333331048e-1f);
  const float square = f * f;
  float y = p * f * square;
  y = MulAdd(exponent, -2.12194440e-4f, y);
  y = MulAdd(square, -0.5f, y);
  y = MulAdd(exponent, 0.693359375f, y + f);
  y = x == __builtin_inff() || x != x ? x : y;
  y = x == 0.0f ? -__builtin_inff() : y;
  return x < 0.0f ? __builtin_nanf("") : y;
}

// ln(1 + x) for x in [0, 1], accurate near 0.
static inline float Log1pOfUnit(float x) {
  const float u = 1.0f + x;
  return Log(u) + (x - (u - 1.0f)) / u;  // what 1 + x lost, to first order
}

static inline float Abs(float x) { return __builtin_fabsf(x); }

// 1 / (1 + e^-x); 0 where that is less than 4e-39.
static inline float Sigmoid(float x) { return 1.0f / OnePlusExpOfNegated(x); }

// x / (1 + e^-y): x times the sigmoid of y.
static inline float Gated(float x, float y) { return x / OnePlusExpOfNegated(y); }

// E / (1 + E) with E = (e^(-2 |x|) - 1) / 2.
static inline float Tanh(float x) {
  const float t = Abs(x), bounded = 9.1f < t ? 9.1f : t;  // beyond the result is 1
  constexpr float kShift = kRoundToInt + 127.0f;
  const float shifted = MulAdd(bounded, -2.88539008177792681f, kShift);
  // Half of what is left of the exponent.
  const float h = MulAdd(shifted - kShift, -0.346573590279972655f, -bounded);
  // (e^(2h) - 1) / 2 by the polynomial of Exp.
  float p = 4.462879041e-2f;
  p = MulAdd(p, h, 0.133865769610f);
  p = MulAdd(p, h, 0.333330251192f);
  p = MulAdd(p, h, 0.666661711760f);
  p = MulAdd(p, h, 1.0f);
  p = MulAdd(p, h * h, h);
  const float power = FloatOf(BitsOf(shifted) << 23);
  const float e = MulAdd(power, p, MulAdd(power, 0.5f, -0.5f));
  return __builtin_copysignf(e / (1.0f + e), x);
}

// erf(x) for |x| <= 1.
static inline float ErfOfSmall(float x) {
  const float s = x * x;
  float p = 7.853860734e-5f;
  p = MulAdd(p, s, -8.010193706e-4f);
  p = MulAdd(p, s, 5.188327748e-3f);
  p = MulAdd(p, s, -2.685381286e-2f);
  p = MulAdd(p, s, 1.128358543e-1f);
  p = MulAdd(p, s, -3.761262596e-1f);
  p = MulAdd(p, s, 0.128379107f);
  return MulAdd(p, x, x);
}

// 1 - erf(t) for t >= 1: e to a minimax polynomial, absolutely within 2e-9; 3e-8 beyond 3.95.
static inline float ErfcOfLarge(float t) {
  const float u = 3.95f < t ? 3.95f : t;
  float p = 1.8557398752e-4f;
  p = MulAdd(p, u, -2.9396070894e-3f);
  p = MulAdd(p, u, 2.1805317490e-2f);
  p = MulAdd(p, u, -1.0303736704e-1f);
  p = MulAdd(p, u, -6.3822567918e-1f);
  p = MulAdd(p, u, -1.1270400349f);
  p = MulAdd(p, u, -3.5371975981e-4f);
  return ExpOfNegative(p);
}

static inline float Erf(float x) {
  const float t = Abs(x);
  const float large = __builtin_copysignf(1.0f - ErfcOfLarge(t), x);
  return t < 1.0f ? ErfOfSmall(x) : large;
}

// x (1 + erf(x / sqrt 2)) / 2: max(x, 0) - a T(a) with a = |x| and T(a) = (1 - erf(a / sqrt 2)) / 2, without
// cancellation where x is negative. T(a) = w P(w) e^(-a^2 / 2) with w = 1 / (4.3 + a) and a minimax polynomial P,
// within 8.5e-8; the power is rounded, so the relative error grows with a^2.
static inline float Gelu(float x) {
  const float size = Abs(x), a = 13.2665f < size ? 13.2665f : size;  // from where on the power is 0
  const float w = 1.0f / (4.3f + a);
  // Both polynomials by pairs, whose chains are shorter: CPUs do not look far enough ahead for others.
  const float w2 = w * w, w4 = w2 * w2;
  const float p6 = MulAdd(-8120.40656f, w, 6534.88660f), p4 = MulAdd(-1210.10827f, w, 319.858363f);
  const float p2 = MulAdd(5.79566281f, w, 8.12578189f), p0 = MulAdd(1.68031941f, w, 0.399398832f);
  const float p = MulAdd(MulAdd(p6, w2, p4), w4, MulAdd(p2, w2, p0));
  // 2^(n + f) = e^(-a^2 / 2): n + 127 stands in the low bits; 2^f by a minimax polynomial that is 1 at 0, within
  // 9.2e-8.
  constexpr float kShift = kRoundToInt + 127.0f;
  const float power = a * -0.72134752044448170368f * a;
  const float shifted = power + kShift;
  const float f = power - (shifted - kShift), f2 = f * f;
  const float q4 = MulAdd(0.00132647f, f, 0.00967151f), q2 = MulAdd(0.05550734f, f, 0.24022242f);
  const float q = MulAdd(MulAdd(q4, f2, q2), f2, MulAdd(0.69314698f, f, 1.0f));
  const float positive = MulAdd(0.5f, x, 0.5f * size);  // max(x, 0), and as in the formula no number of -infinity
  const float tail = w * FloatOf(BitsOf(shifted) << 23) * (p * q);
  return MulAdd(-a, tail, positive);
}

// x (1 + tanh y) / 2 with y = sqrt(2 / pi) (x + 0.044715 x^3): x times the sigmoid of 2 y.
static inline float GeluTanh(float x) { return Gated(x, 1.59576912160573071176f * MulAdd(0.044715f * x * x, x, x)); }

// ln(1 + e^x).
static inline float Softplus(float x) { return (x < 0.0f ? 0.0f : x) + Log1pOfUnit(Exp(-Abs(x))); }

// x tanh(softplus(x)) = x (w - 1) / (w + 1) with w = (1 + e^x)^2.
static inline float Mish(float x) {
  const float e = Exp(x > 20.0f ? 20.0f : x);  // beyond, the factor is 1
  const float w = e * (e + 2.0f);
  return x * (w / (w + 2.0f));
}

}  // namespace quern::ukernel
