// Conversions of 16-bit floats against arithmetic in double precision, for every 16-bit pattern and the points between.
#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quern {
namespace {

TEST(Float16, EveryPatternIsItsValue) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const unsigned exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    const float got = F16BitsToF32(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(got), mantissa != 0) << bits;
      if (!mantissa) {
        EXPECT_EQ(got, sign * std::numeric_limits<double>::infinity());
      }
    } else {
      const double want =
          exponent ? std::ldexp(1024.0 + mantissa, static_cast<int>(exponent) - 25) : std::ldexp(double(mantissa), -24);
      EXPECT_EQ(got, sign * want) << bits;
      EXPECT_EQ(F32ToF16Bits(got), bits) << bits;
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {
    const double low = F16BitsToF32(static_cast<uint16_t>(bits)), high = F16BitsToF32(static_cast<uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact in float32
    const unsigned even = bits & 1 ? bits + 1 : bits;
    EXPECT_EQ(F32ToF16Bits(middle), even);
    EXPECT_EQ(F32ToF16Bits(std::nextafterf(middle, 0.0f)), bits);
    EXPECT_EQ(F32ToF16Bits(std::nextafterf(middle, 1e9f)), bits + 1);
    EXPECT_EQ(F32ToF16Bits(-middle), even | 0x8000u);
  }
  EXPECT_EQ(F32ToF16Bits(65519.996f), 0x7bff);
  EXPECT_EQ(F32ToF16Bits(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16Bits(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(F32ToF16Bits(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Float16, NanStaysNan) {
  for (uint32_t u : {0x7fc00000u, 0x7f800001u, 0xffffffffu}) {
    const float x = std::bit_cast<float>(u);
    EXPECT_TRUE(std::isnan(F16BitsToF32(F32ToF16Bits(x)))) << u;
    EXPECT_TRUE(std::isnan(Bf16BitsToF32(F32ToBf16Bits(x)))) << u;
  }
}

TEST(BFloat16, EveryPatternIsItsValue) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const unsigned exponent = (bits >> 7) & 255, mantissa = bits & 127;
    const double sign = bits & 0x8000 ? -1 : 1;
    const float got = Bf16BitsToF32(static_cast<uint16_t>(bits));
    if (exponent == 255) {
      EXPECT_EQ(std::isnan(got), mantissa != 0) << bits;
      if (!mantissa) {
        EXPECT_EQ(got, sign * std::numeric_limits<double>::infinity());
      }
    } else {
      const double want =
          exponent ? std::ldexp(128.0 + mantissa, static_cast<int>(exponent) - 134) : std::ldexp(mantissa, -133);
      EXPECT_EQ(got, sign * want) << bits;
      EXPECT_EQ(F32ToBf16Bits(got), bits) << bits;
    }
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7f7f; ++bits) {
    const double low = Bf16BitsToF32(static_cast<uint16_t>(bits));
    const double high = Bf16BitsToF32(static_cast<uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);
    EXPECT_EQ(F32ToBf16Bits(static_cast<float>(low)), bits);
    EXPECT_EQ(F32ToBf16Bits(middle), bits & 1 ? bits + 1 : bits);
    EXPECT_EQ(F32ToBf16Bits(-middle), (bits & 1 ? bits + 1 : bits) | 0x8000u);
    EXPECT_EQ(F32ToBf16Bits(std::nextafterf(middle, 0.0f)), bits);
  }
  EXPECT_EQ(F32ToBf16Bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(F32ToBf16Bits(std::numeric_limits<float>::infinity()), 0x7f80);
}

}  // namespace
}  // namespace quern
