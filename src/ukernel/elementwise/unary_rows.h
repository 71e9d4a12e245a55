// The unary rows of the family: functions of elements, and which types have them. float64 is computed as the reference
// evaluation writes it; float32 in float64, rounded once. Kernel-safe.
#pragma once

#include "ukernel/elementwise/conversions.h"
#include "ukernel/elementwise/half_rows.h"
#include "ukernel/elementwise/packed_floats.h"
#include "ukernel/elementwise/row_loops.h"
#include "ukernel/elementwise/small_floats.h"
#include "ukernel/elementwise/trigonometry_f64.h"

namespace quern::ukernel {
namespace {

using P = RowParameters;

QUERN_MATH double Bounded(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

QUERN_MATH double Relu(double x) { return x < 0.0 ? 0.0 : x; }
QUERN_MATH double LeakyRelu(double x, const P& p) { return x < 0.0 ? p.a * x : x; }
QUERN_MATH double ThresholdedRelu(double x, const P& p) { return x > p.a ? x : 0.0; }
QUERN_MATH double HardSigmoid(double x, const P& p) { return Bounded(p.a * x + p.b, 0.0, 1.0); }
QUERN_MATH double HardSwish(double x) { return x * Bounded(x / 6.0 + 0.5, 0.0, 1.0); }
QUERN_MATH double Silu(double x, const P& p) { return x * Sigmoid(p.a * x); }
QUERN_MATH double SquareRoot(double x) { return __builtin_sqrt(x); }
QUERN_MATH double Negative(double x) { return -x; }
QUERN_MATH double Reciprocal(double x) { return 1.0 / x; }
QUERN_MATH double Elu(double x, const P& p) { return x < 0.0 ? p.a * Expm1(x) : x; }
QUERN_MATH double Celu(double x, const P& p) { return x < 0.0 ? p.a * Expm1(x / p.a) : x; }
QUERN_MATH double Selu(double x, const P& p) { return p.b * (x > 0.0 ? x : p.a * Expm1(x)); }
QUERN_MATH double Softsign(double x) { return x / (1.0 + Abs(x)); }
QUERN_MATH double Gelu(double x) { return 0.5 * x * (1.0 + Erf(x * 0.7071067811865476)); }
QUERN_MATH double GeluTanh(double x) {
  return 0.5 * x * (1.0 + Tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));  // sqrt(2 / pi)
}
// x tanh(softplus(x)) = x w / (w + 2) with w = (1 + e^x)^2 - 1.
QUERN_MATH double Mish(double x) {
  const double e = Exp(x > 40.0 ? 40.0 : x);  // beyond, the factor is 1
  const double w = e * (e + 2.0);
  return x * (w / (w + 2.0));
}
QUERN_MATH double Square(double x) { return x * x; }
QUERN_MATH double Cube(double x) { return x * x * x; }
QUERN_MATH double Affine(double x, const P& p) { return p.a * x + p.b; }
QUERN_MATH double Scale(double x, const P& p) { return p.a * x; }
QUERN_MATH double ScaledTanh(double x, const P& p) { return p.a * Tanh(p.b * x); }
QUERN_MATH double ParametricSoftplus(double x, const P& p) { return p.a * Softplus(p.b * x); }
QUERN_MATH double Divide(double x, const P& p) { return x / p.a; }

// The float64 form of a function that has one of float32 too.
template <double (*kF)(double)>
QUERN_MATH double Plain(double x) {
  return kF(x);
}

struct Shrink {
  template <class T>
  T operator()(T x, const P& p) const {
    const double v = ToDouble(x);
    return FromDouble<T>(v < -p.b ? v + p.a : v > p.b ? v - p.a : 0.0);
  }
};
// Where the bounds cross, the upper one wins; a NaN stays.
struct Clip {
  template <class T>
  T operator()(T x, T low, T high) const {
    const T v = x < low ? low : x;
    return v > high ? high : v;
  }
};
struct IsAbove {
  template <class T>
  T operator()(T x, const P& p) const {
    return ToDouble(x) > p.a ? T{1} : T{0};
  }
};
struct IsNan {
  template <class T>
  bool operator()(T x) const {
    return x != x;
  }
};
struct IsInf {
  template <class T>
  bool operator()(T x, const P& p) const {
    constexpr T kEnd = static_cast<T>(kInfinity);
    return ((p.a != 0.0) & (x == kEnd)) | ((p.b != 0.0) & (x == -kEnd));
  }
};
struct SignOf {
  template <class T>
  T operator()(T x) const {
    return x > T{0} ? T{1} : x < T{0} ? static_cast<T>(-1) : x == T{0} ? T{0} : x;
  }
};

// Of integers, which wrap around.
template <class T>
T Negated(T x) {
  return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
}
struct NegatedInteger {
  template <class T>
  T operator()(T x) const {
    return Negated(x);
  }
};
struct ReluOfInteger {
  template <class T>
  T operator()(T x) const {
    return x < T{0} ? T{0} : x;
  }
};
struct Magnitude {
  template <class T>
  T operator()(T x) const {
    return x < T{0} ? Negated(x) : x;
  }
};
// The error function in float64, cut off: below 6 it is less than 1.
struct ErfOfInteger {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_signed_v<T>) {
      return x >= T{6} ? T{1} : x <= T{-6} ? T{-1} : T{0};
    } else {
      return x >= T{6} ? T{1} : T{0};
    }
  }
};
struct BitNot {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};
bool Not(bool x) { return !x; }
int64_t Exponent(uint64_t y) {
  constexpr uint64_t kMost = ~uint64_t{0} >> 1;
  return static_cast<int64_t>(y <= kMost ? y : kMost - (1 - (y & 1)));
}

template <class T>
void ClipLoop(int64_t n, const void* x, void* y, const RowParameters& p) {
  const T* __restrict from = static_cast<const T*>(x);
  T* __restrict to = static_cast<T*>(y);
  const T low = *static_cast<const T*>(p.low), high = *static_cast<const T*>(p.high);
  QUERN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = Clip{}(from[i], low, high);
}
template <class... Ts>
UnaryRow ClipRow(TypeList<Ts...>, DType dtype) {
  UnaryRow row = nullptr;
  ((row = DTypeOf<Ts>() == dtype ? ClipLoop<Ts> : row), ...);
  return row;
}

// Far angles are rare: a second loop takes them.
template <class T, class F>
void AngleLoop(int64_t n, const void* x, void* y, const RowParameters&) {
  const T* __restrict from = static_cast<const T*>(x);
  T* __restrict to = static_cast<T*>(y);
  uint64_t far = 0;
  QUERN_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(from[i]);
    to[i] = static_cast<T>(OfNearAngle<F>(from[i]));
    far |= IsFarAngle(v) ? uint64_t{1} : uint64_t{0};
  }
  if (far == 0) return;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(from[i]);
    if (IsFarAngle(v)) to[i] = static_cast<T>(F::Of(ReduceFar(v)));
  }
}
template <class F>
UnaryRow AngleRow(DType dtype) {
  return dtype == DType::kF32 ? AngleLoop<float, F> : dtype == DType::kF64 ? AngleLoop<double, F> : nullptr;
}

// Rows of float64 alone, as float32 is the vector family's; rows of both.
template <auto kF>
UnaryRow OfDouble(DType dtype) {
  return dtype == DType::kF64 ? UnaryLoop<double, double, kF> : nullptr;
}
template <auto kF>
UnaryRow OfFloats(DType dtype) {
  return dtype == DType::kF32 ? UnaryLoop<float, float, kF> : OfDouble<kF>(dtype);
}

// Rows of functions that are computed in fewer steps of float64 for float32.
template <auto kOfFloat, auto kOfDouble>
UnaryRow OfEach(DType dtype) {
  return dtype == DType::kF32 ? UnaryLoop<float, float, kOfFloat> : OfDouble<kOfDouble>(dtype);
}

template <auto kF>
UnaryRow OrInteger(UnaryRow row, auto types, DType dtype) {
  return row ? row : UnaryRowOf<kF>(types, dtype);
}

// A row per pair of types, signed and unsigned integers being one where results have the same bits.
template <class To>
UnaryRow FromFloats(DType from) {
  return UnaryRowOf<Converted<To>{}, To>(Floats{}, from);
}
template <class To>
UnaryRow FromIntegers(DType from) {
  return UnaryRowOf<Converted<To>{}, To>(Integers{}, from == DType::kBool ? DType::kU8 : from);
}

UnaryRow ConvertFloat(DType from, DType to) {
  switch (to) {
    case DType::kF16:
      return from == DType::kF32 ? UnaryRow{ToHalves} : nullptr;
    case DType::kBF16:
      return from == DType::kF32 ? UnaryLoop<float, BFloat16, Converted<BFloat16>{}> : nullptr;
    case DType::kF32:
      return from == DType::kF64 ? UnaryLoop<double, float, Converted<float>{}> : nullptr;
    case DType::kF64:
      return from == DType::kF32 ? UnaryLoop<float, double, Converted<double>{}> : nullptr;
    case DType::kBool:
      return FromFloats<bool>(from);
    case DType::kI32:
      return FromFloats<int32_t>(from);
    case DType::kU32:
      return FromFloats<uint32_t>(from);
    case DType::kI64:
      return FromFloats<int64_t>(from);
    case DType::kU64:
      return FromFloats<uint64_t>(from);
    case DType::kI8:
    case DType::kU8:
      return FromFloats<uint8_t>(from);
    case DType::kI16:
    case DType::kU16:
      return FromFloats<uint16_t>(from);
    default:
      return nullptr;
  }
}

UnaryRow ConvertInteger(DType from, DType to) {
  switch (AsUnsigned(to == DType::kBool ? DType::kUndefined : to)) {
    case DType::kUndefined:
      return FromIntegers<bool>(from);
    case DType::kF32:
      return FromIntegers<float>(from);
    case DType::kF64:
      return FromIntegers<double>(from);
    case DType::kU8:
      return FromIntegers<uint8_t>(from);
    case DType::kU16:
      return FromIntegers<uint16_t>(from);
    case DType::kU32:
      return FromIntegers<uint32_t>(from);
    case DType::kU64:
      return FromIntegers<uint64_t>(from);
    default:
      return nullptr;
  }
}

// Between float32 and the floats of 8 bits and fewer.
UnaryRow ConvertFromSmallFloat(DType from) {
  if (from == DType::kF8E8M0) return UnaryLoop<uint8_t, float, FromE8M0{}>;
  const UnaryRow packed = ByPackedFloat(from, []<SmallFloat kF>() -> UnaryRow { return FromPackedFloats<kF>; });
  if (packed) return packed;
  return ByFloat8(from, []<SmallFloat kF>() -> UnaryRow { return UnaryLoop<uint8_t, float, FromSmallFloat<kF>{}>; });
}
UnaryRow ConvertToSmallFloat(DType to) {
  if (to == DType::kF8E8M0) return UnaryLoop<float, uint8_t, ToE8M0{}>;
  const UnaryRow packed = ByPackedFloat(to, []<SmallFloat kF>() -> UnaryRow { return ToPackedFloats<kF>; });
  if (packed) return packed;
  return ByFloat8(to, []<SmallFloat kF>() -> UnaryRow { return UnaryLoop<float, uint8_t, ToSmallFloat<kF>{}>; });
}

UnaryRow FindConversion(DType from, DType to) {
  if (from == DType::kF32) {
    if (const UnaryRow row = ConvertToSmallFloat(to)) return row;
  }
  if (to == DType::kF32) {
    if (const UnaryRow row = ConvertFromSmallFloat(from)) return row;
  }
  if (from == DType::kF16) return to == DType::kF32 ? UnaryRow{FromHalves} : nullptr;
  if (from == DType::kBF16) return to == DType::kF32 ? UnaryLoop<BFloat16, float, Converted<float>{}> : nullptr;
  return IsFloatType(from) ? ConvertFloat(from, to) : ConvertInteger(from, to);
}

UnaryRow FindOfOneType(UnaryKind kind, DType t) {
  switch (kind) {
    case UnaryKind::kRelu:
      return OrInteger<ReluOfInteger{}>(OfDouble<Relu>(t), SignedIntegers{}, t);
    case UnaryKind::kLeakyRelu:
      return OfDouble<LeakyRelu>(t);
    case UnaryKind::kThresholdedRelu:
      return OfDouble<ThresholdedRelu>(t);
    case UnaryKind::kClip: {
      const UnaryRow row = ClipRow(TypeList<double>{}, t);
      return row ? row : ClipRow(Integers{}, t);
    }
    case UnaryKind::kHardSigmoid:
      return OfDouble<HardSigmoid>(t);
    case UnaryKind::kHardSwish:
      return OfDouble<HardSwish>(t);
    case UnaryKind::kSigmoid:
      return OfDouble<Plain<Sigmoid>>(t);
    case UnaryKind::kSilu:
      return OfDouble<Silu>(t);
    case UnaryKind::kTanh:
      return OfDouble<Plain<Tanh>>(t);
    case UnaryKind::kExp:
      return OfDouble<Plain<Exp>>(t);
    case UnaryKind::kLog:
      return OfDouble<Plain<Log>>(t);
    case UnaryKind::kSqrt:
      return OfDouble<SquareRoot>(t);
    case UnaryKind::kNeg:
      return OrInteger<NegatedInteger{}>(OfDouble<Negative>(t), SignedIntegers{}, t);
    case UnaryKind::kAbs:
      return OrInteger<Magnitude{}>(OfDouble<Plain<Abs>>(t), Integers{}, t);
    case UnaryKind::kReciprocal:
      return OfDouble<Reciprocal>(t);
    case UnaryKind::kFloor:
      return OfDouble<Floor>(t);
    case UnaryKind::kCeil:
      return OfDouble<Ceil>(t);
    case UnaryKind::kRound:
      return OfDouble<Round>(t);
    case UnaryKind::kSign:
      return OrInteger<SignOf{}>(OfDouble<SignOf{}>(t), Integers{}, t);
    case UnaryKind::kErf:
      return OrInteger<ErfOfInteger{}>(OfDouble<Plain<Erf>>(t), Integers{}, t);
    case UnaryKind::kElu:
      return OfDouble<Elu>(t);
    case UnaryKind::kCelu:
      return OfDouble<Celu>(t);
    case UnaryKind::kSelu:
      return OfDouble<Selu>(t);
    case UnaryKind::kSoftplus:
      return OfDouble<Plain<Softplus>>(t);
    case UnaryKind::kSoftsign:
      return OfDouble<Softsign>(t);
    case UnaryKind::kGelu:
      return OfDouble<Plain<Gelu>>(t);
    case UnaryKind::kGeluTanh:
      return OfDouble<GeluTanh>(t);
    case UnaryKind::kMish:
      return OfDouble<Plain<Mish>>(t);
    case UnaryKind::kSquare:
      return OfDouble<Square>(t);
    case UnaryKind::kCube:
      return OfDouble<Cube>(t);
    case UnaryKind::kSin:
      return AngleRow<Sine>(t);
    case UnaryKind::kCos:
      return AngleRow<Cosine>(t);
    case UnaryKind::kTan:
      return AngleRow<Tangent>(t);
    case UnaryKind::kAsin:
      return OfEach<AsinOfFloat, Plain<Asin>>(t);
    case UnaryKind::kAcos:
      return OfEach<AcosOfFloat, Plain<Acos>>(t);
    case UnaryKind::kAtan:
      return OfFloats<Plain<Atan>>(t);
    case UnaryKind::kSinh:
      return OfFloats<Plain<Sinh>>(t);
    case UnaryKind::kCosh:
      return OfFloats<Plain<Cosh>>(t);
    case UnaryKind::kAsinh:
      return OfFloats<Plain<Asinh>>(t);
    case UnaryKind::kAcosh:
      return OfFloats<Plain<Acosh>>(t);
    case UnaryKind::kAtanh:
      return OfFloats<Plain<Atanh>>(t);
    case UnaryKind::kShrink:
      return OrInteger<Shrink{}>(OfFloats<Shrink{}>(t), Integers{}, t);
    case UnaryKind::kAffine:
      return OfFloats<Affine>(t);
    case UnaryKind::kScale:
      return OfFloats<Scale>(t);
    case UnaryKind::kScaledTanh:
      return OfFloats<ScaledTanh>(t);
    case UnaryKind::kParametricSoftplus:
      return OfFloats<ParametricSoftplus>(t);
    case UnaryKind::kDivide:
      return OfDouble<Divide>(t);
    case UnaryKind::kIsAbove:
      return OrInteger<IsAbove{}>(OfFloats<IsAbove{}>(t), TypeList<int32_t, int64_t>{}, t);
    case UnaryKind::kNot:
      return t == DType::kBool ? UnaryLoop<bool, bool, Not> : nullptr;
    case UnaryKind::kBitNot:
      return UnaryRowOf<BitNot{}>(UnsignedIntegers{}, AsUnsigned(t));
    default:
      return nullptr;
  }
}

UnaryRow FindUnary(UnaryKind kind, DType from, DType to) {
  switch (kind) {
    case UnaryKind::kConvert:
      return FindConversion(from, to);
    case UnaryKind::kRoundOdd:
      if (to != DType::kF32) return nullptr;
      return UnaryRowOf<RoundedOdd{}, float>(TypeList<double, int32_t, int64_t, uint32_t, uint64_t>{}, from);
    case UnaryKind::kExponent:
      return from == DType::kU64 && to == DType::kI64 ? UnaryLoop<uint64_t, int64_t, Exponent> : nullptr;
    case UnaryKind::kIsNan:
      return to == DType::kBool ? UnaryRowOf<IsNan{}, bool>(Floats{}, from) : nullptr;
    case UnaryKind::kIsInf:
      return to == DType::kBool ? UnaryRowOf<IsInf{}, bool>(Floats{}, from) : nullptr;
    default:
      return from == to ? FindOfOneType(kind, from) : nullptr;
  }
}

}  // namespace
}  // namespace quern::ukernel
