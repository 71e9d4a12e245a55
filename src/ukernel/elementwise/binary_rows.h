// The binary rows of the family and choices: functions of two elements, and which types have them. Kernel-safe.
#pragma once

#include "ukernel/elementwise/conversions.h"
#include "ukernel/elementwise/power_f64.h"
#include "ukernel/elementwise/row_loops.h"

namespace quern::ukernel {
namespace {

// What wraps around without undefined behaviour: small integers would become int.
template <class T>
using Wrapping =
    std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;
struct Plus {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Minus {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
struct Times {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    return ((a < b) | (a != a)) ? a : b;
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    return ((a > b) | (a != a)) ? a : b;
  }
};
struct Sloped {
  template <class T>
  T operator()(T x, T slope) const {
    const T product = Times{}(slope, x);
    return x < T{0} ? product : x;
  }
};
QUERN_MATH double Quotient(double a, double b) { return a / b; }

// Of integers up to 32 bits through floats of more bits than a product of two has: the quotient, rounded, never reaches
// the next whole number. The smallest number over -1 stays. There is no vector instruction for 64 bits.
template <class T>
T CutQuotient(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Minus{}(T{0}, a);
    return static_cast<T>(a / b);
  } else if constexpr (sizeof(T) == 4) {
    const double q = static_cast<double>(a) / static_cast<double>(b);
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(q > 2147483647.0 ? -2147483648.0 : q);
    } else {
      return static_cast<T>(BitsOf(Floor(q) + 0x1p52));
    }
  } else {
    return static_cast<T>(static_cast<int32_t>(static_cast<float>(a) / static_cast<float>(b)));
  }
}

// What a division gives: remainders have the sign of the divisor, truncated ones that of the dividend.
enum class Division { kQuotient, kRemainder, kTruncatedRemainder };
// The same of the quotient, cut off.
template <Division kWhat, class T>
T OfQuotient(T a, T b, T quotient) {
  if constexpr (kWhat == Division::kQuotient) {
    return quotient;
  } else {
    const T r = Minus{}(a, Times{}(quotient, b));
    const bool crosses = (r != T{0}) & ((r < T{0}) != (b < T{0}));
    return kWhat == Division::kRemainder && crosses ? Plus{}(r, b) : r;
  }
}
template <Division kWhat>
struct IntegerDivision {
  template <class T>
  T operator()(T a, T b, T& by_zero) const {
    by_zero = b == T{0} ? T{1} : T{0};
    const T divisor = b == T{0} ? T{1} : b;
    const T y = OfQuotient<kWhat>(a, divisor, CutQuotient(a, divisor));
    return b == T{0} ? T{0} : y;
  }
};

// Of integers of 64 bits within 2^50, through float64, which holds all numbers on the way. quotient(a, b) cuts off. The
// bits of kRoundToLong + n are those of kRoundToLong and n.
template <Division kWhat, class T, class Quotient>
void DivideNear(int64_t n, const T* __restrict u, const T* __restrict v, T* __restrict to, Quotient quotient) {
  const uint64_t bits = BitsOf(kRoundToLong);
  const auto number = [=](T x) { return DoubleOf(static_cast<uint64_t>(x) + bits) - kRoundToLong; };
  QUERN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double a = number(u[i]), b = number(v[i]);
    to[i] = static_cast<T>(BitsOf(OfQuotient<kWhat>(a, b, quotient(a, b)) + kRoundToLong) - bits);
  }
}

// By blocks of integers of 64 bits: there is no vector instruction to divide them, but for numbers within 2^50.
template <class T, Division kWhat>
bool LongDivisionLoop(int64_t n, const void* a, const void* b, void* y) {
  constexpr int64_t kBlock = 256;
  constexpr uint64_t kLeast = std::is_signed_v<T> ? uint64_t{1} << 50 : 0;  // what makes the smallest one 0
  constexpr uint64_t kEnd = kLeast + (uint64_t{1} << 50);
  bool fine = true;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    const T* u = static_cast<const T*>(a) + begin;
    const T* v = static_cast<const T*>(b) + begin;
    T* to = static_cast<T*>(y) + begin;
    uint64_t all = 0, different = 0, zero = 0;
    for (int64_t i = 0; i < count; ++i) {
      all |= (static_cast<uint64_t>(u[i]) + kLeast) | (static_cast<uint64_t>(v[i]) + kLeast);
      different |= static_cast<uint64_t>(v[i]) ^ static_cast<uint64_t>(v[0]);
      zero |= v[i] == T{0} ? uint64_t{1} : uint64_t{0};
    }
    if (all >= kEnd || zero != 0) {
      fine &= BinaryLoop<T, T, T, IntegerDivision<kWhat>{}>(count, u, v, to);
    } else if (different != 0) {
      // The quotient, rounded, never reaches the next whole number.
      DivideNear<kWhat>(count, u, v, to, [](double x, double z) { return Trunc(x / z); });
    } else {
      // (|x| + 1/2) / |z| is further from a whole number than the product with the inverse from it.
      const double inverse = 1.0 / static_cast<double>(v[0]);
      DivideNear<kWhat>(count, u, v, to,
                        [=](double x, double) { return Trunc((x + __builtin_copysign(0.5, x)) * inverse); });
    }
  }
  return fine;
}
template <Division kWhat>
BinaryRow DivisionRow(DType dtype) {
  if (dtype == DType::kI64) return LongDivisionLoop<int64_t, kWhat>;
  if (dtype == DType::kU64) return LongDivisionLoop<uint64_t, kWhat>;
  return BinaryRowOf<IntegerDivision<kWhat>{}>(TypeList<int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t>{},
                                               dtype);
}

// What remainders of T are computed in. With FMA a product need not be exact to be subtracted.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
template <class T>
using RemainderType = T;
#else
template <class T>
using RemainderType = double;
#endif

// The remainder of |a| by |b| where the quotient is below FarQuotient; any number for other finite ones.
QUERN_MATH double NearRemainder(double a, double b) {
  // The quotient, rounded, may be one too large. Products of its 26 bits with each half of b are exact.
  const double q = Trunc(a / b);
  const double high = DoubleOf(BitsOf(b) & 0xfffffffff8000000), low = b - high;
  const double r = (a - q * high) - q * low;
  return r < 0.0 ? r + b : r;
}
// With FMA: what is left is a multiple of the last bit of b, and not larger than b.
QUERN_MATH float NearRemainder(float a, float b) {
  const float r = MulAdd(-__builtin_truncf(a / b), b, a);
  return r < 0.0f ? r + b : r;
}
template <class T>
constexpr T FarQuotient() {
  return sizeof(T) == sizeof(float) ? T{0x1p23f} : T{0x1p26f};
}
// The same for any quotient above 1 of finite numbers, digit by digit.
QUERN_MATH double FarRemainder(double a, double b) {
  const uint64_t kMantissa = 0x000fffffffffffff;
  const auto exponent = [](uint64_t bits) { return bits >> 52 ? static_cast<int64_t>(bits >> 52) : int64_t{1}; };
  const auto mantissa = [&](uint64_t bits) { return (bits & kMantissa) | (bits >> 52 ? kMantissa + 1 : 0); };
  const uint64_t divisor = mantissa(BitsOf(b));
  const int64_t end = exponent(BitsOf(b));
  uint64_t m = mantissa(BitsOf(a)) % divisor;
  for (int64_t left = exponent(BitsOf(a)) - end; left > 0;) {
    const int64_t digits = left < 11 ? left : 11;
    m = (m << digits) % divisor;
    left -= digits;
  }
  // m 2^(end - 1075), by two factors that are normal numbers.
  const int64_t half = (end - 1075) / 2;
  return static_cast<double>(m) * PowerOfTwo(static_cast<double>(half)) *
         PowerOfTwo(static_cast<double>(end - 1075 - half));
}
template <class T>
bool IsFarRemainder(T a, T b) {
  return (a >= b * FarQuotient<T>()) & (a < static_cast<T>(kInfinity)) & (b > T{0});
}
QUERN_MATH float CopySign(float x, float sign) { return __builtin_copysignf(x, sign); }
QUERN_MATH double CopySign(double x, double sign) { return __builtin_copysign(x, sign); }
// The remainder r of |a|, with the sign of a or of b.
template <bool kTruncated, class T>
T SignedRemainder(T r, T a, T b) {
  const T s = CopySign(r, a);
  const bool crosses = (r != T{0}) & ((a < T{0}) != (b < T{0}));
  return kTruncated ? s : r == T{0} ? CopySign(T{0}, b) : crosses ? s + b : s;
}
template <class T, bool kTruncated>
bool RemainderLoop(int64_t n, const void* a, const void* b, void* y) {
  using Real = RemainderType<T>;
  constexpr Real kEnd = static_cast<Real>(kInfinity);
  const T* __restrict u = static_cast<const T*>(a);
  const T* __restrict v = static_cast<const T*>(b);
  T* __restrict to = static_cast<T*>(y);
  std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t> far = 0;
  QUERN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const Real x = static_cast<Real>(u[i]), z = static_cast<Real>(v[i]), s = Abs(x), t = Abs(z);
    const Real r = ((t == kEnd) & (s < kEnd)) ? s : NearRemainder(s, t);
    to[i] = static_cast<T>(SignedRemainder<kTruncated>(r, x, z));
    far |= IsFarRemainder(s, t) ? 1u : 0u;
  }
  if (far == 0) return true;
  for (int64_t i = 0; i < n; ++i) {
    const Real s = Abs(static_cast<Real>(u[i])), t = Abs(static_cast<Real>(v[i]));
    const double x = static_cast<double>(u[i]), z = static_cast<double>(v[i]);
    if (IsFarRemainder(s, t)) to[i] = static_cast<T>(SignedRemainder<kTruncated>(FarRemainder(Abs(x), Abs(z)), x, z));
  }
  return true;
}

struct EqualTo {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct LessThan {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct AtMost {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};

struct BitAnd {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
template <class T>
bool IsInRange(T amount) {
  return static_cast<std::make_unsigned_t<T>>(amount) < 8 * sizeof(T);  // a negative one becomes a large one
}
struct ShiftLeft {
  template <class T>
  T operator()(T x, T amount) const {
    const T by = IsInRange(amount) ? amount : T{0};
    const T shifted = static_cast<T>(static_cast<Wrapping<T>>(x) << by);
    return IsInRange(amount) ? shifted : T{0};
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T x, T amount) const {
    constexpr T kAll = static_cast<T>(8 * sizeof(T) - 1);
    const T by = IsInRange(amount) ? amount : kAll;
    const T shifted = static_cast<T>(x >> by);
    return IsInRange(amount) || std::is_signed_v<T> ? shifted : T{0};
  }
};

struct PowerOf {
  template <class Y>
  float operator()(float x, Y y) const {
    return static_cast<float>(PowerOfFloat(static_cast<double>(x), ToDouble(y)));
  }
  template <class Y>
  double operator()(double x, Y y) const {
    return PowerOfDouble(x, ToDouble(y));
  }
};

// Integer powers, exact modulo 2^n; negative ones are cut off towards zero, and of zero a fault. Squares of a block at
// a time, as often as its largest exponent has bits.
template <class T>
bool IntegerPowerLoop(int64_t n, const void* a, const void* b, void* y) {
  constexpr int64_t kBlock = 64;
  const T* __restrict u = static_cast<const T*>(a);
  const int64_t* __restrict v = static_cast<const int64_t*>(b);
  T* __restrict to = static_cast<T*>(y);
  int64_t fault = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    T factor[kBlock], result[kBlock];
    uint64_t left[kBlock], any = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t e = v[begin + i];
      factor[i] = u[begin + i];
      result[i] = T{1};
      left[i] = e < 0 ? 0 : static_cast<uint64_t>(e);
      any |= left[i];
    }
    for (; any; any >>= 1) {
      for (int64_t i = 0; i < count; ++i) {
        const T product = Times{}(result[i], factor[i]);
        result[i] = left[i] & 1 ? product : result[i];
        factor[i] = Times{}(factor[i], factor[i]);
        left[i] >>= 1;
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const T x = u[begin + i];
      const int64_t e = v[begin + i];
      const T sign = e & 1 ? x : T{1};
      const T inverse = ((x == T{1}) | (x == T{-1})) ? sign : T{0};
      fault |= ((e < 0) & (x == T{0})) ? 1 : 0;
      to[begin + i] = e < 0 ? inverse : result[i];
    }
  }
  return fault == 0;
}

BinaryRow FindPower(DType base, DType exponent) {
  if (exponent == DType::kI64) {
    return base == DType::kF32   ? BinaryLoop<float, int64_t, float, PowerOf{}>
           : base == DType::kI32 ? IntegerPowerLoop<int32_t>
           : base == DType::kI64 ? IntegerPowerLoop<int64_t>
           : base == DType::kF64 ? BinaryLoop<double, int64_t, double, PowerOf{}>
                                 : nullptr;
  }
  if (base == DType::kF64 && exponent == DType::kF64) return BinaryLoop<double, double, double, PowerOf{}>;
  if (base != DType::kF32) return nullptr;
  return exponent == DType::kF32   ? BinaryLoop<float, float, float, PowerOf{}>
         : exponent == DType::kF64 ? BinaryLoop<float, double, float, PowerOf{}>
                                   : nullptr;
}

template <auto kF>
BinaryRow OfDoubles(DType dtype) {
  return dtype == DType::kF64 ? BinaryLoop<double, double, double, kF> : nullptr;
}
template <auto kF>
BinaryRow OrIntegers(BinaryRow row, auto types, DType dtype) {
  return row ? row : BinaryRowOf<kF>(types, dtype);
}
template <bool kTruncated>
BinaryRow FloatRemainderRow(DType dtype) {
  return dtype == DType::kF32   ? RemainderLoop<float, kTruncated>
         : dtype == DType::kF64 ? RemainderLoop<double, kTruncated>
                                : nullptr;
}
template <auto kF>
BinaryRow ComparisonRow(DType dtype) {
  const BinaryRow row = BinaryRowOf<kF, bool>(Floats{}, dtype);
  return row ? row : BinaryRowOf<kF, bool>(Integers{}, dtype);
}

BinaryRow FindBinary(BinaryKind kind, DType t, DType second) {
  if (kind == BinaryKind::kPow) return FindPower(t, second);
  if (t != second) return nullptr;
  switch (kind) {
    case BinaryKind::kAdd:
      return OrIntegers<Plus{}>(OfDoubles<Plus{}>(t), UnsignedIntegers{}, AsUnsigned(t));
    case BinaryKind::kSub:
      return OrIntegers<Minus{}>(OfDoubles<Minus{}>(t), UnsignedIntegers{}, AsUnsigned(t));
    case BinaryKind::kMul:
      return OrIntegers<Times{}>(OfDoubles<Times{}>(t), UnsignedIntegers{}, AsUnsigned(t));
    case BinaryKind::kDiv:
      return t == DType::kF64 ? BinaryLoop<double, double, double, Quotient> : DivisionRow<Division::kQuotient>(t);
    case BinaryKind::kMin:
      return OrIntegers<Least{}>(OfDoubles<Least{}>(t), Integers{}, t);
    case BinaryKind::kMax:
      return OrIntegers<Most{}>(OfDoubles<Most{}>(t), Integers{}, t);
    case BinaryKind::kPrelu:
      return OrIntegers<Sloped{}>(OfDoubles<Sloped{}>(t), TypeList<int32_t, int64_t, uint32_t, uint64_t>{}, t);
    case BinaryKind::kMod:
      return IsFloatType(t) ? FloatRemainderRow<false>(t) : DivisionRow<Division::kRemainder>(t);
    case BinaryKind::kTruncMod:
      return IsFloatType(t) ? FloatRemainderRow<true>(t) : DivisionRow<Division::kTruncatedRemainder>(t);
    case BinaryKind::kEqual: {
      const BinaryRow row = BinaryRowOf<EqualTo{}, bool>(Floats{}, t);
      return row ? row : BinaryRowOf<EqualTo{}, bool>(UnsignedIntegers{}, AsUnsigned(t));
    }
    case BinaryKind::kLess:
      return ComparisonRow<LessThan{}>(t);
    case BinaryKind::kAtMost:
      return ComparisonRow<AtMost{}>(t);
    case BinaryKind::kBitAnd:
      return BinaryRowOf<BitAnd{}>(UnsignedIntegers{}, AsUnsigned(t));
    case BinaryKind::kBitOr:
      return BinaryRowOf<BitOr{}>(UnsignedIntegers{}, AsUnsigned(t));
    case BinaryKind::kBitXor:
      return BinaryRowOf<BitXor{}>(UnsignedIntegers{}, AsUnsigned(t));
    case BinaryKind::kShiftLeft:
      return BinaryRowOf<ShiftLeft{}>(UnsignedIntegers{}, AsUnsigned(t));
    case BinaryKind::kShiftRight:
      return BinaryRowOf<ShiftRight{}>(Integers{}, t);
    default:
      return nullptr;
  }
}

// By the width of an element only.
template <class T>
void ChoiceLoop(int64_t n, const void* choice, const void* a, const void* b, void* y) {
  const uint8_t* __restrict p = static_cast<const uint8_t*>(choice);
  const T* __restrict u = static_cast<const T*>(a);
  const T* __restrict v = static_cast<const T*>(b);
  T* __restrict to = static_cast<T*>(y);
  QUERN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T mask = Minus{}(T{0}, T{p[i]});
    to[i] = static_cast<T>((u[i] & mask) | (v[i] & ~mask));
  }
}
ChoiceRow FindChoice(size_t bytes) {
  return bytes == 1   ? ChoiceLoop<uint8_t>
         : bytes == 2 ? ChoiceLoop<uint16_t>
         : bytes == 4 ? ChoiceLoop<uint32_t>
         : bytes == 8 ? ChoiceLoop<uint64_t>
                      : nullptr;
}

}  // namespace
}  // namespace quern::ukernel
