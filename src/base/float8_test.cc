// Conversions of the small floats against a table of their values, made with ldexp from the layout that the ONNX
// specification gives, for every pattern and for every float32 that differs in what rounding looks at.
#include "base/float8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/packed_bits.h"
#include "base/round_to_odd.h"

namespace quern {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// What the patterns of a type mean, after its name: "fn" has one NaN and no infinity, "uz" no negative zero.
struct Type {
  const char* name;
  const SmallFloat& format;
  int exponent_bits, mantissa_bits, bias;
  double (*special)(unsigned bits);  // NaN or infinity, 0 for a number
};
const Type kTypes[] = {
    {"e4m3fn", kFloat8E4M3FN, 4, 3, 7, [](unsigned b) { return (b & 0x7f) == 0x7f ? kNan : 0; }},
    {"e4m3fnuz", kFloat8E4M3FNUZ, 4, 3, 8, [](unsigned b) { return b == 0x80 ? kNan : 0; }},
    {"e5m2", kFloat8E5M2, 5, 2, 15,
     [](unsigned b) {
       return (b & 0x7f) < 0x7c ? 0 : (b & 3) ? kNan : b & 0x80 ? -kInf : kInf;
     }},
    {"e5m2fnuz", kFloat8E5M2FNUZ, 5, 2, 16, [](unsigned b) { return b == 0x80 ? kNan : 0; }},
    {"e2m3", kFloat6E2M3, 2, 3, 1, [](unsigned) { return 0.0; }},
    {"e3m2", kFloat6E3M2, 3, 2, 3, [](unsigned) { return 0.0; }},
    {"e2m1", kFloat4E2M1, 2, 1, 1, [](unsigned) { return 0.0; }},
};

double Value(const Type& t, unsigned bits) {
  if (const double special = t.special(bits); special != 0) return special;
  const unsigned mantissa = bits % (1u << t.mantissa_bits);
  const unsigned exponent = (bits >> t.mantissa_bits) % (1u << t.exponent_bits);
  const bool negative = bits >> (t.mantissa_bits + t.exponent_bits) & 1;
  const double fraction = std::ldexp(mantissa, -t.mantissa_bits);
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - t.bias) : std::ldexp(1 + fraction, static_cast<int>(exponent) - t.bias);
  return negative ? -size : size;
}
unsigned Patterns(const Type& t) { return 2u << (t.exponent_bits + t.mantissa_bits); }

// The finite numbers from 0 upwards; the index of each is its pattern.
std::vector<double> Magnitudes(const Type& t) {
  std::vector<double> values;
  for (unsigned bits = 0; bits < Patterns(t) / 2 && std::isfinite(Value(t, bits)); ++bits) {
    values.push_back(Value(t, bits));
  }
  return values;
}

// The nearest of the values, of two the one with an even pattern; values.size() when it is the one that would follow
// the last, as if the exponent went on.
size_t Nearest(const std::vector<double>& values, double step_above, double x) {
  const auto value = [&](size_t i) { return i < values.size() ? values[i] : values.back() + step_above; };
  for (size_t i = 0; i < values.size(); ++i) {
    const double middle = (value(i) + value(i + 1)) / 2;
    if (x < middle || (x == middle && i % 2 == 0)) return i;
  }
  return values.size();
}

TEST(SmallFloat, EveryPatternIsItsValue) {
  for (const Type& t : kTypes) {
    for (unsigned bits = 0; bits < Patterns(t); ++bits) {
      const double want = Value(t, bits);
      const float got = SmallFloatToF32(static_cast<uint8_t>(bits), t.format);
      ASSERT_EQ(std::isnan(got), std::isnan(want)) << t.name << " " << bits;
      if (std::isnan(want)) continue;
      EXPECT_EQ(got, want) << t.name << " " << bits;
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << t.name << " " << bits;
      EXPECT_EQ(F32ToSmallFloat(got, t.format, Overflow::kSpecial), bits) << t.name;
    }
  }
}

TEST(SmallFloat, RoundsEveryFloatToNearestEven) {
  for (const Type& t : kTypes) {
    const std::vector<double> values = Magnitudes(t);
    const double step = values.back() - values[values.size() - 2];
    // The upper half of a float32 and what may follow it: nothing, a little, a half, nearly all.
    for (uint32_t high = 0; high < 0x7f80; ++high) {
      for (const uint32_t low : {0x0000u, 0x0001u, 0x8000u, 0xffffu}) {
        const float x = std::bit_cast<float>(high << 16 | low);
        const size_t nearest = Nearest(values, step, x);
        const bool fits = nearest < values.size();
        for (const Overflow overflow : {Overflow::kSaturate, Overflow::kSaturateFinite, Overflow::kSpecial}) {
          const double highest = overflow == Overflow::kSpecial && t.format.infinity  ? kInf
                                 : overflow == Overflow::kSpecial && t.format.has_nan ? kNan
                                                                                      : values.back();
          const double want = fits ? values[nearest] : highest;
          for (const float sign : {1.0f, -1.0f}) {
            const uint8_t bits = F32ToSmallFloat(sign * x, t.format, overflow);
            const double got = Value(t, bits);
            ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == sign * want)
                << t.name << ": " << sign * x << " became " << got << ", not " << sign * want;
            if (std::isnan(want)) continue;
            ASSERT_EQ(bits >= t.format.sign, sign < 0 && (want != 0 || t.format.negative_zero)) << t.name << " " << x;
          }
        }
      }
    }
  }
}

// The rows of the two tables of Cast that are not about numbers; "uz" infinities changed with operator set 24.
TEST(SmallFloat, SpecialValuesFollowTheTablesOfCast) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  struct Row {
    float x;
    Overflow overflow;
    uint8_t e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, of6, e2m1;  // of6: both types of 6 bits
  };
  const Row rows[] = {
      {0.0f, Overflow::kSaturate, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0},
      {-0.0f, Overflow::kSaturate, 0x80, 0x00, 0x80, 0x00, 0x20, 0x8},
      {nan, Overflow::kSaturate, 0x7f, 0x80, 0x7e, 0x80, 0x20, 0x8},
      {inf, Overflow::kSaturate, 0x7e, 0x7f, 0x7b, 0x7f, 0x1f, 0x7},
      {-inf, Overflow::kSaturate, 0xfe, 0xff, 0xfb, 0xff, 0x3f, 0xf},
      {1e9f, Overflow::kSaturate, 0x7e, 0x7f, 0x7b, 0x7f, 0x1f, 0x7},
      {inf, Overflow::kSaturateFinite, 0x7e, 0x80, 0x7b, 0x80, 0x1f, 0x7},
      {-inf, Overflow::kSaturateFinite, 0xfe, 0x80, 0xfb, 0x80, 0x3f, 0xf},
      {-1e9f, Overflow::kSaturateFinite, 0xfe, 0xff, 0xfb, 0xff, 0x3f, 0xf},
      {-0.0f, Overflow::kSpecial, 0x80, 0x00, 0x80, 0x00, 0x20, 0x8},
      {nan, Overflow::kSpecial, 0x7f, 0x80, 0x7e, 0x80, 0x20, 0x8},
      {-nan, Overflow::kSpecial, 0xff, 0x80, 0xfe, 0x80, 0x20, 0x8},
      {inf, Overflow::kSpecial, 0x7f, 0x80, 0x7c, 0x80, 0x1f, 0x7},
      {-inf, Overflow::kSpecial, 0xff, 0x80, 0xfc, 0x80, 0x3f, 0xf},
      {1e9f, Overflow::kSpecial, 0x7f, 0x80, 0x7c, 0x80, 0x1f, 0x7},
      {-1e9f, Overflow::kSpecial, 0xff, 0x80, 0xfc, 0x80, 0x3f, 0xf},
  };
  for (const Row& r : rows) {
    const uint8_t want[] = {r.e4m3fn, r.e4m3fnuz, r.e5m2, r.e5m2fnuz, r.of6, r.of6, r.e2m1};
    for (size_t i = 0; i < std::size(kTypes); ++i) {
      EXPECT_EQ(F32ToSmallFloat(r.x, kTypes[i].format, r.overflow), want[i])
          << kTypes[i].name << " of " << r.x << ", overflow " << static_cast<int>(r.overflow);
    }
  }
}

TEST(E8M0, EveryPatternIsItsValue) {
  for (unsigned bits = 0; bits < 255; ++bits) {
    const float x = E8M0ToF32(static_cast<uint8_t>(bits));
    EXPECT_EQ(x, std::ldexp(1.0, static_cast<int>(bits) - 127));
    for (const auto rounding : {E8M0Rounding::kUp, E8M0Rounding::kDown, E8M0Rounding::kNearest}) {
      EXPECT_EQ(F32ToE8M0(x, rounding, false), bits);
    }
  }
  EXPECT_TRUE(std::isnan(E8M0ToF32(255)));
}

TEST(E8M0, Rounds) {
  for (unsigned bits = 0; bits < 254; ++bits) {
    const float low = E8M0ToF32(static_cast<uint8_t>(bits)), middle = low * 1.5f;
    for (const bool saturate : {false, true}) {
      for (const float x : {std::nextafterf(low, 1e38f), std::nextafterf(middle, 0), middle,
                            std::nextafterf(middle, 1e38f), std::nextafterf(low * 2, 0)}) {
        if (bits == 0 && x == low) continue;
        EXPECT_EQ(F32ToE8M0(x, E8M0Rounding::kDown, saturate), bits);
        EXPECT_EQ(F32ToE8M0(x, E8M0Rounding::kUp, saturate), bits + 1);
        EXPECT_EQ(F32ToE8M0(x, E8M0Rounding::kNearest, saturate), x < middle ? bits : bits + 1);
      }
    }
  }
}

TEST(E8M0, SpecialValuesFollowTheTableOfCast) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto rounding : {E8M0Rounding::kUp, E8M0Rounding::kDown, E8M0Rounding::kNearest}) {
    for (const float small : {0.0f, 0x1p-149f, std::nextafterf(0x1p-127f, 0.0f)}) {
      EXPECT_EQ(F32ToE8M0(small, rounding, true), 0x00) << small;
      EXPECT_EQ(F32ToE8M0(small, rounding, false), 0xff) << small;
    }
    for (const float large : {std::nextafterf(0x1p127f, inf), std::numeric_limits<float>::max(), inf}) {
      EXPECT_EQ(F32ToE8M0(large, rounding, true), 0xfe) << large;
      EXPECT_EQ(F32ToE8M0(large, rounding, false), 0xff) << large;
    }
    EXPECT_EQ(F32ToE8M0(nan, rounding, true), 0xff);
    EXPECT_EQ(F32ToE8M0(nan, rounding, false), 0xff);
  }
}

// Rounding the stand-in to a small float is rounding the number itself: compared on numbers next to each middle.
TEST(RoundToOdd, KeepsWhatALaterRoundingNeeds) {
  const std::vector<double> values = Magnitudes(kTypes[0]);
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const double middle = (values[i] + values[i + 1]) / 2;
    const auto round = [](double x) { return F32ToSmallFloat(RoundToOdd(x), kFloat8E4M3FN, Overflow::kSaturate); };
    EXPECT_EQ(round(std::nextafter(middle, 0.0)), i);
    EXPECT_EQ(round(middle), i + i % 2);
    EXPECT_EQ(round(std::nextafter(middle, 1e9)), i + 1);
    EXPECT_EQ(round(-std::nextafter(middle, 1e9)), (i + 1) | 0x80);
  }
  EXPECT_EQ(RoundToOdd(1e300), std::numeric_limits<float>::max());
  EXPECT_EQ(RoundToOdd(-1e300), -std::numeric_limits<float>::max());
  EXPECT_EQ(RoundToOdd(1e-300), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(RoundToOdd(-kInf), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(RoundToOdd(kNan)));
  EXPECT_TRUE(std::signbit(RoundToOdd(-0.0)));
}

TEST(RoundToOdd, OfIntegersCutsOffAndMarks) {
  for (int bit = 24; bit < 63; ++bit) {
    const int64_t power = int64_t{1} << bit;
    const float next = static_cast<float>(std::ldexp(1 + std::ldexp(1.0, -23), bit));
    EXPECT_EQ(RoundToOdd(power), std::ldexp(1.0, bit));
    EXPECT_EQ(RoundToOdd(power + 1), next);
    EXPECT_EQ(RoundToOdd(-power - 1), -next);
    EXPECT_EQ(RoundToOdd(static_cast<uint64_t>(power) * 2 - 1),
              static_cast<float>(std::ldexp(2 - std::ldexp(1.0, -23), bit)));
  }
  EXPECT_EQ(RoundToOdd(int32_t{-7}), -7.0f);
  EXPECT_EQ(RoundToOdd(std::numeric_limits<int64_t>::min()), -0x1p63f);
  EXPECT_EQ(RoundToOdd(std::numeric_limits<uint64_t>::max()), 0x1.fffffep63f);
}

TEST(PackedBits, ElementsFillBytesFromTheLowEnd) {
  const uint8_t bytes[] = {0xe4, 0x1b};  // 2-bit: 0 1 2 3, 3 2 1 0; 4-bit: 4 e b 1
  for (int i = 0; i < 8; ++i) EXPECT_EQ(LoadPacked(bytes, i, 2), i < 4 ? i : 7 - i);
  EXPECT_EQ(LoadPacked(bytes, 1, 4), 0xe);
  EXPECT_EQ(LoadPacked(bytes, 2, 4), 0xb);
  uint8_t out[] = {0xff, 0xff};
  for (int i = 0; i < 3; ++i) AppendPacked(out, i, 4, static_cast<uint8_t>(0xf2 + i));
  EXPECT_EQ(out[0], 0x32);
  EXPECT_EQ(out[1], 0x04);
  for (int i = 0; i < 5; ++i) AppendPacked(out, i, 2, static_cast<uint8_t>(i));
  EXPECT_EQ(out[0], 0xe4);
  EXPECT_EQ(out[1], 0x00);
  uint8_t wide[] = {0xff, 0xff, 0xff, 0xff};  // 6-bit elements cross bytes
  for (int i = 0; i < 5; ++i) AppendPacked(wide, i, 6, static_cast<uint8_t>(0x21 + i));
  EXPECT_THAT(wide, testing::ElementsAre(0xa1, 0x38, 0x92, 0x25));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(LoadPacked(wide, i, 6), 0x21 + i);
  for (int i : {1, 2}) StorePacked(wide, i, 6, static_cast<uint8_t>(0xc0 + 3 * i));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(LoadPacked(wide, i, 6), i == 1 || i == 2 ? 3 * i : 0x21 + i);
  EXPECT_EQ(SignExtend(0xf8, 4), -8);
  EXPECT_EQ(SignExtend(0x01, 2), 1);
  EXPECT_EQ(SignExtend(0x03, 2), -1);
  EXPECT_EQ(PackedBits(DType::kI4), 4);
  EXPECT_EQ(PackedBits(DType::kF4E2M1), 4);
  EXPECT_EQ(PackedBits(DType::kU2), 2);
  EXPECT_EQ(PackedBits(DType::kF6E2M3), 6);
  EXPECT_EQ(PackedBits(DType::kF8E5M2), 0);
  EXPECT_EQ(PackedBits(DType::kQ4_0), 0);
}

}  // namespace
}  // namespace quern
