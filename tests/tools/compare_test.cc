// What counts as equal in quern verify.
#include "compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "number.h"

namespace quern_tool {
namespace {

using quern::Value;
using testing::HasSubstr;

Value F(std::vector<float> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return Value::Tensor<float>({n}, v);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Compare, AllowsAtolPlusRtolPlusMaxRel) {
  const Tolerance none{0, 0, 0};
  EXPECT_TRUE(Compare(F({1, 2}), F({1, 2}), none, "y").equal);
  const Difference d = Compare(F({1, 2.5f}), F({1, 2}), none, "y");
  EXPECT_FALSE(d.equal);
  EXPECT_DOUBLE_EQ(d.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(d.max_rel, 0.25);
  EXPECT_EQ(d.what, "y[1] is 2.5, expected 2");
  EXPECT_TRUE(Compare(F({1, 2.5f}), F({1, 2}), {0.5, 0, 0}, "y").equal);
  EXPECT_FALSE(Compare(F({1, 2.5f}), F({1, 2}), {0.49, 0, 0}, "y").equal);
  EXPECT_TRUE(Compare(F({1, 2.5f}), F({1, 2}), {0, 0.25, 0}, "y").equal);
  EXPECT_FALSE(Compare(F({1.5f, 2}), F({1, 2}), {0, 0.25, 0}, "y").equal);
  EXPECT_TRUE(Compare(F({1.5f, 2}), F({1, 2}), {0, 0, 0.25}, "y").equal);
}

TEST(Compare, NanEqualsNanAndInfinityItself) {
  const Tolerance loose{1e30, 1e30, 1};
  EXPECT_TRUE(Compare(F({kNan, kInf}), F({kNan, kInf}), {0, 0, 0}, "y").equal);
  EXPECT_FALSE(Compare(F({1}), F({kNan}), loose, "y").equal);
  EXPECT_FALSE(Compare(F({kNan}), F({1}), loose, "y").equal);
  EXPECT_FALSE(Compare(F({kInf}), F({-kInf}), loose, "y").equal);
  EXPECT_FALSE(Compare(F({3e38f}), F({kInf}), loose, "y").equal);
  EXPECT_TRUE(std::isinf(Compare(F({1}), F({kNan}), loose, "y").max_abs));
}

TEST(Compare, TypesShapesAndKindsMustAgree) {
  EXPECT_THAT(Compare(F({1, 2}), Value::Tensor<float>({1, 2}, {1, 2}), {}, "y").what, HasSubstr("expected a f32[1,2]"));
  EXPECT_THAT(Compare(Value::Tensor<double>({1}, {1}), F({1}), {}, "y").what, HasSubstr("f64[1]"));
  EXPECT_THAT(Compare(Value::Sequence({F({1})}), F({1}), {}, "y").what, HasSubstr("is a sequence"));
  EXPECT_TRUE(Compare(Value::Optional(F({1})), F({1}), {}, "y").equal);
}

TEST(Compare, LargeIntegersAreExact) {
  const std::int64_t big = (std::int64_t{1} << 62) + 1;
  EXPECT_TRUE(
      Compare(Value::Tensor<std::int64_t>({1}, {big}), Value::Tensor<std::int64_t>({1}, {big}), {0, 0, 0}, "y").equal);
  const Difference d =
      Compare(Value::Tensor<std::int64_t>({1}, {big - 1}), Value::Tensor<std::int64_t>({1}, {big}), {0, 0, 0}, "y");
  EXPECT_FALSE(d.equal);
  EXPECT_EQ(d.max_abs, 1);
}

TEST(Compare, BooleansAndStringsHaveNoTolerance) {
  EXPECT_FALSE(Compare(Value::Tensor<bool>({1}, {true}), Value::Tensor<bool>({1}, {false}), {10, 10, 10}, "y").equal);
  EXPECT_TRUE(Compare(Value::Strings({1}, {"a"}), Value::Strings({1}, {"a"}), {}, "y").equal);
  EXPECT_EQ(Compare(Value::Strings({1}, {"a"}), Value::Strings({1}, {"b"}), {}, "y").what, "y[0] is 'a', expected 'b'");
}

TEST(Compare, GoesIntoSequencesAndMaps) {
  const Value a = Value::Sequence({F({1}), F({2, 3})}), b = Value::Sequence({F({1}), F({2, 4})});
  EXPECT_TRUE(Compare(a, a, {0, 0, 0}, "s").equal);
  EXPECT_EQ(Compare(a, b, {0, 0, 0}, "s").what, "s[1][1] is 3, expected 4");
  EXPECT_THAT(Compare(a, Value::Sequence({F({1})}), {}, "s").what, HasSubstr("has 2 elements, expected 1"));
  const Value m = Value::Map(Value::Strings({1}, {"k"}), {F({1})});
  EXPECT_TRUE(Compare(m, m, {0, 0, 0}, "m").equal);
  EXPECT_FALSE(Compare(m, Value::Map(Value::Strings({1}, {"j"}), {F({1})}), {9, 9, 9}, "m").equal);
}

// Every half against the definition of the format; rounding by a search over all halves.
TEST(Number, HalvesAreReadAndRoundedRight) {
  for (unsigned bits = 0; bits < 0x7C00; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double exponent = static_cast<double>(bits >> 10), mantissa = static_cast<double>(bits & 0x3FF);
    const double value =
        exponent == 0 ? mantissa * std::pow(2.0, -24) : (1 + mantissa / 1024) * std::pow(2.0, exponent - 15);
    ASSERT_EQ(static_cast<double>(LoadNumber(QUERN_F16, &half, 0)), value) << bits;
    std::uint16_t back = 0xFFFF;
    ASSERT_TRUE(StoreNumber(QUERN_F16, &back, 0, value));
    ASSERT_EQ(back, half);
    if (bits + 1 == 0x7C00) break;
    const auto next_bits = static_cast<std::uint16_t>(bits + 1);
    const double next = static_cast<double>(LoadNumber(QUERN_F16, &next_bits, 0));
    StoreNumber(QUERN_F16, &back, 0, (value + next) / 2);
    ASSERT_EQ(back, bits % 2 ? bits + 1 : bits) << "halfway goes to the even one";
    StoreNumber(QUERN_F16, &back, 0, -(value + (next - value) * 0.51));
    ASSERT_EQ(back, 0x8000 | (bits + 1));
  }
}

TEST(Number, SmallTypesAreDecoded) {
  const std::uint8_t e4m3[] = {0x38, 0x7E, 0xFF, 0x01};
  EXPECT_EQ(LoadNumber(QUERN_F8E4M3FN, e4m3, 0), 1);
  EXPECT_EQ(LoadNumber(QUERN_F8E4M3FN, e4m3, 1), 448);
  EXPECT_TRUE(std::isnan(LoadNumber(QUERN_F8E4M3FN, e4m3, 2)));
  EXPECT_EQ(static_cast<double>(LoadNumber(QUERN_F8E4M3FN, e4m3, 3)), std::pow(2.0, -9));
  const std::uint8_t e5m2[] = {0x7B, 0xFC};
  EXPECT_EQ(LoadNumber(QUERN_F8E5M2, e5m2, 0), 57344);
  EXPECT_TRUE(std::isinf(LoadNumber(QUERN_F8E5M2, e5m2, 1)));
  const std::uint8_t nibbles[] = {0xF8, 0x17};
  EXPECT_EQ(LoadNumber(QUERN_I4, nibbles, 0), -8);
  EXPECT_EQ(LoadNumber(QUERN_I4, nibbles, 1), -1);
  EXPECT_EQ(LoadNumber(QUERN_U4, nibbles, 2), 7);
  EXPECT_EQ(LoadNumber(QUERN_F4E2M1, nibbles, 2), 6);
  const std::uint8_t sixes[] = {0xC1, 0xFF, 0x7F};  // codes 01, 3f, 3f, 1f
  EXPECT_EQ(LoadNumber(QUERN_F6E2M3, sixes, 0), 0.125);
  EXPECT_EQ(LoadNumber(QUERN_F6E2M3, sixes, 1), -7.5);
  EXPECT_EQ(LoadNumber(QUERN_F6E3M2, sixes, 2), -28);
  EXPECT_EQ(LoadNumber(QUERN_F6E3M2, sixes, 3), 28);
  const std::uint16_t bf16 = 0xC049;
  EXPECT_EQ(LoadNumber(QUERN_BF16, &bf16, 0), -3.140625);
}

}  // namespace
}  // namespace quern_tool
