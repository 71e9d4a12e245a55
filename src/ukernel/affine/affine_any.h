// The bodies of the affine family as plain loops: the compiler vectorizes them with the flags of the including file.
#pragma once

#include <type_traits>

#include "ukernel/affine.h"
#include "ukernel/affine/bytes.h"
#include "ukernel/affine/map_bytes.h"
#include "ukernel/elementwise/conversions.h"
#include "ukernel/elementwise/small_floats.h"
#include "ukernel/fold/lanes.h"

namespace quern::ukernel {
namespace {

// The element next to a number; NaN gives the lowest.
template <class T>
QUERN_MATH T Stored(float number, float zero) {
  constexpr bool kSigned = std::is_signed_v<T>;
  constexpr int kBits = 8 * sizeof(T) - kSigned;
  constexpr float kLow = kSigned ? -static_cast<float>(1 << kBits) : 0.0f, kHigh = static_cast<float>((1 << kBits) - 1);
  constexpr float kFar = 0x1p22f;  // beyond every range, and below it the sum with 1.5 * 2^23 leaves an integer
  const float bounded = number < -kFar ? -kFar : number > kFar ? kFar : number;
  const float q = (bounded + kRoundToInt - kRoundToInt) + zero;
  return static_cast<T>(static_cast<int32_t>(q > kLow ? (q < kHigh ? q : kHigh) : kLow));
}

template <class T>
QUERN_MATH float Dequantized(T x, T zero, float scale) {
  if constexpr (sizeof(T) == 4) {
    return static_cast<float>(static_cast<double>(x) - static_cast<double>(zero)) * scale;
  } else {
    return static_cast<float>(static_cast<int32_t>(x) - static_cast<int32_t>(zero)) * scale;
  }
}

// y[i] = f(x[i], scale, zero) with T zeros.
template <class T, class X, class Y, class Args, class F>
void EachScaled(const Args& a, const X* x, Y* y, F f) {
  const size_t n = a.n;
  if (n == 0) return;
  const float* scales = a.scale;
  const T* zeros = static_cast<const T*>(a.zero);
  const float scale = *scales;
  const T zero = zeros ? *zeros : T{0};
  if (a.zero_step) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = f(x[i], scales[i], zeros[i]);
  } else if (a.scale_step) {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = f(x[i], scales[i], zero);
  } else {
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = f(x[i], scale, zero);
  }
}

using QuantizeRun = void (*)(const QuantizeRowArgs&);
using DequantizeRun = void (*)(const DequantizeRowArgs&);

// kCount elements by a multiplication with the inverse of their common scale instead of a division, which takes longer
// than all else. False where a product is nearer to the middle between two integers than float32 may be wrong: those
// elements are to be divided.
template <class T, class X, size_t kCount>
QUERN_MATH bool QuantizeQuickly(const X* x, float inverse, int32_t zero, T* y) {
  static_assert(sizeof(T) == 1);
  // The inverse, the product and the quotient in its place are rounded by 2^-24 each, of 255 at most.
  constexpr float kDoubt = 0x1p-22f * 255;
  // Integers, so that it is the same to bound before rounding and after.
  const float low = static_cast<float>((std::is_signed_v<T> ? -128 : 0) - zero), high = low + 255;
  const float round = kRoundToInt + static_cast<float>(zero);  // only what is in doubt may round the other way
  int32_t farthest = 0;                                        // bits of the largest distance from an integer
  QUERN_INDEPENDENT
  for (size_t i = 0; i < kCount; ++i) {
    const float number = Converted<float>{}(x[i]) * inverse;
    const float at_least = number > low ? number : low, bounded = at_least < high ? at_least : high;
    const float shifted = bounded + round;  // its low bits are the byte
    const int32_t distance = __builtin_bit_cast(int32_t, bounded - (shifted - round)) & 0x7fffffff;
    farthest = distance > farthest ? distance : farthest;
    y[i] = static_cast<T>(__builtin_bit_cast(int32_t, shifted));
  }
  return __builtin_bit_cast(float, farthest) < 0.5f - kDoubt;
}

// From and to X: float, Float16 or BFloat16.
template <class T, class X>
void QuantizeTo(const QuantizeRowArgs& a) {
  const auto divide = [](const QuantizeRowArgs& part, const X* x, T* y) {
    EachScaled<T>(part, x, y, [](X x, float scale, T zero) {
      return Stored<T>(Converted<float>{}(x) / scale, static_cast<float>(zero));
    });
  };
  const X* x = static_cast<const X*>(a.x);
  T* y = static_cast<T*>(a.y);
  QuantizeRowArgs rest = a;
  if constexpr (sizeof(T) == 1) {
    constexpr size_t kBlock = 128;
    const float scale = a.scale_step || a.n == 0 ? 0.0f : *a.scale, size = __builtin_fabsf(scale);
    if (size > 0x1p-100f && size < 0x1p100f) {
      const int32_t zero = a.zero ? *static_cast<const T*>(a.zero) : 0;
      QuantizeRowArgs block = a;
      block.n = kBlock;
      for (; rest.n >= kBlock; rest.n -= kBlock, x += kBlock, y += kBlock) {
        if (!QuantizeQuickly<T, X, kBlock>(x, 1 / scale, zero, y)) divide(block, x, y);
      }
    }
  }
  divide(rest, x, y);
}
template <class T, class X>
void DequantizeFrom(const DequantizeRowArgs& a) {
  EachScaled<T>(a, static_cast<const T*>(a.x), static_cast<X*>(a.y),
                [](T x, float scale, T zero) { return Converted<X>{}(Dequantized<T>(x, zero, scale)); });
}

// Of floats of 8 bits, whose zeros are not looked at.
template <SmallFloat kF, class X>
void QuantizeToFloat8(const QuantizeRowArgs& a) {
  const Overflow overflow = a.overflow;
  EachScaled<uint8_t>(a, static_cast<const X*>(a.x), static_cast<uint8_t*>(a.y), [overflow](X x, float scale, uint8_t) {
    return ToSmallFloatBits<kF>(Converted<float>{}(x) / scale, overflow);
  });
}
template <SmallFloat kF, class X>
void DequantizeFromFloat8(const DequantizeRowArgs& a) {
  EachScaled<uint8_t>(a, static_cast<const uint8_t*>(a.x), static_cast<X*>(a.y),
                      [](uint8_t x, float scale, uint8_t) { return Converted<X>{}(FromSmallFloat<kF>{}(x)*scale); });
}

template <class X>
QuantizeRun FindQuantize(DType stored) {
  switch (stored) {
    case DType::kI8:
      return QuantizeTo<int8_t, X>;
    case DType::kU8:
      return QuantizeTo<uint8_t, X>;
    case DType::kI16:
      return QuantizeTo<int16_t, X>;
    case DType::kU16:
      return QuantizeTo<uint16_t, X>;
    default:
      return ByFloat8(stored, []<SmallFloat kF>() -> QuantizeRun { return QuantizeToFloat8<kF, X>; });
  }
}
template <class X>
DequantizeRun FindDequantize(DType stored) {
  switch (stored) {
    case DType::kI8:
      return DequantizeFrom<int8_t, X>;
    case DType::kU8:
      return DequantizeFrom<uint8_t, X>;
    case DType::kI16:
      return DequantizeFrom<int16_t, X>;
    case DType::kU16:
      return DequantizeFrom<uint16_t, X>;
    case DType::kI32:
      return DequantizeFrom<int32_t, X>;
    default:
      return ByFloat8(stored, []<SmallFloat kF>() -> DequantizeRun { return DequantizeFromFloat8<kF, X>; });
  }
}

// f.operator()<X>() for the C++ type of floats of 32 or 16 bits.
template <class F>
auto ByFloat(DType dtype, F f) {
  return dtype == DType::kF16    ? f.template operator()<Float16>()
         : dtype == DType::kBF16 ? f.template operator()<BFloat16>()
                                 : f.template operator()<float>();
}

void RunQuantize(const QuantizeRowArgs& a) {
  ByFloat(a.source, [&]<class X>() { return FindQuantize<X>(a.type); })(a);
}
void RunDequantize(const DequantizeRowArgs& a) {
  ByFloat(a.target, [&]<class X>() { return FindDequantize<X>(a.type); })(a);
}

template <class T>
void RequantizeTo(const RequantizeRowArgs& a) {
  EachScaled<T>(a, a.x, static_cast<T*>(a.y), [](int32_t x, float scale, T zero) {
    return Stored<T>(static_cast<float>(x) * scale, static_cast<float>(zero));
  });
}
void RunRequantize(const RequantizeRowArgs& a) {
  a.type == DType::kI8 ? RequantizeTo<int8_t>(a) : RequantizeTo<uint8_t>(a);
}

// What a byte stands for, in float64.
template <bool kSigned>
struct Real {
  double scale;
  int32_t zero_point;
  explicit Real(const ByteScale& s) : scale(s.scale), zero_point(s.zero_point) {}
  double operator()(uint8_t bits) const {
    return scale * static_cast<double>(StoredNumber<kSigned>(bits) - zero_point);
  }
};

// The same in float32 where that is sure to give the same bytes: where no quotient is nearer to the middle between two
// integers than float32 may be wrong.
struct QuickCombine {
  float left, right;  // scales of both sides by that of the result; of a product in `left`
  float zero;         // of a sum: what both zero points take away
  float doubt;        // distance from a middle up to which a quotient is in doubt
  bool usable;

  explicit QuickCombine(const CombineBytesArgs& a) {
    const double x = a.x_scale.scale / a.y_scale.scale, z = a.z_scale.scale / a.y_scale.scale;
    left = static_cast<float>(a.multiply ? x * a.z_scale.scale : x);
    right = static_cast<float>(z);
    zero = static_cast<float>(-(x * a.x_scale.zero_point + z * a.z_scale.zero_point));
    // Roundings of 2^-24, five of a sum of terms of up to 255 steps each, that of `zero` included, or four of a
    // product, which saturates beyond 512.
    const float terms = a.multiply ? 512.0f : 255 * (__builtin_fabsf(left) + __builtin_fabsf(right));
    doubt = (a.multiply ? 0x1p-22f : 0x1.4p-22f) * terms;
    const auto normal = [](float f) { return __builtin_fabsf(f) > 0x1p-60f && __builtin_fabsf(f) < 0x1p60f; };
    // All quotients lie below 2^22, where kRoundToInt rounds to an integer.
    usable = doubt < 0x1p-6f && normal(left) && (a.multiply ? __builtin_fabsf(left) < 32 : normal(right));
  }
};

// kCount bytes; false where one is in doubt. x(i) and z(i) give bytes.
template <bool kSigned, bool kMultiply, size_t kCount, class X, class Z>
QUERN_MATH bool CombineQuickly(const CombineBytesArgs& a, const QuickCombine& q, X x, Z z, uint8_t* y) {
#ifdef __clang__
#pragma clang fp contract(fast)
#endif
  const int32_t x_zero = a.x_scale.zero_point, z_zero = a.z_scale.zero_point;
  const float left = q.left, right = q.right, zero = q.zero;
  // The bits of kRoundToInt + n are those of kRoundToInt and n.
  const int32_t offset = a.y_scale.zero_point - __builtin_bit_cast(int32_t, kRoundToInt);
  const int32_t low = kSigned ? -128 : 0, high = low + 255;
  const int32_t most = __builtin_bit_cast(int32_t, 0.5f - q.doubt);  // distance from an integer, as bits
  int32_t furthest = 0;
  QUERN_INDEPENDENT
  for (size_t i = 0; i < kCount; ++i) {
    const int32_t u = StoredNumber<kSigned>(x(i)), v = StoredNumber<kSigned>(z(i));
    const float number = kMultiply ? static_cast<float>((u - x_zero) * (v - z_zero)) * left
                                   : static_cast<float>(u) * left + (static_cast<float>(v) * right + zero);
    const float shifted = number + kRoundToInt;
    const int32_t distance = __builtin_bit_cast(int32_t, number - (shifted - kRoundToInt)) & 0x7fffffff;
    furthest = distance > furthest ? distance : furthest;
    const int32_t stored = __builtin_bit_cast(int32_t, shifted) + offset, at_least = stored > low ? stored : low;
    y[i] = static_cast<uint8_t>(at_least < high ? at_least : high);
  }
  return furthest < most;
}

template <bool kSigned, bool kMultiply, class X, class Z>
QUERN_MATH void CombineEach(const CombineBytesArgs& a, X x, Z z) {
  const Real<kSigned> left(a.x_scale), right(a.z_scale);
  const double scale = a.y_scale.scale, zero = a.y_scale.zero_point;
  uint8_t* y = a.y;
  const auto whole = [&](size_t begin, size_t end) {
    QUERN_INDEPENDENT
    for (size_t i = begin; i < end; ++i) {
      const double u = left(x(i)), v = right(z(i));
      y[i] = ByteOf<kSigned>(kMultiply ? u * v : u + v, scale, zero);
    }
  };
  constexpr size_t kBlock = 64;
  size_t i = 0;
  if (const QuickCombine quick(a); quick.usable) {
    for (; i + kBlock <= a.n; i += kBlock) {
      const bool sure = CombineQuickly<kSigned, kMultiply, kBlock>(
          a, quick, [=](size_t k) { return x(i + k); }, [=](size_t k) { return z(i + k); }, y + i);
      if (!sure) whole(i, i + kBlock);
    }
  }
  whole(i, a.n);
}

template <bool kSigned, bool kMultiply>
void CombineOf(const CombineBytesArgs& a) {
  if (a.n == 0) return;
  const uint8_t *x = a.x, *z = a.z;
  const auto each = [](const uint8_t* p) { return [p](size_t i) { return p[i]; }; };
  const auto same = [](const uint8_t* p) { return [byte = *p](size_t) { return byte; }; };
  if (a.x_step && a.z_step) {
    CombineEach<kSigned, kMultiply>(a, each(x), each(z));
  } else if (a.x_step) {
    CombineEach<kSigned, kMultiply>(a, each(x), same(z));
  } else if (a.z_step) {
    CombineEach<kSigned, kMultiply>(a, same(x), each(z));
  } else {
    CombineBytesArgs one = a;
    one.n = 1;
    CombineEach<kSigned, kMultiply>(one, same(x), same(z));
    for (size_t i = 1; i < a.n; ++i) a.y[i] = a.y[0];
  }
}

void RunCombine(const CombineBytesArgs& a) {
  if (a.y_scale.is_signed) {
    a.multiply ? CombineOf<true, true>(a) : CombineOf<true, false>(a);
  } else {
    a.multiply ? CombineOf<false, true>(a) : CombineOf<false, false>(a);
  }
}

// kBytes columns from c on: sums of 16 bits of up to 256 bytes, which are added in float64.
template <bool kSigned, size_t kBytes>
void AverageColumns(const AverageBytesArgs& a, size_t c) {
  using Bytes = typename LanesOf<uint8_t, kBytes>::Type;
  using Sums = typename LanesOf<uint16_t, 2 * kBytes>::Type;
  constexpr size_t kRows = 256;
  constexpr uint8_t kFlip = kSigned ? 0x80 : 0;  // signed bytes count from -128
  double totals[kBytes] = {};
  Sums sums{};
  size_t held = 0;  // rows in `sums`
  const auto flush = [&] {
    uint16_t each[kBytes];
    Store(each, sums);
    for (size_t k = 0; k < kBytes; ++k) totals[k] += each[k];
    sums = Sums{};
    held = 0;
  };
  for (size_t i = 0; i < a.taps[0]; ++i) {
    for (size_t j = 0; j < a.taps[1]; ++j) {
      const uint8_t* x = a.x + static_cast<ptrdiff_t>(i) * a.strides[0] + static_cast<ptrdiff_t>(j) * a.strides[1] + c;
      for (size_t left = a.taps[2]; left > 0;) {
        const size_t count = left < kRows - held ? left : kRows - held;
        for (size_t k = 0; k < count; ++k, x += a.strides[2]) {
          Bytes bytes;
          Load(x, bytes);
          bytes = bytes ^ kFlip;
          if constexpr (kBytes == 1) {
            sums = static_cast<uint16_t>(sums + bytes);
          } else {
            sums = sums + __builtin_convertvector(bytes, Sums);
          }
        }
        left -= count;
        held += count;
        if (held == kRows) flush();
      }
    }
  }
  flush();
  const double taps = static_cast<double>(a.taps[0] * a.taps[1] * a.taps[2]);
  const double zeros = taps * (a.x_scale.zero_point + kFlip);
  const double scale = a.x_scale.scale, divisor = a.divisor, y_scale = a.y_scale.scale, zero = a.y_scale.zero_point;
  uint8_t* y = a.y + c;
  for (size_t k = 0; k < kBytes; ++k) {
    y[k] = ByteOf<kSigned>(divisor == 0 ? 0.0 : scale * (totals[k] - zeros) / divisor, y_scale, zero);
  }
}

template <bool kSigned>
void AverageOf(const AverageBytesArgs& a) {
  CoverColumns<uint8_t, 32, true>(0, a.n, [&]<size_t kBytes>(size_t c) { AverageColumns<kSigned, kBytes>(a, c); });
}
void RunAverage(const AverageBytesArgs& a) { a.y_scale.is_signed ? AverageOf<true>(a) : AverageOf<false>(a); }

constexpr AffineKernel AffineRow(const Isa& isa, uint16_t vector_bytes) {
  return {.isa = isa,
          .vector_bytes = vector_bytes,
          .quantize = RunQuantize,
          .dequantize = RunDequantize,
          .requantize = RunRequantize,
          .combine = RunCombine,
          .average = RunAverage,
          .map = RunMap};
}

}  // namespace
}  // namespace quern::ukernel
