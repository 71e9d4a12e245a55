// Cast, CastLike, QuantizeLinear and DequantizeLinear of the 8-, 4- and 2-bit types; expected values by hand, from the
// tables of the specification or from ldexp.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;
using Bytes = std::vector<uint8_t>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

constexpr DType kFloat8[] = {DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ};

int64_t Number(DType t) { return static_cast<int64_t>(t); }

Tensor FromBytes(DType dtype, const Shape& shape, const Bytes& bytes) {
  const Tensor t = Tensor::Allocate(dtype, shape).value();
  EXPECT_EQ(t.bytes(), bytes.size());
  std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(t.raw_data()));
  return t;
}
// The bytes of output 0.
Bytes BytesOf(OpTester& tester) {
  const Result<std::vector<Value>> outputs = tester.Run();
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  if (!outputs.ok()) return {};
  const Tensor& t = (*outputs)[0].tensor();
  const auto* bytes = static_cast<const uint8_t*>(t.raw_data());
  return {bytes, bytes + t.bytes()};
}

Bytes CastBytes(const Value& x, DType to, int opset = 28, int64_t saturate = 1) {
  OpTester tester("Cast", opset);
  tester.Input(x).Attr("to", Number(to));
  if (opset >= 19) tester.Attr("saturate", saturate);
  return BytesOf(tester);
}
Bytes CastBytes(const F& x, DType to, int opset = 28, int64_t saturate = 1) {
  return CastBytes(Tensor::FromValues<float>({static_cast<int64_t>(x.size())}, x), to, opset, saturate);
}
F CastFloats(const Value& x) { return OpTester("Cast", 28).Input(x).Attr("to", Number(DType::kF32)).Values<float>(); }

TEST(Cast, OneStaysOneBetweenAllTypes) {
  const TypeSet plain = kNumericTypes | TypeSet{DType::kBool, DType::kString};
  int types = 0;
  for (int from = 1; IsOnnxType(from); ++from) {
    if (from == Number(DType::kC64) || from == Number(DType::kC128)) continue;
    ++types;
    const Tensor ones = Tensor::FromValues<float>({3}, F{1, 1, 1});
    const auto made = OpTester("Cast", 28).Input(ones).Attr("to", int64_t{from}).Run();
    ASSERT_TRUE(made.ok()) << made.status().message();
    for (int to = 1; IsOnnxType(to); ++to) {
      const DType target = static_cast<DType>(to);
      OpTester tester("Cast", 28);
      tester.Input((*made)[0]).Attr("to", int64_t{to});
      if (target == DType::kC64 || target == DType::kC128) {
        EXPECT_THAT(tester.Error(), HasSubstr("converts to"));
        continue;
      }
      const auto there = tester.Run();
      ASSERT_TRUE(there.ok()) << from << " to " << to << ": " << there.status().message();
      EXPECT_EQ(CastFloats((*there)[0]), (F{1, 1, 1})) << from << " to " << to;
      if (plain.Has(target)) continue;
      // Packed elements fill bytes from the low end, and what is left of the last byte is 0.
      Bytes want;
      switch (target) {
        case DType::kU2:
        case DType::kI2:
          want = {0x15};
          break;
        case DType::kU4:
        case DType::kI4:
          want = {0x11, 0x01};
          break;
        case DType::kF4E2M1:
          want = {0x22, 0x02};
          break;
        case DType::kF6E2M3:
          want = {0x08, 0x82, 0x00};
          break;
        case DType::kF6E3M2:
          want = {0x0c, 0xc3, 0x00};
          break;
        case DType::kF8E4M3FN:
          want = {0x38, 0x38, 0x38};
          break;
        case DType::kF8E5M2:
          want = {0x3c, 0x3c, 0x3c};
          break;
        case DType::kF8E8M0:
          want = {0x7f, 0x7f, 0x7f};
          break;
        default:
          want = {0x40, 0x40, 0x40};  // "uz" types: one exponent lower
      }
      EXPECT_EQ(CastBytes((*made)[0], target), want) << from << " to " << to;
    }
  }
  EXPECT_EQ(types, 26);
}

TEST(Cast, Float8FollowsTheTableOfItsOperatorSet) {
  const F x = {0, -0.0f, kInf, -kInf, 1e6f, -1e6f, 0.49968487f};
  EXPECT_EQ(CastBytes(x, kFloat8[0], 19), (Bytes{0x00, 0x80, 0x7e, 0xfe, 0x7e, 0xfe, 0x30}));
  EXPECT_EQ(CastBytes(x, kFloat8[1], 19), (Bytes{0x00, 0x00, 0x80, 0x80, 0x7f, 0xff, 0x38}));
  EXPECT_EQ(CastBytes(x, kFloat8[2], 21), (Bytes{0x00, 0x80, 0x7b, 0xfb, 0x7b, 0xfb, 0x38}));
  EXPECT_EQ(CastBytes(x, kFloat8[3], 23), (Bytes{0x00, 0x00, 0x80, 0x80, 0x7f, 0xff, 0x3c}));
  EXPECT_EQ(CastBytes(x, kFloat8[0]), (Bytes{0x00, 0x80, 0x7e, 0xfe, 0x7e, 0xfe, 0x30}));
  EXPECT_EQ(CastBytes(x, kFloat8[1]), (Bytes{0x00, 0x00, 0x7f, 0xff, 0x7f, 0xff, 0x38}));
  EXPECT_EQ(CastBytes(x, kFloat8[2]), (Bytes{0x00, 0x80, 0x7b, 0xfb, 0x7b, 0xfb, 0x38}));
  EXPECT_EQ(CastBytes(x, kFloat8[3]), (Bytes{0x00, 0x00, 0x7f, 0xff, 0x7f, 0xff, 0x3c}));
  for (const int opset : {19, 25}) {
    EXPECT_EQ(CastBytes(x, kFloat8[0], opset, 0), (Bytes{0x00, 0x80, 0x7f, 0xff, 0x7f, 0xff, 0x30}));
    EXPECT_EQ(CastBytes(x, kFloat8[1], opset, 0), (Bytes{0x00, 0x00, 0x80, 0x80, 0x80, 0x80, 0x38}));
    EXPECT_EQ(CastBytes(x, kFloat8[2], opset, 0), (Bytes{0x00, 0x80, 0x7c, 0xfc, 0x7c, 0xfc, 0x38}));
    EXPECT_EQ(CastBytes(x, kFloat8[3], opset, 0), (Bytes{0x00, 0x00, 0x80, 0x80, 0x80, 0x80, 0x3c}));
  }
  // A double beyond the range of float32 is a finite number all the same.
  EXPECT_EQ(CastBytes(Tensor::FromValues<double>({2}, std::vector<double>{1e300, -1e300}), kFloat8[1], 19),
            (Bytes{0x7f, 0xff}));
  for (const DType t : kFloat8) {
    const F back = CastFloats(FromBytes(t, {1},
                                        {t == kFloat8[0]   ? uint8_t{0x7f}
                                         : t == kFloat8[2] ? uint8_t{0x7e}
                                                           : uint8_t{0x80}}));
    ASSERT_EQ(back.size(), 1u);
    EXPECT_TRUE(std::isnan(back[0])) << DTypeName(t);
  }
}

// Numbers just above the middle of two neighbours, by less than a float32 shows.
TEST(Cast, RoundsOnce) {
  EXPECT_EQ(CastBytes(Tensor::Scalar(1 + 0x1p-4), kFloat8[0]), (Bytes{0x38}));  // the middle: to the even one
  EXPECT_EQ(CastBytes(Tensor::Scalar(1 + 0x1p-4 + 0x1p-40), kFloat8[0]), (Bytes{0x39}));
  EXPECT_EQ(CastBytes(Tensor::Scalar(2.5), DType::kF4E2M1), (Bytes{0x04}));
  EXPECT_EQ(CastBytes(Tensor::Scalar(2.5 + 0x1p-40), DType::kF4E2M1), (Bytes{0x05}));
  const int64_t middle = (int64_t{1} << 60) + (int64_t{1} << 52);
  EXPECT_EQ(CastBytes(Tensor::Scalar(middle), DType::kBF16), (Bytes{0x80, 0x5d}));
  EXPECT_EQ(CastBytes(Tensor::Scalar(middle + 1), DType::kBF16), (Bytes{0x81, 0x5d}));
  EXPECT_EQ(CastBytes(Tensor::Scalar(-middle - 1), DType::kBF16), (Bytes{0x81, 0xdd}));
  EXPECT_EQ(CastBytes(Tensor::Scalar((int64_t{1} << 62) + 1), DType::kF8E8M0), (Bytes{127 + 63}));
}

TEST(Cast, Float4) {
  const F x = {0.48f, 0.25f, 1.05f, -3.5f, -8, 9, 1e-7f, kInf, -kInf, 5, -0.0f, 0.75f, 6.9f, 2.6f};
  const Bytes bytes = CastBytes(x, DType::kF4E2M1);
  EXPECT_EQ(CastFloats(FromBytes(DType::kF4E2M1, {14}, bytes)), (F{0.5f, 0, 1, -4, -6, 6, 0, 6, -6, 4, 0, 1, 6, 3}));
  EXPECT_EQ(bytes[4], 0x6f);  // -6 and, from 5, the even one of 4 and 6
}

TEST(Cast, Float8E8M0RoundsAsTheAttributeSays) {
  const F x = {0, 0.124f, 0.25f, 1.1f, 1.5f, 3.9f, 0x1.8p127f, 0x1p-127f};
  const auto cast = [&](const char* mode, int64_t saturate) {
    OpTester tester("Cast", 24);
    tester.Input({8}, x).Attr("to", Number(DType::kF8E8M0)).Attr("saturate", saturate);
    tester.Attr("round_mode", std::string(mode));
    return BytesOf(tester);
  };
  EXPECT_EQ(cast("up", 1), (Bytes{0, 124, 125, 128, 128, 129, 254, 0}));
  EXPECT_EQ(cast("down", 1), (Bytes{0, 123, 125, 127, 127, 128, 254, 0}));
  EXPECT_EQ(cast("nearest", 1), (Bytes{0, 124, 125, 127, 128, 129, 254, 0}));
  EXPECT_EQ(cast("nearest", 0), (Bytes{255, 124, 125, 127, 128, 129, 255, 0}));
  EXPECT_THAT(OpTester("Cast", 24)
                  .Input({1}, F{1})
                  .Attr("to", Number(DType::kF8E8M0))
                  .Attr("round_mode", std::string("sideways"))
                  .Error(),
              HasSubstr("'sideways'; 'up', 'down' and 'nearest'"));
}

TEST(Cast, SmallIntegersKeepTheLowBits) {
  const Tensor x = Tensor::FromValues<int32_t>({5}, std::vector<int32_t>{-9, 7, 8, 300, -1});
  EXPECT_EQ(CastFloats(FromBytes(DType::kI4, {5}, CastBytes(x, DType::kI4))), (F{7, 7, -8, -4, -1}));
  EXPECT_EQ(CastFloats(FromBytes(DType::kU4, {5}, CastBytes(x, DType::kU4))), (F{7, 7, 8, 12, 15}));
  EXPECT_EQ(CastFloats(FromBytes(DType::kI2, {5}, CastBytes(x, DType::kI2))), (F{-1, -1, 0, 0, -1}));
  EXPECT_EQ(CastFloats(FromBytes(DType::kU2, {5}, CastBytes(x, DType::kU2))), (F{3, 3, 0, 0, 3}));
  const F floats = {-9, 7.9f, -1.5f, 15, kNan};
  EXPECT_EQ(CastFloats(FromBytes(DType::kI4, {5}, CastBytes(floats, DType::kI4))), (F{7, 7, -1, -1, 0}));
  EXPECT_EQ(CastFloats(FromBytes(DType::kU2, {5}, CastBytes(floats, DType::kU2))), (F{3, 3, 3, 3, 0}));
  // More elements than are converted at a time.
  F many(2501);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(static_cast<int>(i % 16) - 8);
  EXPECT_EQ(CastFloats(FromBytes(DType::kI4, {2501}, CastBytes(many, DType::kI4))), many);
}

TEST(Cast, TextFromAndToSmallTypes) {
  const Value words = StringTensor{Shape{4}, {"1.0625", "-INF", "1e-3", "300"}};
  EXPECT_EQ(CastBytes(words, kFloat8[0]), (Bytes{0x38, 0xfe, 0x01, 0x79}));
  // As a float32, this is the middle of 1 and 1.125.
  EXPECT_EQ(CastBytes(StringTensor{Shape{}, {"1.0625000001"}}, kFloat8[0]), (Bytes{0x39}));
  EXPECT_EQ(CastBytes(StringTensor{Shape{3}, {"-8", "7", "2.9"}}, DType::kI4), (Bytes{0x78, 0x02}));
  const auto text =
      OpTester("Cast", 25).Input(FromBytes(kFloat8[0], {2}, {0x38, 0xff})).Attr("to", Number(DType::kString)).Run();
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_THAT((*text)[0].strings().values, ElementsAre("1", "NaN"));
  const auto nibbles =
      OpTester("Cast", 25).Input(FromBytes(DType::kI4, {3}, {0x78, 0x0f})).Attr("to", Number(DType::kString)).Run();
  ASSERT_TRUE(nibbles.ok()) << nibbles.status().message();
  EXPECT_THAT((*nibbles)[0].strings().values, ElementsAre("-8", "7", "-1"));
}

TEST(Cast, NumbersInTextBeyondTheRange) {
  const std::string zeros(400, '0');
  const StringTensor x{
      Shape{7},
      {"1e400", "-1e400", "1e-400", "-0." + zeros + "1", "1" + zeros, "0." + zeros + "1e500", "1" + zeros + "e-500"}};
  const auto y = OpTester("Cast").Input(x).Attr("to", Number(DType::kF64)).Values<double>();
  EXPECT_THAT(y, ElementsAre(HUGE_VAL, -HUGE_VAL, 0, 0, HUGE_VAL, 1e99, 1e-100));
  EXPECT_TRUE(std::signbit(y[3]));
  // Read as float32 at once: through double it would be rounded twice.
  EXPECT_EQ(OpTester("Cast")
                .Input(StringTensor{Shape{1}, {"1.00000017881393432617187499"}})
                .Attr("to", int64_t{1})
                .Values<float>(),
            (F{1.00000012f}));
  for (const char* wrong : {"", "+-5", "1 ", "0x10", "1e"}) {
    EXPECT_THAT(OpTester("Cast").Input(StringTensor{Shape{1}, {wrong}}).Attr("to", int64_t{7}).Error(),
                HasSubstr("is not a number"));
  }
}

TEST(Cast, RefusesTypesOfLaterOperatorSets) {
  const auto error = [](int opset, DType to) {
    return OpTester("Cast", opset).Input({1}, F{1}).Attr("to", Number(to)).Error();
  };
  EXPECT_THAT(error(8, DType::kString),
              HasSubstr("attribute 'to' is 8, which is no element type that Cast of operator"));
  EXPECT_THAT(error(9, DType::kBF16), HasSubstr("operator set 9"));
  EXPECT_THAT(error(13, DType::kF8E5M2), HasSubstr("operator set 13"));
  EXPECT_THAT(error(24, DType::kI2), HasSubstr("operator set 24"));
  EXPECT_THAT(OpTester("Cast", 25).Input({1}, F{1}).Attr("to", int64_t{257}).Error(), HasSubstr("'to' is 257"));
}

TEST(CastLike, TakesTypeAndRulesOfItsOperatorSet) {
  OpTester saturated("CastLike", 19), plain("CastLike", 25), down("CastLike", 24);
  saturated.Input({2}, F{kInf, 300}).Input(FromBytes(kFloat8[3], {1}, {0}));
  EXPECT_EQ(BytesOf(saturated), (Bytes{0x80, 0x61}));
  plain.Input({2}, F{1e9f, -1e9f}).Input(FromBytes(kFloat8[2], {1}, {0})).Attr("saturate", int64_t{0});
  EXPECT_EQ(BytesOf(plain), (Bytes{0x7c, 0xfc}));
  down.Input({2}, F{1.9f, 4}).Input(FromBytes(DType::kF8E8M0, {1}, {0})).Attr("round_mode", std::string("down"));
  EXPECT_EQ(BytesOf(down), (Bytes{127, 129}));
  OpTester bits("CastLike", 25);
  bits.Input({4}, F{-2, 1, -1, 0}).Input(FromBytes(DType::kI2, {2}, {0}));
  EXPECT_EQ(BytesOf(bits), (Bytes{0x36}));
}

TEST(QuantizeLinear, ToFloat8AndFloat4) {
  const F x = {0, 1, 2, 1e5f, 200};
  OpTester e4("QuantizeLinear", 19), e5("QuantizeLinear", 21), open("QuantizeLinear", 19);
  e4.Input({5}, x).Input(Shape{}, F{2}).Input(FromBytes(kFloat8[0], {1}, {0}));
  EXPECT_EQ(BytesOf(e4), (Bytes{0x00, 0x30, 0x38, 0x7e, 0x6c}));  // 0 0.5 1 448 96
  e5.Input({5}, x).Input(Shape{}, F{2}).Input(FromBytes(kFloat8[2], {1}, {0}));
  EXPECT_EQ(BytesOf(e5), (Bytes{0x00, 0x38, 0x3c, 0x7a, 0x56}));  // 0 0.5 1 49152 96
  open.Input({5}, x).Input(Shape{}, F{2}).Input(FromBytes(kFloat8[0], {}, {0})).Attr("saturate", int64_t{0});
  EXPECT_EQ(BytesOf(open), (Bytes{0x00, 0x30, 0x38, 0x7f, 0x6c}));
  // Per axis, and a zero point that is none.
  OpTester e2("QuantizeLinear", 23);
  e2.Input({2, 2}, F{0, 5, -30, 9}).Input({2}, F{2, 3}).Input(FromBytes(DType::kF4E2M1, {2}, {0x20}));
  e2.Attr("axis", int64_t{0});
  EXPECT_EQ(BytesOf(e2), (Bytes{0x40, 0x6f}));  // 0/2, 5/2 and -30/3 + 1, 9/3 + 1
}

TEST(QuantizeLinear, ToFloat6) {
  OpTester to("QuantizeLinear", 28), from("DequantizeLinear", 28), early("QuantizeLinear", 25);
  to.Input({4}, F{0, 1, -30, 9}).Input({}, F{2}).Input(FromBytes(DType::kF6E2M3, {}, {0}));
  const Bytes codes = {0x00, 0xf1, 0x67};  // 0 0.5 -7.5 4.5
  EXPECT_EQ(BytesOf(to), codes);
  from.Input(FromBytes(DType::kF6E2M3, {4}, codes)).Input({}, F{2});
  EXPECT_EQ(from.Values<float>(), (F{0, 1, -15, 9}));
  early.Input({1}, F{1}).Input({}, F{2}).Attr("output_dtype", Number(DType::kF6E3M2));
  EXPECT_THAT(early.Error(), HasSubstr("cannot be of type f6e3m2 in operator set 25"));
}

TEST(QuantizeLinear, ToPackedIntegersInBlocks) {
  OpTester blocks("QuantizeLinear", 25);
  blocks.Input({2, 3}, F{6, 12, 50, 1, -8, 4}).Input({2, 2}, F{1.5f, 10, 1, 4}).Attr("block_size", int64_t{2});
  blocks.Attr("output_dtype", Number(DType::kI4));
  EXPECT_EQ(BytesOf(blocks), (Bytes{0x74, 0x15, 0x18}));  // 4 8->7 5, 1 -8 1
  OpTester twos("QuantizeLinear", 25);
  twos.Input({5}, F{-4, 0, 1, 2.5f, 9}).Input({}, F{1}).Input(FromBytes(DType::kU2, {}, {1}));
  EXPECT_EQ(BytesOf(twos), (Bytes{0xe4 & 0x3f | 0xc0, 0x03}));  // 0 1 2 3, 3
  OpTester wide("QuantizeLinear", 21);
  wide.Input({3}, F{-70000, 3, 70000}).Input({}, F{2});
  wide.Input(Tensor::Scalar<uint16_t>(32767));
  EXPECT_EQ(wide.Values<uint16_t>(), (std::vector<uint16_t>{0, 32769, 65535}));
}

TEST(QuantizeLinear, DividesInThePrecisionOfTheScale) {
  const Float16 tenth(0.1f);  // 0.0999755859375
  const auto run = [&](int64_t precision) {
    OpTester q("QuantizeLinear", 23);
    q.Input({1}, F{1000}).Input({}, std::vector<Float16>{tenth}).Attr("output_dtype", Number(DType::kI16));
    return q.Attr("precision", precision).Values<int16_t>();
  };
  EXPECT_EQ(run(0), (std::vector<int16_t>{10000}));  // float16 numbers are 8 apart there
  EXPECT_EQ(run(Number(DType::kF32)), (std::vector<int16_t>{10002}));
  OpTester powers("QuantizeLinear", 24);
  powers.Input({3}, F{3, 5, -9}).Input(FromBytes(DType::kF8E8M0, {}, {128}));
  EXPECT_EQ(powers.Values<uint8_t>(), (std::vector<uint8_t>{2, 2, 0}));  // 1.5 and 2.5 to even
  OpTester integers("QuantizeLinear", 21);
  integers.Input({3}, std::vector<int32_t>{2147483647, -7, 5}).Input({}, std::vector<int32_t>{2});
  integers.Attr("output_dtype", Number(DType::kI8));
  EXPECT_EQ(integers.Values<int8_t>(), (std::vector<int8_t>{127, -4, 2}));
}

TEST(QuantizeLinear, ChecksItsAttributes) {
  const auto with = [](const char* name, int64_t value) {
    OpTester q("QuantizeLinear", 23);
    return q.Input({2}, F{1, 2}).Input({}, F{1}).Input({}, std::vector<int8_t>{0}).Attr(name, value).Error();
  };
  EXPECT_THAT(with("output_dtype", Number(DType::kU8)), HasSubstr("says u8 but the zero point is of type i8"));
  EXPECT_THAT(with("output_dtype", 99), HasSubstr("'output_dtype' is 99"));
  EXPECT_THAT(with("precision", Number(DType::kI32)), HasSubstr("'precision' says i32, a float type is needed"));
  OpTester later("QuantizeLinear", 23);
  later.Input({2}, F{1, 2}).Input({}, F{1}).Attr("output_dtype", Number(DType::kI2));
  EXPECT_THAT(later.Error(), HasSubstr("the output cannot be of type i2 in operator set 23"));
  OpTester block("QuantizeLinear", 23);
  block.Input({2, 2}, F{1, 2, 3, 4}).Input({2, 1}, F{1, 1}).Attr("block_size", int64_t{-2});
  EXPECT_THAT(block.Error(), HasSubstr("'block_size' is -2"));
}

TEST(DequantizeLinear, OfSmallTypes) {
  OpTester e4("DequantizeLinear", 19), e2("DequantizeLinear", 23), i2("DequantizeLinear", 25),
      u4("DequantizeLinear", 21);
  e4.Input(FromBytes(kFloat8[0], {4}, {0x00, 0x30, 0x7e, 0xed})).Input({}, F{2});
  EXPECT_EQ(e4.Values<float>(), (F{0, 1, 896, -208}));
  e2.Input(FromBytes(DType::kF4E2M1, {5}, {0x20, 0x3a, 0x0e}))
      .Input({}, F{2})
      .Input(FromBytes(DType::kF4E2M1, {}, {1}));
  EXPECT_EQ(e2.Values<float>(), (F{-1, 1, -3, 2, -9}));  // 0 1 -1 1.5 -4, less 0.5
  i2.Input(FromBytes(DType::kI2, {4}, {0xb4})).Input({}, F{2}).Input(FromBytes(DType::kI2, {}, {1}));
  EXPECT_EQ(i2.Values<float>(), (F{-2, 0, -4, -6}));  // 0 1 -1 -2, less 1
  u4.Input(FromBytes(DType::kU4, {2, 3}, {0x10, 0xf7, 0x98}))
      .Input({2, 2}, F{1, 2, 4, 8})
      .Attr("block_size", int64_t{2});
  EXPECT_EQ(u4.Values<float>(), (F{0, 1, 14, 60, 32, 72}));
}

TEST(DequantizeLinear, OutputType) {
  OpTester half("DequantizeLinear", 24), missing("DequantizeLinear", 24), wrong("DequantizeLinear", 24);
  half.Input({2}, std::vector<int8_t>{3, -5}).Input(FromBytes(DType::kF8E8M0, {}, {126}));
  half.Attr("output_dtype", Number(DType::kF16));
  const std::vector<Float16> y = half.Values<Float16>();
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(static_cast<float>(y[0]), 1.5f);
  EXPECT_EQ(static_cast<float>(y[1]), -2.5f);
  missing.Input({2}, std::vector<int8_t>{3, -5}).Input(FromBytes(DType::kF8E8M0, {}, {126}));
  EXPECT_THAT(missing.Error(), HasSubstr("need the attribute 'output_dtype'"));
  wrong.Input({2}, std::vector<int8_t>{3, -5}).Input({}, F{1}).Attr("output_dtype", Number(DType::kF64));
  EXPECT_THAT(wrong.Error(), HasSubstr("the output cannot be of type f64 in operator set 24"));
}

TEST(IsNaN, OfFloat8) {
  const auto bools = [](const char* op, DType t, const Bytes& bytes) {
    OpTester tester(op, 20);
    return BytesOf(tester.Input(FromBytes(t, {static_cast<int64_t>(bytes.size())}, bytes)));
  };
  EXPECT_EQ(bools("IsNaN", kFloat8[0], {0x7e, 0x7f, 0xff, 0x80}), (Bytes{0, 1, 1, 0}));
  EXPECT_EQ(bools("IsNaN", kFloat8[3], {0x7f, 0x80}), (Bytes{0, 1}));
  EXPECT_EQ(bools("IsInf", kFloat8[2], {0x7b, 0x7c, 0xfc, 0x7d}), (Bytes{0, 1, 1, 0}));
  EXPECT_EQ(bools("IsInf", kFloat8[1], {0x7f, 0x80}), (Bytes{0, 0}));
}

TEST(QLinearMatMul, OfFloat8WithParametersForEachLine) {
  OpTester t("QLinearMatMul", 21);
  t.Input(FromBytes(kFloat8[0], {2, 2}, {0x38, 0x40, 0x44, 0x48}))  // 1 2 / 3 4
      .Input({2}, F{1, 2})
      .Input(FromBytes(kFloat8[0], {1}, {0}))
      .Input({2, 2}, std::vector<int8_t>{1, 3, 0, 2})
      .Input({}, F{0.5f})
      .Input({2}, std::vector<int8_t>{0, 1})
      .Input({}, F{1})
      .Input(FromBytes(kFloat8[2], {}, {0}));
  EXPECT_EQ(BytesOf(t), (Bytes{0x38, 0x40, 0x42, 0x49}));  // 0.5 2 / 3 10
}

}  // namespace
}  // namespace quern
