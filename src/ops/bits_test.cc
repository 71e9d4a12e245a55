// Operators on the bits of integers, and BitCast.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
std::vector<T> Shift(const std::string& direction, std::vector<T> x, std::vector<T> by, int opset = 28) {
  const Shape shape{static_cast<int64_t>(x.size())}, by_shape{static_cast<int64_t>(by.size())};
  OpTester t("BitShift", opset);
  return t.Input(shape, x).Input(by_shape, by).Attr("direction", direction).template Values<T>();
}

TEST(BitShift, MovesUnsignedIntegers) {
  EXPECT_THAT(Shift<uint8_t>("RIGHT", {16, 4, 1, 255}, {1, 2, 3, 7}, 11), ElementsAre(8, 1, 0, 1));
  EXPECT_THAT(Shift<uint8_t>("LEFT", {16, 4, 1, 255}, {1, 2, 3, 7}, 11), ElementsAre(32, 16, 8, 128));
  EXPECT_THAT(Shift<uint16_t>("LEFT", {0xffff}, {15}, 11), ElementsAre(0x8000));
  EXPECT_THAT(Shift<uint32_t>("RIGHT", {0x80000000u}, {31}, 11), ElementsAre(1u));
  EXPECT_THAT(Shift<uint64_t>("LEFT", {1, 1, 3}, {63}, 11),
              ElementsAre(uint64_t{1} << 63, uint64_t{1} << 63, uint64_t{1} << 63));
}

TEST(BitShift, LeavesNothingBeyondTheWidth) {
  EXPECT_THAT(Shift<uint8_t>("LEFT", {1, 1, 1}, {7, 8, 255}, 11), ElementsAre(128, 0, 0));
  EXPECT_THAT(Shift<uint64_t>("RIGHT", {~uint64_t{0}, 5}, {64, ~uint64_t{0}}, 11), ElementsAre(0u, 0u));
}

TEST(BitShift, FillsSignedIntegersWithTheSign) {
  EXPECT_THAT(Shift<int8_t>("RIGHT", {-8, -1, -128, 64}, {1}), ElementsAre(-4, -1, -64, 32));
  EXPECT_THAT(Shift<int8_t>("LEFT", {64, 1, -64}, {1, 7, 1}), ElementsAre(-128, -128, -128));
  EXPECT_THAT(Shift<int8_t>("RIGHT", {-8, 4, -1, -8}, {8, 9, 127, -1}), ElementsAre(-1, 0, -1, -1));
  EXPECT_THAT(Shift<int64_t>("LEFT", {-8, 4, -1}, {64, -1, std::numeric_limits<int64_t>::min()}), ElementsAre(0, 0, 0));
  EXPECT_THAT(Shift<int32_t>("RIGHT", {std::numeric_limits<int32_t>::min()}, {31}), ElementsAre(-1));
}

TEST(BitShift, NamesWhatIsWrong) {
  OpTester direction("BitShift", 11);
  direction.Input<uint8_t>({1}, {1}).Input<uint8_t>({1}, {1}).Attr("direction", std::string("UP"));
  EXPECT_THAT(direction.Error(), HasSubstr("direction 'UP' is neither LEFT nor RIGHT"));
  OpTester sign("BitShift", 27);
  sign.Input<int8_t>({1}, {1}).Input<int8_t>({1}, {1}).Attr("direction", std::string("LEFT"));
  EXPECT_THAT(sign.Error(), HasSubstr("i8"));
}

TEST(Bitwise, CombinesBitByBit) {
  const std::vector<uint8_t> a = {0b1100, 0xff}, b = {0b1010, 0x0f};
  const auto run = [&](const char* op) {
    OpTester t(op, 18);
    return t.Input(Shape{2}, a).Input(Shape{2}, b).Values<uint8_t>();
  };
  EXPECT_THAT(run("BitwiseAnd"), ElementsAre(0b1000, 0x0f));
  EXPECT_THAT(run("BitwiseOr"), ElementsAre(0b1110, 0xff));
  EXPECT_THAT(run("BitwiseXor"), ElementsAre(0b0110, 0xf0));
  OpTester inverse("BitwiseNot", 18), wide("BitwiseNot", 18), broadcast("BitwiseOr", 18);
  EXPECT_THAT(inverse.Input(Shape{2}, a).Values<uint8_t>(), ElementsAre(0xf3, 0));
  EXPECT_THAT(wide.Input<int64_t>({2}, {0, -5}).Values<int64_t>(), ElementsAre(-1, 4));
  broadcast.Input<int16_t>({2, 1}, {1, -32768}).Input<int16_t>({2}, {2, 4});
  EXPECT_THAT(broadcast.Values<int16_t>(), ElementsAre(3, 5, -32766, -32764));
}

TEST(BitCast, KeepsTheBits) {
  OpTester numbers("BitCast", 26), floats("BitCast", 26), halves("BitCast", 26);
  numbers.Input<float>({3}, {1.0f, -2.5f, -0.0f}).Attr("to", int64_t{6});
  EXPECT_THAT(numbers.Values<int32_t>(),
              ElementsAre(0x3f800000, static_cast<int32_t>(0xc0200000u), std::numeric_limits<int32_t>::min()));
  floats.Input<uint64_t>({1}, {0x7ff0000000000000u}).Attr("to", int64_t{11});
  EXPECT_THAT(floats.Values<double>(), ElementsAre(std::numeric_limits<double>::infinity()));
  halves.Input<int16_t>({}, {0x3c00}).Attr("to", int64_t{10});
  EXPECT_EQ(static_cast<float>(halves.Values<Float16>().at(0)), 1.0f);
  OpTester bools("BitCast", 26);
  EXPECT_THAT(bools.Input<int8_t>({3}, {0, 1, -2}).Attr("to", int64_t{9}).Values<bool>(),
              ElementsAre(false, true, true));
}

TEST(BitCast, KeepsPackedElements) {
  const Tensor x = Tensor::Allocate(DType::kU4, {3}).value();
  auto* bytes = static_cast<uint8_t*>(x.raw_data());
  bytes[0] = 0xf1;
  bytes[1] = 0x07;
  OpTester t("BitCast", 26);
  const auto result = t.Input(x).Attr("to", int64_t{22}).Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Tensor& y = (*result)[0].tensor();
  EXPECT_EQ(y.dtype(), DType::kI4);
  EXPECT_EQ(y.shape(), Shape{3});
  EXPECT_EQ(static_cast<uint8_t*>(y.raw_data())[0], 0xf1);
}

TEST(BitCast, RefusesOtherWidths) {
  OpTester width("BitCast", 26), strings("BitCast", 26), none("BitCast", 26);
  EXPECT_THAT(width.Input<float>({1}, {1}).Attr("to", int64_t{7}).Error(), HasSubstr("have 32 bits but those of i64"));
  EXPECT_THAT(strings.Input<float>({1}, {1}).Attr("to", int64_t{8}).Error(), HasSubstr("'to' is 8"));
  EXPECT_THAT(none.Input<float>({1}, {1}).Attr("to", int64_t{99}).Error(), HasSubstr("'to' is 99"));
}

}  // namespace
}  // namespace quern
