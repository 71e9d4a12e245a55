// Experimental operators of operator set 1 that old files hold.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;

TEST(Legacy, ElementwiseFunctions) {
  const F x = {-1, 0, 0.5f, 200};
  const auto run = [&](const char* op, float alpha, float beta) {
    OpTester t(op, 6);
    return t.Input(Shape{4}, x).Attr("alpha", alpha).Attr("beta", beta).Values<float>();
  };
  EXPECT_THAT(run("Affine", 2, 0.25f), ElementsAre(-1.75f, 0.25f, 1.25f, 400.25f));
  ExpectNear(run("ScaledTanh", 3, 2), {3 * std::tanh(-2.0), 0, 3 * std::tanh(1.0), 3});
  ExpectNear(run("ParametricSoftplus", 3, 2),
             {3 * std::log1p(std::exp(-2.0)), 3 * std::log(2.0), 3 * std::log1p(std::exp(1.0)), 1200});
  OpTester scale("Scale", 7), affine("Affine", 7), tanh("ScaledTanh", 7);
  EXPECT_THAT(scale.Input(Shape{4}, x).Attr("scale", -2.0f).Values<float>(), ElementsAre(2, 0, -1, -400));
  EXPECT_EQ(affine.Input(Shape{4}, x).Values<float>(), x);
  ExpectNear(tanh.Input(Shape{1}, F{1}).Values<float>(), {std::tanh(1.0)});
}

TEST(ImageScaler, AddsTheBiasOfEachChannel) {
  OpTester t("ImageScaler", 7), plain("ImageScaler", 7), channels("ImageScaler", 7), rank("ImageScaler", 7);
  t.Input(Shape{2, 2, 1, 2}, F{1, 2, 3, 4, 5, 6, 7, 8}).Attr("bias", F{10, -1}).Attr("scale", 2.0f);
  EXPECT_THAT(t.Values<float>(), ElementsAre(12, 14, 5, 7, 20, 22, 13, 15));
  EXPECT_THAT(plain.Input(Shape{1, 1, 1, 1}, F{3}).Values<float>(), ElementsAre(3));
  EXPECT_THAT(channels.Input(Shape{1, 1, 1, 1}, F{3}).Attr("bias", F{1, 2}).Error(), HasSubstr("2 elements for 1"));
  EXPECT_THAT(rank.Input(Shape{1}, F{3}).Error(), HasSubstr("[N, C, H, W]"));
}

TEST(Crop, CutsBordersOrExtents) {
  F x;
  for (int i = 0; i < 12; ++i) x.push_back(static_cast<float>(i));  // 3 by 4
  const auto crop = [&](OpTester& t, I border, I scale) -> OpTester& {
    t.Input(Shape{1, 1, 3, 4}, x);
    if (!border.empty()) t.Attr("border", border);
    if (!scale.empty()) t.Attr("scale", scale);
    return t;
  };
  const auto values = [&](I border, I scale) {
    OpTester t("Crop", 7);
    return crop(t, border, scale).Values<float>();
  };
  const auto error = [&](I border, I scale) {
    OpTester t("Crop", 7);
    return crop(t, border, scale).Error();
  };
  EXPECT_THAT(values({1, 0, 2, 1}, {}), ElementsAre(1, 5));
  EXPECT_THAT(values({2, 1, 9, 9}, {2, 1}), ElementsAre(6, 10));
  EXPECT_THAT(values({}, {1, 2}), ElementsAre(0, 1));
  EXPECT_THAT(error({2, 0, 3, 0}, {}), HasSubstr("lies outside"));
  EXPECT_THAT(error({2, 1, 0, 0}, {3, 1}), HasSubstr("lies outside"));
  EXPECT_THAT(error({1, 2}, {}), HasSubstr("'border' must have 4 elements"));
  EXPECT_THAT(error({-1, 0, 0, 0}, {}), HasSubstr("'border'"));
  EXPECT_THAT(error({0, 0, 0, 0}, {1, -1}), HasSubstr("'scale'"));
}

TEST(GivenTensorFill, TakesTheShapeFromWhereItIs) {
  OpTester attribute("GivenTensorFill", 7), like("GivenTensorFill", 7), content("GivenTensorFill", 7);
  EXPECT_THAT(attribute.Attr("values", F{1, 2}).Attr("shape", I{2, 1}).Values<float>(), ElementsAre(1, 2));
  like.Input<double>({1, 2}, {0, 0}).Attr("values", F{1, 2, 3, 4}).Attr("extra_shape", I{2});
  EXPECT_THAT(like.Values<double>(), ElementsAre(1, 2, 3, 4));
  content.Input(Shape{2}, I{1, 2}).Attr("values", F{5, 6}).Attr("input_as_shape", int64_t{1});
  const auto result = content.Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ((*result)[0].tensor().shape(), (Shape{1, 2}));
  OpTester count("GivenTensorFill", 7), none("GivenTensorFill", 7), negative("GivenTensorFill", 7);
  EXPECT_THAT(count.Attr("values", F{1, 2}).Attr("shape", I{3}).Error(), HasSubstr("2 values"));
  EXPECT_THAT(none.Attr("values", F{1, 2}).Error(), HasSubstr("neither"));
  EXPECT_THAT(negative.Attr("values", F{}).Attr("shape", I{-1}).Error(), HasSubstr("negative"));
  OpTester huge("GivenTensorFill", 7);
  EXPECT_THAT(huge.Attr("values", F{}).Attr("shape", I{int64_t{1} << 40, int64_t{1} << 40}).Error(),
              HasSubstr("would have shape"));
}

TEST(Upsample, OfOperatorSet6ScalesHeightAndWidth) {
  OpTester t("Upsample", 6), linear("Upsample", 6), rank("Upsample", 6);
  t.Input(Shape{1, 1, 2, 2}, F{1, 2, 3, 4}).Attr("height_scale", 1.0f).Attr("width_scale", 2.0f);
  EXPECT_THAT(t.Values<float>(), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
  linear.Input(Shape{1, 1, 2, 1}, F{1, 3}).Attr("height_scale", 2.0f).Attr("width_scale", 1.0f);
  EXPECT_THAT(linear.Attr("mode", std::string("bilinear")).Values<float>(), ElementsAre(1, 2, 3, 3));
  rank.Input(Shape{2}, F{1, 2}).Attr("height_scale", 1.0f).Attr("width_scale", 2.0f);
  EXPECT_THAT(rank.Error(), HasSubstr("4 scales"));
}

}  // namespace
}  // namespace quern
