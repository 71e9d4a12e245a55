// Comparisons, selections, conversions and Resize; expected values from the specification or by hand.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using I = std::vector<int64_t>;
using F = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor Bools(const Shape& shape, const std::vector<int>& values) {
  const Tensor t = Tensor::Allocate(DType::kBool, shape).value();
  for (size_t i = 0; i < values.size(); ++i) t.data<bool>()[i] = values[i] != 0;
  return t;
}
std::vector<int> BoolsOf(OpTester& t) {
  const auto v = t.Values<bool>();
  return {v.begin(), v.end()};
}

TEST(Compare, WithNanAndBroadcast) {
  const F a = {1, 2, kNan}, b = {2};
  struct Case {
    const char* op;
    std::vector<int> expected;
  };
  for (const Case& c : {Case{"Equal", {0, 1, 0}}, Case{"Less", {1, 0, 0}}, Case{"Greater", {0, 0, 0}},
                        Case{"LessOrEqual", {1, 1, 0}}, Case{"GreaterOrEqual", {0, 1, 0}}}) {
    OpTester t(c.op);
    EXPECT_EQ(BoolsOf(t.Input(Shape{3}, a).Input(Shape{1}, b)), c.expected) << c.op;
  }
  OpTester old("Greater", 6);  // b stands at axis 0 of a
  old.Input(Shape{2, 2}, F{1, 2, 3, 4}).Input(Shape{2}, F{1, 3}).Attr("broadcast", int64_t{1}).Attr("axis", int64_t{0});
  EXPECT_EQ(BoolsOf(old), (std::vector<int>{0, 1, 0, 1}));
  OpTester words("Equal");
  words.Input(StringTensor{Shape{2}, {"a", "b"}}).Input(StringTensor{Shape{}, {"b"}});
  EXPECT_EQ(BoolsOf(words), (std::vector<int>{0, 1}));
  EXPECT_THAT(OpTester("Less").Input(Shape{2}, F{1, 2}).Input(Shape{3}, F{1, 2, 3}).Error(),
              HasSubstr("do not broadcast"));
  EXPECT_THAT(OpTester("Less").Input(Shape{1}, F{1}).Input(Shape{1}, I{1}).Error(), HasSubstr("both must be the same"));
}

TEST(Logic, TruthTables) {
  const Tensor a = Bools({4}, {0, 0, 1, 1}), b = Bools({4}, {0, 1, 0, 1});
  OpTester both("And"), any("Or"), one("Xor"), inverse("Not");
  EXPECT_EQ(BoolsOf(both.Input(a).Input(b)), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(BoolsOf(any.Input(a).Input(b)), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(BoolsOf(one.Input(a).Input(b)), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(BoolsOf(inverse.Input(a)), (std::vector<int>{1, 1, 0, 0}));
  OpTester nan("IsNaN"), inf("IsInf"), positive("IsInf");
  EXPECT_EQ(BoolsOf(nan.Input(Shape{3}, F{1, kNan, kInf})), (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(BoolsOf(inf.Input(Shape{3}, F{1, -kInf, kInf})), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(BoolsOf(positive.Input(Shape{3}, F{kNan, -kInf, kInf}).Attr("detect_negative", int64_t{0})),
            (std::vector<int>{0, 0, 1}));
}

TEST(Where, BroadcastsAllThree) {
  OpTester t("Where");
  t.Input(Bools({2, 1}, {1, 0})).Input(Shape{2}, F{1, 2}).Input(Shape{}, F{9});
  EXPECT_EQ(t.Values<float>(), (F{1, 2, 9, 9}));
}

TEST(TopK, OrdersWithTiesAndNan) {
  const F x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(OpTester("TopK").Input(Shape{3, 4}, x).Input(Shape{1}, I{3}).Outputs(2).Values<float>(),
            (F{3, 2, 1, 7, 6, 5, 11, 10, 9}));
  EXPECT_EQ(OpTester("TopK").Input(Shape{5}, F{1, 3, 3, kNan, 0}).Input(Shape{1}, I{3}).Outputs(2).Values<int64_t>(1),
            (I{3, 1, 2}));
  EXPECT_EQ(OpTester("TopK")
                .Input(Shape{2, 2}, F{1, 4, 3, 2})
                .Input(Shape{1}, I{1})
                .Outputs(2)
                .Attr("axis", int64_t{0})
                .Attr("largest", int64_t{0})
                .Values<float>(),
            (F{1, 2}));
  EXPECT_EQ(OpTester("TopK", 9).Input(Shape{3}, F{1, 3, 2}).Attr("k", int64_t{1}).Outputs(2).Values<int64_t>(1),
            (I{1}));
  EXPECT_THAT(OpTester("TopK").Input(Shape{2}, F{1, 2}).Input(Shape{1}, I{3}).Outputs(2).Error(), HasSubstr("k is 3"));
}

TEST(ArgMax, FirstLastAndNan) {
  const F x = {2, 2, 3, 10};
  EXPECT_EQ(OpTester("ArgMax").Input(Shape{2, 2}, x).Attr("axis", int64_t{1}).Values<int64_t>(), (I{0, 1}));
  EXPECT_EQ(OpTester("ArgMax")
                .Input(Shape{2, 2}, x)
                .Attr("axis", int64_t{-1})
                .Attr("select_last_index", int64_t{1})
                .Attr("keepdims", int64_t{0})
                .Values<int64_t>(),
            (I{1, 1}));
  EXPECT_EQ(OpTester("ArgMin").Input(Shape{2, 2}, x).Values<int64_t>(), (I{0, 0}));
  EXPECT_EQ(OpTester("ArgMax").Input(Shape{4}, F{1, kNan, 5, kNan}).Values<int64_t>(), (I{1}));
}

TEST(CumSum, AllDirections) {
  const F x = {1, 2, 3};
  auto run = [&](int64_t exclusive, int64_t reverse) {
    return OpTester("CumSum")
        .Input(Shape{3}, x)
        .Input(Shape{}, I{0})
        .Attr("exclusive", exclusive)
        .Attr("reverse", reverse)
        .Values<float>();
  };
  EXPECT_EQ(run(0, 0), (F{1, 3, 6}));
  EXPECT_EQ(run(1, 0), (F{0, 1, 3}));
  EXPECT_EQ(run(0, 1), (F{6, 5, 3}));
  EXPECT_EQ(run(1, 1), (F{5, 3, 0}));
}

TEST(NonZero, GivesColumns) {
  OpTester t("NonZero");
  EXPECT_EQ(t.Input(Shape{2, 2}, F{1, 0, 1, 1}).Values<int64_t>(), (I{0, 1, 1, 0, 0, 1}));
}

TEST(Cast, BetweenAllKinds) {
  auto to = [](DType t) { return static_cast<int64_t>(t); };
  EXPECT_EQ(OpTester("Cast").Input(Shape{4}, F{-1.9f, 2.5f, 300, 0}).Attr("to", to(DType::kI32)).Values<int32_t>(),
            (std::vector<int32_t>{-1, 2, 300, 0}));
  EXPECT_EQ(OpTester("Cast").Input(Shape{3}, I{-1, 256, 127}).Attr("to", to(DType::kU8)).Values<uint8_t>(),
            (std::vector<uint8_t>{255, 0, 127}));
  OpTester truth("Cast");
  EXPECT_EQ(BoolsOf(truth.Input(Shape{4}, F{0, -0.0f, 0.1f, kNan}).Attr("to", to(DType::kBool))),
            (std::vector<int>{0, 0, 1, 1}));
  // Halfway in double, but not once rounded to float: 1 + 2^-11 + 2^-40 is above the middle of two binary16 numbers.
  const double above = 1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  const auto half = OpTester("Cast").Input(Shape{2}, std::vector<double>{above, 1e6}).Attr("to", to(DType::kF16)).Run();
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_EQ((*half)[0].tensor().data<Float16>()[0].bits, 0x3c01);
  EXPECT_EQ((*half)[0].tensor().data<Float16>()[1].bits, 0x7c00);
  OpTester text("Cast");
  text.Input(StringTensor{Shape{5}, {"3.14", "1e-3", "-INF", "+2", "NaN"}}).Attr("to", to(DType::kF32));
  const F parsed = text.Values<float>();
  ASSERT_EQ(parsed.size(), 5u);
  EXPECT_EQ(F(parsed.begin(), parsed.begin() + 4), (F{3.14f, 0.001f, -kInf, 2}));
  EXPECT_TRUE(std::isnan(parsed[4]));
  const auto words =
      OpTester("Cast").Input(Shape{4}, F{0.47892547f, 1, -kInf, kNan}).Attr("to", to(DType::kString)).Run();
  ASSERT_TRUE(words.ok()) << words.status().message();
  EXPECT_THAT((*words)[0].strings().values, ElementsAre("0.47892547", "1", "-INF", "NaN"));
  EXPECT_THAT(OpTester("Cast").Input(StringTensor{Shape{1}, {"seven"}}).Attr("to", to(DType::kF32)).Error(),
              HasSubstr("'seven' is not a number"));
  EXPECT_EQ(OpTester("CastLike").Input(Shape{2}, F{1.5f, -2.5f}).Input(Shape{1}, I{0}).Values<int64_t>(), (I{1, -2}));
}

// Values that the specification lists for its examples, rounded there to a few digits.
TEST(Resize, ModesAndCoordinates) {
  const Tensor x = Tensor::FromValues<float>(Shape{1, 1, 2, 2}, F{1, 2, 3, 4});
  auto up = [&](const char* mode, const char* coordinates) {
    OpTester t("Resize");
    t.Input(x).Omit().Input(Shape{4}, F{1, 1, 2, 2}).Attr("mode", std::string(mode));
    return t.Attr("coordinate_transformation_mode", std::string(coordinates)).Values<float>();
  };
  EXPECT_EQ(up("nearest", "asymmetric"), (F{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
  OpTester ceil("Resize");
  ceil.Input(x).Omit().Input(Shape{4}, F{1, 1, 2, 2}).Attr("nearest_mode", std::string("ceil"));
  EXPECT_EQ(ceil.Attr("coordinate_transformation_mode", std::string("asymmetric")).Values<float>(),
            (F{1, 2, 2, 2, 3, 4, 4, 4, 3, 4, 4, 4, 3, 4, 4, 4}));
  EXPECT_EQ(up("nearest", "half_pixel"), (F{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}));
  EXPECT_EQ(up("linear", "half_pixel"),
            (F{1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3, 3.25f, 3.75f, 4}));
  ExpectNear(up("linear", "align_corners"),
             {1, 4. / 3, 5. / 3, 2, 5. / 3, 2, 7. / 3, 8. / 3, 7. / 3, 8. / 3, 3, 10. / 3, 3, 10. / 3, 11. / 3, 4});
}

TEST(Resize, CubicAntialiasSizesAndCrop) {
  F ramp(16);
  for (int i = 0; i < 16; ++i) ramp[i] = static_cast<float>(i + 1);
  const Tensor x = Tensor::FromValues<float>(Shape{1, 1, 4, 4}, ramp);
  OpTester cubic("Resize");
  cubic.Input(x).Omit().Input(Shape{4}, F{1, 1, 0.8f, 0.8f}).Attr("mode", std::string("cubic"));
  ExpectNear(
      cubic.Values<float>(),
      {1.47119141, 2.78125, 4.08251953, 6.71142578, 8.02148438, 9.32275391, 11.91650391, 13.2265625, 14.52783203},
      1e-4);
  OpTester anti("Resize");
  anti.Input(x)
      .Omit()
      .Input(Shape{4}, F{1, 1, 0.6f, 0.6f})
      .Attr("mode", std::string("linear"))
      .Attr("antialias", int64_t{1});
  ExpectNear(anti.Values<float>(), {2.875, 4.5, 9.375, 11.0}, 1e-4);
  OpTester aspect("Resize");  // 2 x 4 within 6 x 6: factor 1.5
  aspect.Input(Shape{2, 4}, F{1, 2, 3, 4, 5, 6, 7, 8})
      .Omit()
      .Omit()
      .Input(Shape{2}, I{6, 6})
      .Attr("keep_aspect_ratio_policy", std::string("not_larger"));
  const auto fitted = aspect.Run();
  ASSERT_TRUE(fitted.ok()) << fitted.status().message();
  EXPECT_EQ((*fitted)[0].tensor().shape(), (Shape{3, 6}));
  OpTester crop("Resize");
  crop.Input(Shape{4}, F{1, 2, 3, 4})
      .Input(Shape{2}, F{0.5f, 1.5f})
      .Omit()
      .Input(Shape{1}, I{3})
      .Attr("coordinate_transformation_mode", std::string("tf_crop_and_resize"))
      .Attr("mode", std::string("linear"))
      .Attr("extrapolation_value", 10.0f);
  EXPECT_EQ(crop.Values<float>(), (F{2.5f, 4, 10}));
  OpTester old("Resize", 10), upsample("Upsample", 9);
  EXPECT_EQ(old.Input(Shape{4}, F{1, 2, 3, 4}).Input(Shape{1}, F{0.6f}).Values<float>(), (F{1, 3}));
  EXPECT_EQ(upsample.Input(Shape{2}, F{1, 2}).Input(Shape{1}, F{2}).Attr("mode", std::string("linear")).Values<float>(),
            (F{1, 1.5f, 2, 2}));
  EXPECT_THAT(OpTester("Resize").Input(x).Omit().Input(Shape{4}, F{1, 1, 0, 2}).Error(), HasSubstr("is not positive"));
}

TEST(Dropout, PassesThrough) {
  OpTester t("Dropout", 13);
  t.Input(Shape{2}, F{1, 2}).Outputs(2);
  const auto r = t.Run();
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ((*r)[0].tensor().values<float>()[1], 2);
  EXPECT_TRUE((*r)[1].tensor().values<bool>()[1]);
}

}  // namespace
}  // namespace quern
