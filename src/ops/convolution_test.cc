// Convolutions and pools against direct sums in double.
#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using Ints = std::vector<int64_t>;

struct Conv2d {
  int64_t batch, in, out, groups, height, width, kernel_h, kernel_w, stride, dilation, pad;
};

// Straight from the definition; also gives the output extents.
std::vector<double> DirectConv(const Conv2d& c, const std::vector<float>& x, const std::vector<float>& w,
                               const std::vector<float>& b, Shape* shape) {
  const int64_t oh = (c.height + 2 * c.pad - ((c.kernel_h - 1) * c.dilation + 1)) / c.stride + 1;
  const int64_t ow = (c.width + 2 * c.pad - ((c.kernel_w - 1) * c.dilation + 1)) / c.stride + 1;
  *shape = {c.batch, c.out, oh, ow};
  std::vector<double> y;
  const int64_t gi = c.in / c.groups, go = c.out / c.groups;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t m = 0; m < c.out; ++m)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          double sum = b[m];
          for (int64_t k = 0; k < gi; ++k)
            for (int64_t u = 0; u < c.kernel_h; ++u)
              for (int64_t v = 0; v < c.kernel_w; ++v) {
                const int64_t r = i * c.stride + u * c.dilation - c.pad, q = j * c.stride + v * c.dilation - c.pad;
                if (r < 0 || r >= c.height || q < 0 || q >= c.width) continue;
                sum += double{x[((n * c.in + m / go * gi + k) * c.height + r) * c.width + q]} *
                       w[((m * gi + k) * c.kernel_h + u) * c.kernel_w + v];
              }
          y.push_back(sum);
        }
  return y;
}

TEST(Conv, MatchesDirectSums) {
  for (const Conv2d& c : {Conv2d{2, 3, 4, 1, 7, 9, 3, 3, 1, 1, 1}, Conv2d{1, 4, 6, 2, 8, 5, 3, 2, 2, 1, 1},
                          Conv2d{1, 5, 5, 5, 9, 9, 3, 3, 1, 2, 2}, Conv2d{2, 8, 3, 1, 4, 4, 1, 1, 1, 1, 0},
                          Conv2d{1, 2, 2, 1, 3, 3, 3, 3, 3, 1, 4}}) {
    const auto x = TestFloats(c.batch * c.in * c.height * c.width, 3);
    const auto w = TestFloats(c.out * c.in / c.groups * c.kernel_h * c.kernel_w, 5), b = TestFloats(c.out, 7);
    Shape shape;
    const std::vector<double> want = DirectConv(c, x, w, b, &shape);
    OpTester t("Conv");
    t.Input(Shape{c.batch, c.in, c.height, c.width}, x)
        .Input(Shape{c.out, c.in / c.groups, c.kernel_h, c.kernel_w}, w)
        .Input(Shape{c.out}, b)
        .Attr("group", c.groups)
        .Attr("strides", Ints{c.stride, c.stride})
        .Attr("dilations", Ints{c.dilation, c.dilation})
        .Attr("pads", Ints{c.pad, c.pad, c.pad, c.pad});
    const auto result = t.Run();
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ((*result)[0].tensor().shape(), shape);
    const auto got = (*result)[0].tensor().values<float>();
    ExpectNear({got.begin(), got.end()}, want);
  }
}

TEST(Conv, SameLowerPadsTheFrontMore) {
  OpTester t("Conv");
  t.Input<float>({1, 1, 3}, {1, 2, 3}).Input<float>({1, 1, 2}, {10, 1}).Attr("auto_pad", std::string("SAME_LOWER"));
  EXPECT_EQ(t.Values<float>(), (std::vector<float>{1, 12, 23}));
}

TEST(Conv, NamesWhatDoesNotFit) {
  OpTester t("Conv");
  t.Input(Shape{1, 3, 4, 4}, TestFloats(48)).Input(Shape{2, 16, 1, 1}, TestFloats(32));
  EXPECT_NE(t.Error().find("node 'n' (Conv): input 'x0' has 3 channels but the weight expects 16"), std::string::npos);
  OpTester large("Conv");
  large.Input(Shape{1, 1, 2, 2}, TestFloats(4)).Input(Shape{1, 1, 3, 3}, TestFloats(9));
  EXPECT_NE(large.Error().find("the kernel spans 3"), std::string::npos);
}

TEST(Conv, KeepsSymbolsInTheShape) {
  Graph g;
  g.opset_imports[""] = 21;
  const Dim h = Dim::Symbol("h"), n = Dim::Symbol("n");
  GraphValue* x = g.AddInput("x", ValueType::Tensor(DType::kF32, Dims{n, 3, h, 10}));
  GraphValue* w = g.AddConstant("w", Tensor::FromValues<float>({8, 3, 3, 3}, TestFloats(216)));
  Node* node = g.AddNode({.op_type = "Conv",
                          .inputs = {x, w},
                          .outputs = {"y"},
                          .attributes = {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}});
  g.AddOutput(node->output(0));
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(*node->output(0)->type().shape, (Dims{n, 8, Dim::FloorDiv(h - 1, 2) + 1, 5}));
}

TEST(ConvTranspose, IsTheAdjointOfConv) {
  // <Conv(x, w), y> == <x, ConvTranspose(y, w)> for every x, y: the property defines it.
  const auto x = TestFloats(2 * 5 * 6, 1), w = TestFloats(3 * 2 * 3 * 2, 2);
  const std::vector<int64_t> strides = {2, 1}, pads = {1, 0, 1, 1};
  OpTester forward("Conv");
  forward.Input(Shape{1, 2, 5, 6}, x).Input(Shape{3, 2, 3, 2}, w).Attr("strides", strides).Attr("pads", pads);
  const std::vector<float> conv = forward.Values<float>();
  const auto y = TestFloats(static_cast<int64_t>(conv.size()), 9);
  OpTester backward("ConvTranspose");
  backward.Input(Shape{1, 3, 3, 6}, y).Input(Shape{3, 2, 3, 2}, w).Attr("strides", strides).Attr("pads", pads);
  const std::vector<float> transposed = backward.Values<float>();
  ASSERT_EQ(transposed.size(), x.size());
  double left = 0, right = 0;
  for (size_t i = 0; i < conv.size(); ++i) left += double{conv[i]} * y[i];
  for (size_t i = 0; i < x.size(); ++i) right += double{transposed[i]} * x[i];
  EXPECT_NEAR(left, right, 1e-4);
}

TEST(ConvInteger, SubtractsZeroPointsAndPadsWithThem) {
  OpTester t("ConvInteger", 10);
  t.Input<uint8_t>({1, 1, 2, 2}, {2, 3, 4, 5})
      .Input<int8_t>({2, 1, 2, 2}, {1, 1, 1, 1, -3, 0, 0, 0})
      .Input<uint8_t>({}, {1})
      .Input<int8_t>({2}, {0, -1})
      .Attr("pads", Ints{1, 1, 0, 0});
  // x - 1 = {1 2; 3 4} with zeros around; weights - zero points: all 1, and {-2 1; 1 1}.
  EXPECT_EQ(t.Values<int32_t>(), (std::vector<int32_t>{1, 3, 4, 10, 1, 3, 4, 7}));
}

TEST(QLinearConv, RoundsHalfToEvenAndSaturates) {
  OpTester t("QLinearConv", 10);
  t.Input<uint8_t>({1, 1, 4}, {1, 3, 5, 255}).Input<float>({}, {0.5f}).Input<uint8_t>({}, {0});
  t.Input<int8_t>({1, 1, 1}, {2}).Input<float>({1}, {0.5f}).Input<int8_t>({1}, {0});
  t.Input<float>({}, {1.0f}).Input<int8_t>({}, {10});
  EXPECT_EQ(t.Values<int8_t>(), (std::vector<int8_t>{10, 12, 12, 127}));  // 0.5, 1.5, 2.5, 127.5
}

TEST(MaxPool, GivesIndicesInEitherOrder) {
  for (const int64_t order : {0, 1}) {
    OpTester t("MaxPool");
    t.Input<float>({1, 2, 2, 3}, {1, 9, 2, 3, 4, 5, -1, -2, -3, -4, -5, -6});
    t.Attr("kernel_shape", Ints{2, 2}).Attr("storage_order", order).Outputs(2);
    const auto result = t.Run();
    ASSERT_TRUE(result.ok()) << result.status().message();
    const auto y = (*result)[0].tensor().values<float>();
    EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{9, 9, -1, -2}));
    const auto at = (*result)[1].tensor().values<int64_t>();
    EXPECT_EQ(Ints(at.begin(), at.end()), order == 0 ? (Ints{1, 1, 6, 7}) : (Ints{2, 2, 6, 8}));
  }
}

TEST(MaxPool, CeilModeLeavesOutWindowsBehindTheInput) {
  OpTester t("MaxPool");
  t.Input<float>({1, 1, 3}, {1, 2, 3}).Attr("kernel_shape", Ints{1}).Attr("strides", Ints{2});
  t.Attr("pads", Ints{0, 1}).Attr("ceil_mode", int64_t{1});
  EXPECT_EQ(t.Values<float>(), (std::vector<float>{1, 3}));
}

TEST(AveragePool, CeilModeTakesAWindowOverTheWholeInput) {
  const auto pool = [](int64_t kernel, int64_t stride, int64_t include) {
    auto t = std::make_unique<OpTester>("AveragePool");
    t->Input<float>({1, 1, 3}, {1, 2, 6}).Attr("kernel_shape", Ints{kernel}).Attr("strides", Ints{stride});
    t->Attr("ceil_mode", int64_t{1}).Attr("count_include_pad", include);
    return t;
  };
  for (const int64_t include : {0, 1}) EXPECT_EQ(pool(100, 100, include)->Values<float>(), (std::vector<float>{3}));
  EXPECT_EQ(pool(4, 2, 0)->Values<float>(), (std::vector<float>{3}));
  EXPECT_THAT(pool(5, 2, 0)->Error(), testing::HasSubstr("the kernel spans 5"));  // not even rounded up
}

TEST(AveragePool, CountsPaddingWhenAsked) {
  for (const int64_t include : {0, 1}) {
    OpTester t("AveragePool");
    t.Input<float>({1, 1, 4}, {2, 4, 6, 8}).Attr("kernel_shape", Ints{3}).Attr("pads", Ints{1, 1});
    t.Attr("count_include_pad", include);
    EXPECT_EQ(t.Values<float>(), include ? (std::vector<float>{2, 4, 6, 14.0f / 3}) : (std::vector<float>{3, 4, 6, 7}));
  }
}

TEST(GlobalPools, ReducePlanes) {
  const std::vector<float> x = {1, 2, 3, 6, -4, -3, -2, -1};
  OpTester average("GlobalAveragePool"), largest("GlobalMaxPool"), norm("GlobalLpPool");
  EXPECT_EQ(average.Input(Shape{1, 2, 2, 2}, x).Values<float>(), (std::vector<float>{3, -2.5f}));
  EXPECT_EQ(largest.Input(Shape{1, 2, 2, 2}, x).Values<float>(), (std::vector<float>{6, -1}));
  ExpectNear(norm.Input(Shape{1, 2, 2, 2}, x).Values<float>(), {std::sqrt(50.0), std::sqrt(30.0)});
}

}  // namespace
}  // namespace quern
