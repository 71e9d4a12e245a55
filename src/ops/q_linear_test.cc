// Quantized operators of com.microsoft against the float operators on dequantized values.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using B = std::vector<uint8_t>;
using S = std::vector<int8_t>;
using F = std::vector<float>;

constexpr char kDomain[] = "com.microsoft";

struct Op : OpTester {
  explicit Op(const char* name) : OpTester(name, 1, kDomain) {}
  template <typename T>
  Op& Quantized(const Shape& shape, const std::vector<T>& values, float scale, int zero_point) {
    Input(shape, values);
    return Scale<T>(scale, zero_point);
  }
  template <typename T>
  Op& Scale(float scale, int zero_point) {
    Input<float>({}, {scale}).Input<T>({}, {static_cast<T>(zero_point)});
    return *this;
  }
};

TEST(QLinearBinary, ComputesOnValues) {
  // Values 5, -10, 50 of a and 8, -4 of b: the sums 13, 1, -2, -14, 58 and 46 in units of 2, plus 100.
  Op add("QLinearAdd"), mul("QLinearMul"), plain("QLinearAdd"), shapes("QLinearAdd"), scales("QLinearMul");
  add.Quantized<uint8_t>({3, 1}, {138, 108, 228}, 0.5f, 128).Quantized<uint8_t>({2}, {2, 14}, -1, 10);
  EXPECT_EQ(add.Scale<uint8_t>(2, 100).Values<uint8_t>(), (B{106, 100, 99, 93, 129, 123}));  // 6.5 and 0.5: to even
  mul.Quantized<int8_t>({3}, {10, -20, 127}, 0.5f, 0).Quantized<int8_t>({3}, {8, 8, 8}, 1, 0);
  EXPECT_EQ(mul.Scale<int8_t>(1, -1).Values<int8_t>(), (S{39, -81, 127}));
  plain.Input<uint8_t>({1}, {3}).Input<float>({}, {1}).Omit().Input<uint8_t>({1}, {4}).Input<float>({}, {1}).Omit();
  EXPECT_EQ(plain.Input<float>({}, {1}).Values<uint8_t>(), (B{7}));
  shapes.Quantized<uint8_t>({3}, {1, 2, 3}, 1, 0).Quantized<uint8_t>({2}, {1, 2}, 1, 0).Scale<uint8_t>(1, 0);
  EXPECT_THAT(shapes.Error(), HasSubstr("[3]"));
  scales.Input<uint8_t>({1}, {3}).Input<float>({2}, {1, 2}).Omit();
  EXPECT_THAT(scales.Quantized<uint8_t>({1}, {1}, 1, 0).Scale<uint8_t>(1, 0).Error(),
              HasSubstr("has 2 elements, 1 is needed"));
}

TEST(QLinearWhere, ChoosesNumbersNotBytes) {
  // x = 1, 2, 3 (in halves from 10 on), y = -4 (by 2 from 5 on); z in quarters from 100 on.
  const Tensor condition = Tensor::Allocate(DType::kBool, Shape{2, 1}).value();
  condition.data<bool>()[0] = true;
  condition.data<bool>()[1] = false;
  Op t("QLinearWhere"), shapes("QLinearWhere");
  t.Input(condition);
  t.Quantized<uint8_t>({3}, {12, 14, 16}, 0.5f, 10).Quantized<uint8_t>({}, {3}, 2, 5).Scale<uint8_t>(0.25f, 100);
  EXPECT_EQ(t.Values<uint8_t>(), (B{104, 108, 112, 84, 84, 84}));
  shapes.Input(condition);
  shapes.Quantized<uint8_t>({3}, {12, 14, 16}, 1, 0).Quantized<uint8_t>({2}, {1, 2}, 1, 0);
  EXPECT_THAT(shapes.Scale<uint8_t>(1, 0).Error(), HasSubstr("[3]"));
}

TEST(QLinearUnary, ComputesOnValues) {
  Op sigmoid("QLinearSigmoid"), leaky("QLinearLeakyRelu");
  sigmoid.Quantized<uint8_t>({3}, {128, 255, 0}, 0.0625f, 128).Scale<uint8_t>(1.0f / 256, 0);
  B want;
  for (const double x : {0.0, 127 / 16.0, -8.0}) {
    want.push_back(static_cast<uint8_t>(std::min(255L, std::lround(256 / (1 + std::exp(-x))))));
  }
  EXPECT_EQ(sigmoid.Values<uint8_t>(), want);
  leaky.Quantized<int8_t>({4}, {10, -10, -100, 0}, 1, 0).Scale<int8_t>(0.5f, 3).Attr("alpha", 0.25f);
  EXPECT_EQ(leaky.Values<int8_t>(), (S{23, -2, -47, 3}));
}

TEST(QLinearSoftmax, CountsWholeStepsOfOne) {
  Op t("QLinearSoftmax");
  t.Quantized<uint8_t>({2}, {9, 9}, 1, 0).Scale<uint8_t>(1.0f / 255, 0);
  EXPECT_EQ(t.Attr("opset", int64_t{13}).Values<uint8_t>(), (B{127, 127}));  // of 254
}

TEST(QLinearSoftmax, RunsOverOneAxisOrAllBehind) {
  const S x = {0, 10, 20, -5, 7, 3, 1, 2, 50, -50, 0, 1};  // [2, 3, 2]
  for (const int64_t opset : {11, 13}) {
    Op t("QLinearSoftmax");
    t.Quantized<int8_t>({2, 3, 2}, x, 0.1f, 2).Scale<int8_t>(1.0f / 256, -128);
    t.Attr("axis", int64_t{1}).Attr("opset", opset);
    const S got = t.Values<int8_t>();
    for (int n = 0; n < 2; ++n) {
      for (int p = 0; p < 2; ++p) {
        double sum = 0;
        for (int e = 0; e < 6; ++e) {
          if (opset < 13 || e % 2 == p) sum += std::exp(0.1 * (x[n * 6 + e] - 2));
        }
        for (int k = 0; k < 3; ++k) {
          const double want = std::exp(0.1 * (x[n * 6 + k * 2 + p] - 2)) / sum * 256 - 128;
          EXPECT_NEAR(got[n * 6 + k * 2 + p], std::min(want, 127.0), 0.5001);
        }
      }
    }
  }
  Op axis("QLinearSoftmax");
  axis.Quantized<int8_t>({2, 6}, x, 0.1f, 2).Scale<int8_t>(1, 0).Attr("axis", int64_t{2}).Attr("opset", int64_t{13});
  EXPECT_THAT(axis.Error(), HasSubstr("axis"));
}

TEST(QLinearConcat, RequantizesEachPart) {
  Op t("QLinearConcat"), count("QLinearConcat"), type("QLinearConcat"), shape("QLinearConcat");
  t.Scale<uint8_t>(0.5f, 10);
  t.Quantized<uint8_t>({2, 1}, {12, 200}, 0.5f, 10).Quantized<uint8_t>({2, 2}, {1, 2, 3, 200}, 1, 1);
  EXPECT_EQ(t.Attr("axis", int64_t{1}).Values<uint8_t>(), (B{12, 10, 12, 200, 14, 255}));
  count.Scale<uint8_t>(1, 0).Input<uint8_t>({1}, {1}).Input<float>({}, {1}).Attr("axis", int64_t{0});
  EXPECT_THAT(count.Error(), HasSubstr("three for each tensor"));
  type.Scale<uint8_t>(1, 0).Quantized<int8_t>({1}, {1}, 1, 0).Attr("axis", int64_t{0});
  EXPECT_THAT(type.Error(), HasSubstr("input 2 has element type i8, u8 is needed"));
  shape.Scale<uint8_t>(1, 0).Quantized<uint8_t>({1, 2}, {1, 1}, 1, 0).Quantized<uint8_t>({1, 3}, {1, 1, 1}, 1, 0);
  EXPECT_THAT(shape.Attr("axis", int64_t{0}).Error(), HasSubstr("does not fit"));
}

TEST(QLinearAveragePool, AveragesInsideTheInput) {
  // 3x3 values 0 ... 80 in steps of 10, windows of 2x2 with a border of one.
  const B x = {0, 10, 20, 30, 40, 50, 60, 70, 80};
  for (const int64_t include : {0, 1}) {
    Op t("QLinearAveragePool");
    t.Quantized<uint8_t>({1, 1, 3, 3}, x, 2, 0).Scale<uint8_t>(1, 5).Attr("kernel_shape", std::vector<int64_t>{2, 2});
    t.Attr("pads", std::vector<int64_t>{1, 1, 1, 1}).Attr("strides", std::vector<int64_t>{2, 2});
    t.Attr("count_include_pad", include);
    // Sums of the windows: 0, 10 + 20, 30 + 60, 40 + 50 + 70 + 80, doubled by the scale.
    EXPECT_EQ(t.Values<uint8_t>(), include ? (B{5, 20, 50, 125}) : (B{5, 35, 95, 125}));
  }
}

TEST(QLinearAveragePool, CountsTheWholeWindowBeyondThePaddingToo) {
  for (const int64_t include : {0, 1}) {
    Op t("QLinearAveragePool");
    t.Quantized<uint8_t>({1, 1, 3}, {10, 20, 30}, 1, 0).Scale<uint8_t>(1, 0);
    t.Attr("kernel_shape", std::vector<int64_t>{2}).Attr("strides", std::vector<int64_t>{2});
    t.Attr("ceil_mode", int64_t{1}).Attr("count_include_pad", include);
    EXPECT_EQ(t.Values<uint8_t>(), include ? (B{15, 15}) : (B{15, 30}));
  }
}

TEST(QLinearAveragePool, TakesChannelsLast) {
  // [1, 2, 2, 2]: channel 0 holds 1, 3, 5, 7, channel 1 2, 4, 6, 8.
  const B x = {1, 2, 3, 4, 5, 6, 7, 8};
  Op t("QLinearAveragePool"), all("QLinearGlobalAveragePool"), second("QLinearGlobalAveragePool"),
      flat("QLinearAveragePool");
  t.Quantized<uint8_t>({1, 2, 2, 2}, x, 1, 0).Scale<uint8_t>(1, 0).Attr("kernel_shape", std::vector<int64_t>{1, 2});
  EXPECT_EQ(t.Attr("channels_last", int64_t{1}).Values<uint8_t>(), (B{2, 3, 6, 7}));
  all.Quantized<uint8_t>({1, 2, 2, 2}, x, 1, 0).Scale<uint8_t>(0.5f, 1).Attr("channels_last", int64_t{1});
  EXPECT_EQ(all.Values<uint8_t>(), (B{9, 11}));
  second.Quantized<uint8_t>({1, 2, 2, 2}, x, 1, 0).Scale<uint8_t>(0.5f, 1);
  EXPECT_EQ(second.Values<uint8_t>(), (B{6, 14}));
  flat.Quantized<uint8_t>({2, 4}, x, 1, 0).Scale<uint8_t>(1, 0).Attr("kernel_shape", std::vector<int64_t>{1});
  EXPECT_THAT(flat.Error(), HasSubstr("at least one spatial dimension"));
}

TEST(QLinearAveragePool, InfersSymbolicShapes) {
  Graph g;
  g.opset_imports[kDomain] = 1;
  const Dims shape = {Dim::Symbol("n"), Dim::Symbol("h"), Dim(8), Dim(3)};
  GraphValue* x = g.AddInput("x", ValueType::Tensor(DType::kU8, shape));
  GraphValue* scale = g.AddConstant("scale", Tensor::Scalar<float>(1));
  Node* pool = g.AddNode({.domain = kDomain,
                          .op_type = "QLinearAveragePool",
                          .inputs = {x, scale, nullptr, scale},
                          .outputs = {"y"},
                          .attributes = {{"kernel_shape", std::vector<int64_t>{2, 2}},
                                         {"strides", std::vector<int64_t>{2, 2}},
                                         {"channels_last", int64_t{1}}}});
  g.AddOutput(pool->output(0));
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeToString(pool->output(0)->type()), "u8[n,floordiv(h, 2),4,3]");
}

// A [3, 4] of u8 and B [4, 2] of i8 with a scale and a zero point per column.
const B kA = {1, 200, 3, 90, 128, 128, 128, 0, 255, 17, 60, 33};
const S kB = {1, -2, 30, -128, 127, 4, -5, 60};
constexpr float kBScales[] = {0.5f, 0.02f};
constexpr int kBZeros[] = {3, -4};

double Product(int i, int j, double a_scale, int a_zero) {
  double sum = 0;
  for (int k = 0; k < 4; ++k) sum += double(kA[i * 4 + k] - a_zero) * double(kB[k * 2 + j] - kBZeros[j]);
  return sum * a_scale * kBScales[j];
}

TEST(MatMulIntegerToFloat, ScalesColumnsAndAddsABias) {
  OpTester t("MatMulIntegerToFloat", 1, kDomain), plain("MatMulIntegerToFloat", 1, kDomain),
      bias("MatMulIntegerToFloat", 1, kDomain), scale("MatMulIntegerToFloat", 1, kDomain);
  t.Input(Shape{3, 4}, kA).Input(Shape{4, 2}, kB).Input<float>({}, {0.25f}).Input<float>({2}, {0.5f, 0.02f});
  t.Input<uint8_t>({}, {128}).Input<int8_t>({2}, {3, -4}).Input<float>({2}, {100, -7});
  std::vector<double> want;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) want.push_back(Product(i, j, 0.25, 128) + (j ? -7 : 100));
  ExpectNear(t.Values<float>(), want, 1e-3);
  plain.Input<int8_t>({2}, {1, 2}).Input<uint8_t>({2, 1}, {3, 4}).Input<Float16>({1}, {Float16(1)});
  EXPECT_EQ(static_cast<float>(plain.Input<Float16>({1}, {Float16(0.5f)}).Values<Float16>()[0]), 5.5f);
  bias.Input(Shape{3, 4}, kA).Input(Shape{4, 2}, kB).Input<float>({}, {1}).Input<float>({}, {1}).Omit().Omit();
  EXPECT_THAT(bias.Input<float>({1}, {1}).Error(), HasSubstr("one per column (2) is needed"));
  scale.Input(Shape{3, 4}, kA).Input(Shape{4, 2}, kB).Input<float>({4}, {1, 1, 1, 1}).Input<float>({}, {1});
  EXPECT_THAT(scale.Error(), HasSubstr("a_scale has 4 elements"));
}

TEST(DynamicQuantizeMatMul, QuantizesTheWholeLeftSide) {
  // The range -1 ... 4 gives scale 5 / 255 and zero point 51; the range of a row alone would give others.
  const F a = {-1, 0.4f, 4, 0.01f, 0.02f, 0.03f};
  OpTester t("DynamicQuantizeMatMul", 1, kDomain), wrong("DynamicQuantizeMatMul", 1, kDomain);
  t.Input(Shape{2, 3}, a).Input<int8_t>({3, 2}, {1, 2, 3, 4, 5, 6}).Input<float>({}, {0.5f}).Omit();
  t.Input<float>({2}, {10, 20});
  std::vector<double> want;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += std::nearbyint(a[i * 3 + k] * 51.0) * (1 + k * 2 + j);
      want.push_back(sum * 0.5 / 51.0 + (j ? 20 : 10));
    }
  }
  ExpectNear(t.Values<float>(), want);
  wrong.Input(Shape{2, 3}, a).Input<int8_t>({2, 3}, {1, 2, 3, 4, 5, 6}).Input<float>({}, {0.5f});
  EXPECT_THAT(wrong.Error(), HasSubstr("do not multiply"));
}

TEST(QGemm, GivesFloatsOrQuantizes) {
  for (const bool transposed : {false, true}) {
    B a = kA;
    S b = kB;
    for (int i = 0; transposed && i < 3; ++i)
      for (int k = 0; k < 4; ++k) a[k * 3 + i] = kA[i * 4 + k];
    for (int k = 0; transposed && k < 4; ++k)
      for (int j = 0; j < 2; ++j) b[j * 4 + k] = kB[k * 2 + j];
    for (const bool quantized : {false, true}) {
      OpTester t("QGemm", 1, kDomain);
      t.Input(transposed ? Shape{4, 3} : Shape{3, 4}, a).Input<float>({}, {0.25f}).Input<uint8_t>({}, {128});
      t.Input(transposed ? Shape{2, 4} : Shape{4, 2}, b).Input<float>({2}, {0.5f, 0.02f}).Input<int8_t>({2}, {3, -4});
      t.Input<int32_t>({3, 1}, {10, -20, 3000}).Attr("alpha", 2.0f);
      t.Attr("transA", int64_t{transposed}).Attr("transB", int64_t{transposed});
      std::vector<double> want;
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 2; ++j) {
          const double add[] = {10, -20, 3000};
          want.push_back(2 * (Product(i, j, 0.25, 128) + add[i] * 0.25 * kBScales[j]));
        }
      }
      if (!quantized) {
        ExpectNear(t.Values<float>(), want, 1e-2);
        continue;
      }
      const S got = t.Input<float>({}, {30.0f}).Input<int8_t>({}, {-9}).Values<int8_t>();
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], std::clamp(want[i] / 30 - 9, -128.0, 127.0), 0.5001) << i;
      }
    }
  }
}

TEST(QLinear, OfNothing) {
  const int64_t huge = int64_t{1} << 40;  // of a dimension beside an empty one
  OpTester gemm("QGemm", 1, kDomain), product("MatMulIntegerToFloat", 1, kDomain);
  gemm.Input<uint8_t>({huge, 0}, {}).Input<float>({}, {1}).Input<uint8_t>({}, {0});
  gemm.Input<int8_t>({0, 0}, {}).Input<float>({}, {1}).Input<int8_t>({}, {0});
  EXPECT_EQ(gemm.Values<float>(), F{});
  product.Input<uint8_t>({huge, 0, 2}, {}).Input<int8_t>({2, 1}, {1, 1}).Input<float>({}, {1}).Input<float>({}, {1});
  EXPECT_EQ(product.Values<float>(), F{});
  Op concat("QLinearConcat"), pool("QLinearAveragePool");
  concat.Scale<uint8_t>(1, 0).Quantized<uint8_t>({huge, 0}, {}, 1, 0).Attr("axis", int64_t{1});
  EXPECT_EQ(concat.Values<uint8_t>(), B{});
  pool.Quantized<uint8_t>({huge, 1, 0}, {}, 1, 0).Scale<uint8_t>(1, 0).Attr("kernel_shape", std::vector<int64_t>{1});
  EXPECT_EQ(pool.Attr("auto_pad", std::string("SAME_UPPER")).Values<uint8_t>(), B{});
}

TEST(QGemm, RefusesWhatDoesNotFit) {
  const auto error = [](const Shape& b, const Shape& c, bool zero_point) {
    OpTester t("QGemm", 1, kDomain);
    t.Input(Shape{3, 4}, kA).Input<float>({}, {1}).Input<uint8_t>({}, {0});
    t.Input(b, kB).Input<float>({}, {1}).Input<int8_t>({}, {0});
    t.Input(c, std::vector<int32_t>(static_cast<size_t>(c.num_elements()))).Input<float>({}, {1});
    if (zero_point) t.Input<int8_t>({}, {0});
    return t.Error();
  };
  EXPECT_THAT(error({4, 2}, {2}, false), HasSubstr("given together"));
  EXPECT_THAT(error({2, 4}, {2}, true), HasSubstr("do not multiply"));
  EXPECT_THAT(error({4, 2}, {3}, true), HasSubstr("C has shape [3], which does not broadcast to [3,2]"));
  EXPECT_THAT(error({8}, {2}, true), HasSubstr("must be matrices"));
}

}  // namespace
}  // namespace quern
