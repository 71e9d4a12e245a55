#include "number.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "quern/quern.h"

namespace quern_tool {
namespace {

template <typename T>
T Load(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(void* data, std::size_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &value, sizeof(T));
}

// Small floats: `special` says what the highest exponent stands for.
enum class Special { kIeee, kNanOnly, kNegativeZeroNan, kNone };
double DecodeFloat(unsigned bits, int exponent_bits, int mantissa_bits, int bias, Special special) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const unsigned exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = bits >> (mantissa_bits + exponent_bits) & 1;
  const unsigned top = (1u << exponent_bits) - 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (special == Special::kIeee && exponent == top) {
    return mantissa   ? nan
           : negative ? -std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::infinity();
  }
  if (special == Special::kNanOnly && exponent == top && mantissa == (1u << mantissa_bits) - 1) return nan;
  if (special == Special::kNegativeZeroNan && negative && exponent == 0 && mantissa == 0) return nan;
  const double magnitude = exponent == 0 ? std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits)
                                         : std::ldexp(static_cast<double>(mantissa | 1u << mantissa_bits),
                                                      static_cast<int>(exponent) - bias - mantissa_bits);
  return negative ? -magnitude : magnitude;
}

unsigned LoadBits(const void* data, std::size_t index, unsigned bits) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  unsigned value = 0;
  for (unsigned i = 0; i < bits; ++i) {
    const std::size_t at = index * bits + i;
    value |= (bytes[at / 8] >> (at % 8) & 1u) << i;
  }
  return value;
}

int SignExtend(unsigned value, unsigned bits) {
  const unsigned sign = 1u << (bits - 1);
  return static_cast<int>(value ^ sign) - static_cast<int>(sign);
}

std::uint16_t ToHalf(double value) {
  // Through an integer multiple of the unit in the last place, which rounds half to even.
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 65520) return static_cast<std::uint16_t>(sign | 0x7C00);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int unit = exponent - 11 < -24 ? -24 : exponent - 11;
  const double steps = std::nearbyint(std::ldexp(magnitude, -unit));
  const double rounded = std::ldexp(steps, unit);
  if (rounded < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<unsigned>(std::ldexp(rounded, 24)));
  std::frexp(rounded, &exponent);
  const auto mantissa = static_cast<unsigned>(std::ldexp(rounded, 11 - exponent));
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>(exponent + 14) << 10 | (mantissa & 0x3FF));
}

std::uint16_t ToBfloat16(double value) {
  const auto single = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &single, 4);
  if (std::isnan(single)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace

bool IsNumber(std::int32_t dtype) {
  return dtype > 0 && dtype <= QUERN_F6E3M2 && dtype != QUERN_STRING && dtype != QUERN_C64 && dtype != QUERN_C128;
}

long double LoadNumber(std::int32_t dtype, const void* data, std::size_t i) {
  switch (dtype) {
    case QUERN_F32:
      return Load<float>(data, i);
    case QUERN_F64:
      return Load<double>(data, i);
    case QUERN_U8:
      return Load<std::uint8_t>(data, i);
    case QUERN_I8:
      return Load<std::int8_t>(data, i);
    case QUERN_U16:
      return Load<std::uint16_t>(data, i);
    case QUERN_I16:
      return Load<std::int16_t>(data, i);
    case QUERN_I32:
      return Load<std::int32_t>(data, i);
    case QUERN_U32:
      return Load<std::uint32_t>(data, i);
    case QUERN_I64:
      return Load<std::int64_t>(data, i);
    case QUERN_U64:
      return Load<std::uint64_t>(data, i);
    case QUERN_BOOL:
      return Load<std::uint8_t>(data, i) != 0;
    case QUERN_F16:
      return DecodeFloat(Load<std::uint16_t>(data, i), 5, 10, 15, Special::kIeee);
    case QUERN_BF16:
      return DecodeFloat(Load<std::uint16_t>(data, i), 8, 7, 127, Special::kIeee);
    case QUERN_F8E4M3FN:
      return DecodeFloat(Load<std::uint8_t>(data, i), 4, 3, 7, Special::kNanOnly);
    case QUERN_F8E4M3FNUZ:
      return DecodeFloat(Load<std::uint8_t>(data, i), 4, 3, 8, Special::kNegativeZeroNan);
    case QUERN_F8E5M2:
      return DecodeFloat(Load<std::uint8_t>(data, i), 5, 2, 15, Special::kIeee);
    case QUERN_F8E5M2FNUZ:
      return DecodeFloat(Load<std::uint8_t>(data, i), 5, 2, 16, Special::kNegativeZeroNan);
    case QUERN_F8E8M0: {
      const unsigned exponent = Load<std::uint8_t>(data, i);
      return exponent == 255 ? std::numeric_limits<double>::quiet_NaN()
                             : std::ldexp(1.0, static_cast<int>(exponent) - 127);
    }
    case QUERN_F4E2M1:
      return DecodeFloat(LoadBits(data, i, 4), 2, 1, 1, Special::kNone);
    case QUERN_F6E2M3:
      return DecodeFloat(LoadBits(data, i, 6), 2, 3, 1, Special::kNone);
    case QUERN_F6E3M2:
      return DecodeFloat(LoadBits(data, i, 6), 3, 2, 3, Special::kNone);
    case QUERN_U4:
      return LoadBits(data, i, 4);
    case QUERN_I4:
      return SignExtend(LoadBits(data, i, 4), 4);
    case QUERN_U2:
      return LoadBits(data, i, 2);
    case QUERN_I2:
      return SignExtend(LoadBits(data, i, 2), 2);
    default:
      return 0;
  }
}

bool StoreNumber(std::int32_t dtype, void* data, std::size_t i, double value) {
  const double whole = std::nearbyint(value);
  switch (dtype) {
    case QUERN_F32:
      Store(data, i, static_cast<float>(value));
      return true;
    case QUERN_F64:
      Store(data, i, value);
      return true;
    case QUERN_F16:
      Store(data, i, ToHalf(value));
      return true;
    case QUERN_BF16:
      Store(data, i, ToBfloat16(value));
      return true;
    case QUERN_U8:
      Store(data, i, static_cast<std::uint8_t>(whole));
      return true;
    case QUERN_I8:
      Store(data, i, static_cast<std::int8_t>(whole));
      return true;
    case QUERN_U16:
      Store(data, i, static_cast<std::uint16_t>(whole));
      return true;
    case QUERN_I16:
      Store(data, i, static_cast<std::int16_t>(whole));
      return true;
    case QUERN_I32:
      Store(data, i, static_cast<std::int32_t>(whole));
      return true;
    case QUERN_U32:
      Store(data, i, static_cast<std::uint32_t>(whole));
      return true;
    case QUERN_I64:
      Store(data, i, static_cast<std::int64_t>(whole));
      return true;
    case QUERN_U64:
      Store(data, i, static_cast<std::uint64_t>(whole));
      return true;
    case QUERN_BOOL:
      Store(data, i, static_cast<std::uint8_t>(value != 0));
      return true;
    default:
      return false;
  }
}

}  // namespace quern_tool
