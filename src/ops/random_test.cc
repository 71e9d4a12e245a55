// Random generators: streams of seeds, distributions, types; Dropout in training.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/common/op_tester.h"
#include "ops/common/random.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;

TEST(RandomStream, IsThatOfNumpy) {
  // numpy.random.RandomState(seed).random_sample(2) and .randn(3)
  RandomStream zero(0), many(4294967295.0), normal(0);
  EXPECT_DOUBLE_EQ(zero.Uniform(), 0.5488135039273248);
  EXPECT_DOUBLE_EQ(zero.Uniform(), 0.7151893663724195);
  EXPECT_DOUBLE_EQ(many.Uniform(), 0.0976320289940138);
  for (const double want : {1.764052345967664, 0.4001572083672233, 0.9787379841057392}) {
    EXPECT_NEAR(normal.Normal(), want, 1e-14);
  }
}

TEST(RandomStream, OtherSeedsAreTakenToo) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> first;
  for (const double seed : {0.0, 1.0, 0.5, -1.0, 1e300, infinity, std::nan("")}) {
    RandomStream a(seed), b(seed);
    first.push_back(a.Uniform());
    EXPECT_EQ(first.back(), b.Uniform());
  }
  std::sort(first.begin(), first.end());
  EXPECT_EQ(std::unique(first.begin(), first.end()), first.end());
}

TEST(RandomUniform, RepeatsWithASeedOnly) {
  const auto draw = [](bool seeded) {
    OpTester t("RandomUniform", 22);
    t.Attr("shape", I{2, 3}).Attr("low", -1.0f).Attr("high", 3.0f);
    if (seeded) t.Attr("seed", 7.0f);
    return t.Values<float>();
  };
  const F a = draw(true), b = draw(false);
  EXPECT_EQ(a, draw(true));
  EXPECT_NE(b, draw(false));
  for (const F& values : {a, b}) {
    ASSERT_EQ(values.size(), 6u);
    for (const float v : values) EXPECT_TRUE(v >= -1 && v <= 3) << v;
  }
}

TEST(RandomUniform, DrawsEachEvaluationAnew) {
  Graph g;
  g.opset_imports[""] = 22;
  Node* node = g.AddNode({.op_type = "RandomUniform", .outputs = {"y"}, .attributes = {{"shape", I{4}}}});
  g.AddOutput(node->output(0));
  ASSERT_TRUE(InferShapes(g).ok());
  const auto values = [&] {
    const std::vector<Value> outputs = EvaluateNode(*node, {}).value();
    const std::span<float> v = outputs[0].tensor().values<float>();
    return F(v.begin(), v.end());
  };
  EXPECT_NE(values(), values());
}

TEST(RandomNormal, HasMeanAndDeviation) {
  OpTester t("RandomNormal", 1);
  t.Attr("shape", I{100, 1000}).Attr("mean", 3.0f).Attr("scale", 2.0f).Attr("seed", 1.0f);
  t.Attr("dtype", int64_t{11});
  const std::vector<double> values = t.Values<double>();
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  EXPECT_NEAR(mean, 3.0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 2.0, 0.03);
}

TEST(RandomLike, TakesShapeAndTypeOfTheInput) {
  OpTester same("RandomNormalLike", 22), other("RandomUniformLike", 22), whole("RandomUniformLike", 22);
  same.Input<BFloat16>({2}, {BFloat16(1), BFloat16(2)});
  EXPECT_EQ(same.Values<BFloat16>().size(), 2u);
  EXPECT_EQ(other.Input<int64_t>({0, 5}, {}).Attr("dtype", int64_t{10}).Values<Float16>().size(), 0u);
  EXPECT_THAT(whole.Input<int64_t>({1}, {1}).Error(), HasSubstr("the element type is i64"));
  OpTester strings("RandomNormalLike", 22);
  strings.Input(StringTensor{Shape{1, 2}, {"a", "b"}}).Attr("dtype", int64_t{1});
  EXPECT_EQ(strings.Values<float>().size(), 2u);
}

TEST(Random, RefusesOtherTypesAndNegativeShapes) {
  OpTester type("RandomNormal", 22), shape("RandomUniform", 22);
  EXPECT_THAT(type.Attr("shape", I{1}).Attr("dtype", int64_t{7}).Error(),
              HasSubstr("attribute 'dtype' is 7; one of 1 (f32), 10 (f16), 11 (f64), 16 (bf16) is needed"));
  EXPECT_THAT(shape.Attr("shape", I{2, -1}).Error(), HasSubstr("entry -1"));
}

TEST(Bernoulli, DrawsWithTheGivenProbability) {
  F p(10000, 0.25f);
  p[0] = 0;
  p[1] = 1;
  OpTester t("Bernoulli", 15);
  const std::vector<int32_t> values =
      t.Input(Shape{100, 100}, p).Attr("dtype", int64_t{6}).Attr("seed", 3.0f).Values<int32_t>();
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 1);
  int64_t ones = 0;
  for (const int32_t v : values) {
    EXPECT_TRUE(v == 0 || v == 1);
    ones += v;
  }
  EXPECT_NEAR(static_cast<double>(ones), 2500, 150);
  OpTester boolean("Bernoulli", 22), half("Bernoulli", 22), wrong("Bernoulli", 22);
  EXPECT_TRUE(boolean.Input<float>({1}, {1}).Attr("dtype", int64_t{9}).Run().value()[0].tensor().values<bool>()[0]);
  EXPECT_EQ(static_cast<float>(half.Input<Float16>({1}, {Float16(1)}).Values<Float16>()[0]), 1);
  EXPECT_THAT(wrong.Input<float>({2}, {0.5f, 1.5f}).Error(), HasSubstr("element 1 is 1.5"));
}

TEST(Multinomial, DrawsClassesByTheirProbability) {
  const float none = -std::numeric_limits<float>::infinity();
  OpTester t("Multinomial", 7);
  // Probabilities 0, 1/4, 3/4, 0; and all in one class.
  t.Input<float>({2, 4}, {none, 0, std::log(3.0f), none, 5, none, none, none});
  t.Attr("sample_size", int64_t{4000}).Attr("seed", 2.0f).Attr("dtype", int64_t{7});
  const I values = t.Values<int64_t>();
  ASSERT_EQ(values.size(), 8000u);
  EXPECT_NEAR(static_cast<double>(std::count(values.begin(), values.begin() + 4000, 1)), 1000, 120);
  EXPECT_EQ(std::count(values.begin(), values.begin() + 4000, 1) + std::count(values.begin(), values.begin() + 4000, 2),
            4000);
  EXPECT_EQ(std::count(values.begin() + 4000, values.end(), 0), 4000);
  OpTester flat("Multinomial", 22), empty("Multinomial", 22), size("Multinomial", 22), nan("Multinomial", 22);
  EXPECT_THAT(flat.Input<float>({4}, {1, 2, 3, 4}).Error(), HasSubstr("two dimensions"));
  EXPECT_THAT(empty.Input<float>({2, 0}, {}).Error(), HasSubstr("not finite"));
  EXPECT_THAT(size.Input<float>({1, 1}, {0}).Attr("sample_size", int64_t{0}).Error(), HasSubstr("'sample_size' is 0"));
  EXPECT_THAT(nan.Input<float>({1, 2}, {0, std::nanf("")}).Error(), HasSubstr("not a number"));
}

Tensor Bool(bool value) { return Tensor::Scalar<bool>(value); }

TEST(Dropout, DropsAndScalesInTraining) {
  // Uniform numbers of seed 0: 0.549, 0.715, 0.603, 0.545, 0.424.
  OpTester t("Dropout", 13);
  t.Input<float>({5}, {1, 2, 3, 4, 5}).Input<float>({}, {0.55f}).Input(Bool(true)).Attr("seed", int64_t{0}).Outputs(2);
  const std::vector<Value> r = t.Run().value();
  const std::span<float> y = r[0].tensor().values<float>();
  const std::span<bool> mask = r[1].tensor().values<bool>();
  ExpectNear(F(y.begin(), y.end()), {0, 2 / 0.45, 3 / 0.45, 0, 0});
  EXPECT_EQ(std::vector<bool>(mask.begin(), mask.end()), (std::vector<bool>{false, true, true, false, false}));
}

TEST(Dropout, KeepsEverythingOtherwise) {
  OpTester zero("Dropout", 12), inference("Dropout", 22), old("Dropout", 6);
  EXPECT_EQ(zero.Input<float>({2}, {1, 2}).Input<float>({}, {0}).Input(Bool(true)).Values<float>(), (F{1, 2}));
  EXPECT_EQ(inference.Input<float>({2}, {1, 2}).Input<float>({}, {0.5f}).Input(Bool(false)).Values<float>(), (F{1, 2}));
  EXPECT_EQ(old.Input<float>({2}, {1, 2}).Attr("is_test", int64_t{1}).Outputs(2).Values<float>(1), (F{1, 1}));
}

TEST(Dropout, TrainsWithoutASeedAndInOldVersions) {
  OpTester t("Dropout", 22), old("Dropout", 6);
  const F ones(1000, 1.0f);
  t.Input(Shape{1000}, ones).Omit().Input(Bool(true));
  for (const F& values : {t.Values<float>(), old.Input(Shape{1000}, ones).Values<float>()}) {
    const int64_t kept = std::count(values.begin(), values.end(), 2.0f);
    EXPECT_NEAR(static_cast<double>(kept), 500, 100);
    EXPECT_EQ(kept + std::count(values.begin(), values.end(), 0.0f), 1000);
  }
}

TEST(Dropout, TakesEightBitFloats) {
  // float8e4m3fn: 0x38 is 1, 0x40 is 2, 0x30 is 0.5.
  const auto bytes = [](const Shape& shape, const std::vector<uint8_t>& values) {
    const Tensor t = Tensor::Allocate(DType::kF8E4M3FN, shape).value();
    std::copy(values.begin(), values.end(), static_cast<uint8_t*>(t.raw_data()));
    return t;
  };
  OpTester t("Dropout", 22);
  t.Input(bytes({5}, {0x38, 0x38, 0x38, 0x38, 0x38})).Input(bytes({}, {0x30})).Input(Bool(true));
  const std::vector<Value> r = t.Attr("seed", int64_t{0}).Run().value();
  const uint8_t* y = static_cast<const uint8_t*>(r[0].tensor().raw_data());
  EXPECT_EQ(std::vector<uint8_t>(y, y + 5), (std::vector<uint8_t>{0x40, 0x40, 0x40, 0x40, 0}));
}

TEST(Dropout, RefusesRatiosOutsideTheRange) {
  OpTester one("Dropout", 13), many("Dropout", 13);
  EXPECT_THAT(one.Input<float>({1}, {1}).Input<float>({}, {1}).Input(Bool(true)).Error(), HasSubstr("ratio < 1"));
  EXPECT_THAT(many.Input<float>({1}, {1}).Input<float>({2}, {0.1f, 0.2f}).Input(Bool(true)).Error(),
              HasSubstr("a scalar is needed"));
}

}  // namespace
}  // namespace quern
