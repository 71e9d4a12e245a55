// Conversions between float32 and the floats of 8, 6 and 4 bits without branches, in forms that vectorize on every ISA;
// the results are those of base/float8.h. Kernel-safe.
#pragma once

#include <bit>

#include "base/float8.h"
#include "ukernel/elementwise.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000u, kNanBits = 0x7fc00000u;

// How far the sign of such a number is below that of float32.
template <SmallFloat kF>
constexpr int kSignShift = 32 - std::bit_width(unsigned{kF.sign});

// What float32 makes of a number of this kind, whose bits are the low ones of a byte, the others 0.
template <SmallFloat kF>
struct FromSmallFloat {
  float operator()(uint8_t byte) const {
    constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kF.bias) << 23, kOne = 1u << 23;
    const uint32_t magnitude = byte & (kF.sign - 1u), moved = magnitude << (23 - kF.mantissa_bits);
    // A subnormal as the fraction of the smallest normal number, which is taken away again.
    const uint32_t tiny = BitsOf(FloatOf(moved + kRebias + kOne) - FloatOf(kRebias + kOne));
    const uint32_t finite = magnitude >> kF.mantissa_bits == 0 ? tiny : moved + kRebias;
    const uint32_t special = kF.infinity != 0 && magnitude == kF.infinity ? kInfinityBits : kNanBits;
    const uint32_t bits = magnitude > kF.max ? special : finite;
    const uint32_t result = bits | (uint32_t{byte} & kF.sign) << kSignShift<kF>;
    return FloatOf(!kF.negative_zero && byte == kF.sign ? kNanBits : result);
  }
};

// Overflow and E8M0Rounding as RowParameters have them.
QUERN_MATH Overflow OverflowOf(const RowParameters& p) { return static_cast<Overflow>(static_cast<int>(p.a)); }

template <SmallFloat kF>
QUERN_MATH uint8_t ToSmallFloatBits(float x, Overflow overflow) {
  constexpr int kShift = 23 - kF.mantissa_bits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kF.bias) << 23, kOne = 1u << 23;
  // Adding 2^23 units leaves whole ones, rounded by the addition; from the smallest normal number on it is not used.
  constexpr uint32_t kUnits = static_cast<uint32_t>(1 - kF.bias - kF.mantissa_bits + 23 + 127) << 23;
  constexpr uint32_t kSpecial = kF.infinity != 0 ? kF.infinity : kF.has_nan ? kF.nan : kF.max;
  const uint32_t over = overflow == Overflow::kSpecial ? kSpecial : kF.max;
  const uint32_t infinite =
      overflow == Overflow::kSaturate || (overflow == Overflow::kSaturateFinite && kF.negative_zero) ? kF.max
                                                                                                     : kSpecial;
  const uint32_t u = BitsOf(x), a = u & 0x7fffffffu, sign = (u >> kSignShift<kF>)&kF.sign;
  const uint32_t tiny = BitsOf(FloatOf(a) + FloatOf(kUnits)) - kUnits;
  const uint32_t normal = (a - kRebias + ((1u << (kShift - 1)) - 1) + ((a >> kShift) & 1u)) >> kShift;
  const uint32_t rounded = a < kRebias + kOne ? tiny : normal;
  const uint32_t finite = rounded > kF.max ? over : rounded;
  const uint32_t code = a < kInfinityBits ? finite : a == kInfinityBits ? infinite : uint32_t{kF.nan};
  return static_cast<uint8_t>(!kF.negative_zero && code == 0 ? 0u : code | sign);
}

template <SmallFloat kF>
struct ToSmallFloat {
  uint8_t operator()(float x, const RowParameters& p) const { return ToSmallFloatBits<kF>(x, OverflowOf(p)); }
};

struct FromE8M0 {
  float operator()(uint8_t byte) const {
    const uint32_t bits = byte == 0 ? 0x00400000u : static_cast<uint32_t>(byte) << 23;
    return FloatOf(byte == 0xff ? kNanBits : bits);
  }
};
struct ToE8M0 {
  uint8_t operator()(float x, const RowParameters& p) const {
    const bool saturates = OverflowOf(p) != Overflow::kSpecial;
    const auto rounding = static_cast<E8M0Rounding>(static_cast<int>(p.b));
    // Fractions from here on round up.
    const uint32_t up = rounding == E8M0Rounding::kUp ? 1u : rounding == E8M0Rounding::kDown ? 0x800000u : 0x400000u;
    const uint32_t low = saturates ? 0u : 0xffu, high = saturates ? 0xfeu : 0xffu;
    const uint32_t a = BitsOf(x) & 0x7fffffffu, exponent = a >> 23;
    const uint32_t fraction = (exponent == 0 ? a << 1 : a) & 0x7fffffu;
    const uint32_t inside = exponent + (fraction >= up ? 1u : 0u);
    const uint32_t code = a < 0x00400000u ? low : a > 0x7f000000u ? high : inside;
    return static_cast<uint8_t>(a > kInfinityBits ? 0xffu : code);
  }
};

// f.operator()<SmallFloat>() for the floats of 8 bits that have a sign; a value-initialized result for other types.
template <class F>
constexpr auto ByFloat8(DType dtype, F f) -> decltype(f.template operator()<kFloat8E4M3FN>()) {
  switch (dtype) {
    case DType::kF8E4M3FN:
      return f.template operator()<kFloat8E4M3FN>();
    case DType::kF8E4M3FNUZ:
      return f.template operator()<kFloat8E4M3FNUZ>();
    case DType::kF8E5M2:
      return f.template operator()<kFloat8E5M2>();
    case DType::kF8E5M2FNUZ:
      return f.template operator()<kFloat8E5M2FNUZ>();
    default:
      return decltype(f.template operator()<kFloat8E4M3FN>())();
  }
}
// Likewise for those of 6 and 4 bits, which share bytes.
template <class F>
constexpr auto ByPackedFloat(DType dtype, F f) -> decltype(f.template operator()<kFloat4E2M1>()) {
  switch (dtype) {
    case DType::kF6E2M3:
      return f.template operator()<kFloat6E2M3>();
    case DType::kF6E3M2:
      return f.template operator()<kFloat6E3M2>();
    case DType::kF4E2M1:
      return f.template operator()<kFloat4E2M1>();
    default:
      return decltype(f.template operator()<kFloat4E2M1>())();
  }
}

}  // namespace
}  // namespace quern::ukernel
