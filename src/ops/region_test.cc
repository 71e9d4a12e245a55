// Operators of detection and unpooling: regions of feature maps, boxes, indices of chosen elements.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;

// The element at (y, x) between pixels, by bilinear interpolation that clamps at the edges and ends one pixel outside.
double Bilinear(const F& map, int64_t height, int64_t width, double y, double x) {
  if (y < -1 || y > static_cast<double>(height) || x < -1 || x > static_cast<double>(width)) return 0;
  const auto at = [&](int64_t i, int64_t j) { return static_cast<double>(map[static_cast<size_t>(i * width + j)]); };
  y = std::clamp(y, 0.0, static_cast<double>(height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(width - 1));
  const int64_t i = static_cast<int64_t>(y), j = static_cast<int64_t>(x);
  const int64_t i1 = std::min(i + 1, height - 1), j1 = std::min(j + 1, width - 1);
  const double v = y - static_cast<double>(i), u = x - static_cast<double>(j);
  return (1 - v) * ((1 - u) * at(i, j) + u * at(i, j1)) + v * ((1 - u) * at(i1, j) + u * at(i1, j1));
}

TEST(RoiAlign, AveragesSampledPoints) {
  const int64_t height = 6, width = 8, rows = 2, columns = 3;
  const F x = TestFloats(2 * height * width);
  const F rois = {1, 2, 13.5f, 9, -4, 0, 6, 14, 3, 3, 3.25f, 3.25f};
  const I batch = {0, 1, 1};
  for (const bool half_pixel : {false, true}) {
    for (const int64_t ratio : {0, 2}) {
      std::vector<double> want;
      for (size_t r = 0; r < batch.size(); ++r) {
        const F map(x.begin() + batch[r] * height * width, x.begin() + (batch[r] + 1) * height * width);
        const double shift = half_pixel ? 0.5 : 0;
        const double x0 = rois[4 * r] * 0.5 - shift, y0 = rois[4 * r + 1] * 0.5 - shift;
        double w = rois[4 * r + 2] * 0.5 - shift - x0, h = rois[4 * r + 3] * 0.5 - shift - y0;
        if (!half_pixel) {
          w = std::max(w, 1.0);
          h = std::max(h, 1.0);
        }
        const double bin_h = h / rows, bin_w = w / columns;
        const int64_t down = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(bin_h));
        const int64_t across = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(bin_w));
        for (int64_t o = 0; o < rows * columns; ++o) {
          double sum = 0;
          for (int64_t p = 0; p < down * across; ++p) {
            const double part_y = (static_cast<double>(p / across) + 0.5) / static_cast<double>(down);
            const double part_x = (static_cast<double>(p % across) + 0.5) / static_cast<double>(across);
            sum += Bilinear(map, height, width, y0 + (static_cast<double>(o / columns) + part_y) * bin_h,
                            x0 + (static_cast<double>(o % columns) + part_x) * bin_w);
          }
          want.push_back(sum / static_cast<double>(down * across));
        }
      }
      OpTester t("RoiAlign", 16);
      t.Input(Shape{2, 1, height, width}, x).Input(Shape{3, 4}, rois).Input(Shape{3}, batch);
      t.Attr("output_height", rows).Attr("output_width", columns).Attr("sampling_ratio", ratio);
      t.Attr("spatial_scale", 0.5f);
      if (!half_pixel) t.Attr("coordinate_transformation_mode", std::string("output_half_pixel"));
      ExpectNear(t.Values<float>(), want);
    }
  }
}

TEST(RoiAlign, DefaultsOfOperatorSet10OmitThePixelShift) {
  for (const int opset : {10, 16}) {
    OpTester t("RoiAlign", opset);
    t.Input(Shape{1, 1, 1, 4}, F{0, 1, 2, 3}).Input(Shape{1, 4}, F{1, 0, 2, 1}).Input(Shape{1}, I{0});
    EXPECT_THAT(t.Values<float>(), ElementsAre(opset == 10 ? 1.5f : 1.0f));
  }
}

TEST(RoiAlign, MaxTakesTheLargestWeightedNeighbour) {
  OpTester t("RoiAlign", 16), outside("RoiAlign", 16);
  t.Input(Shape{1, 1, 2, 2}, F{1, 2, 3, 10}).Input(Shape{1, 4}, F{0.5f, 0.5f, 1.5f, 1.5f}).Input(Shape{1}, I{0});
  EXPECT_THAT(t.Attr("mode", std::string("max")).Values<float>(), ElementsAre(2.5f));  // all weights are 1/4
  // Two by two points in each region; the second region's right ones are outside and read 0.
  outside.Input(Shape{1, 1, 2, 2}, F{-3, -3, -3, -3});
  outside.Input(Shape{2, 4}, F{0.5f, 0.5f, 1.5f, 1.5f, 0.5f, 0.5f, 3.5f, 1.5f}).Input(Shape{2}, I{0, 0});
  outside.Attr("mode", std::string("max")).Attr("sampling_ratio", int64_t{2});
  EXPECT_THAT(outside.Values<float>(), ElementsAre(-3.0f / 16, 0));
}

TEST(RoiAlign, StaysBoundedOnRegionsThatAreNone) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const std::string mode : {"avg", "max"}) {
    OpTester many("RoiAlign", 16);
    many.Input(Shape{1, 1, 2, 2}, F{1, 1, 1, 1});
    many.Input(Shape{5, 4},
               F{0, 0, 1e30f, 1e30f, kNan, 0, 1, 1, -kInf, 0, kInf, 1, 5, 5, 1, 1, -1e9f, -1e9f, 1e9f, 1e9f});
    many.Input(Shape{5}, I{0, 0, 0, 0, 0}).Attr("mode", mode);
    const F y = many.Values<float>();
    ASSERT_EQ(y.size(), 5u);
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[2], 0);
    EXPECT_EQ(y[3], 0);
    EXPECT_GE(y[4], 0);
    EXPECT_LE(y[4], 1);
  }
}

TEST(RoiAlign, NamesWhatDoesNotFit) {
  const auto run = [](const Shape& rois, I batch, int64_t ratio, const std::string& mode) {
    OpTester t("RoiAlign", 16);
    t.Input(Shape{2, 1, 1, 1}, F{1, 2}).Input(rois, TestFloats(rois.num_elements()));
    t.Input(Shape{static_cast<int64_t>(batch.size())}, batch).Attr("sampling_ratio", ratio).Attr("mode", mode);
    return t.Error();
  };
  EXPECT_THAT(run({1, 5}, {0}, 0, "avg"), HasSubstr("[regions, 4]"));
  EXPECT_THAT(run({1, 4}, {0, 1}, 0, "avg"), HasSubstr("one index for each region"));
  EXPECT_THAT(run({1, 4}, {2}, 0, "avg"), HasSubstr("batch index 2 is outside [0, 1]"));
  EXPECT_THAT(run({1, 4}, {0}, -1, "avg"), HasSubstr("sampling_ratio is -1"));
  EXPECT_THAT(run({1, 4}, {0}, 0, "sum"), HasSubstr("mode 'sum'"));
}

TEST(MaxRoiPool, TakesTheLargestOfEachBin) {
  F x;
  for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>(i));  // 4 by 6
  OpTester t("MaxRoiPool", 22);
  // Columns 1 to 5 and rows 0 to 2 in two by two bins, which overlap where they do not divide; then a region outside.
  t.Input(Shape{1, 1, 4, 6}, x).Input(Shape{2, 5}, F{0, 2, 0, 10, 4, 0, 40, 40, 44, 44});
  t.Attr("pooled_shape", I{2, 2}).Attr("spatial_scale", 0.5f);
  EXPECT_THAT(t.Values<float>(), ElementsAre(9, 11, 15, 17, 0, 0, 0, 0));
}

TEST(MaxRoiPool, NamesWhatDoesNotFit) {
  const auto run = [](F rois, I pooled) {
    OpTester t("MaxRoiPool", 1);
    t.Input(Shape{1, 1, 1, 1}, F{1}).Input(Shape{1, static_cast<int64_t>(rois.size())}, rois);
    return t.Attr("pooled_shape", pooled).Error();
  };
  EXPECT_THAT(run({1, 0, 0, 1, 1}, {1, 1}), HasSubstr("outside [0, 0]"));
  EXPECT_THAT(run({std::numeric_limits<float>::quiet_NaN(), 0, 0, 1, 1}, {1, 1}), HasSubstr("outside [0, 0]"));
  EXPECT_THAT(run({0, 0, 0, 1}, {1, 1}), HasSubstr("[regions, 5]"));
  EXPECT_THAT(run({0, 0, 0, 1, 1}, {1, 0}), HasSubstr("pooled_shape"));
}

TEST(MaxUnpool, PutsElementsBack) {
  OpTester t("MaxUnpool", 11);
  t.Input(Shape{1, 2, 1, 2}, F{1, 2, 3, 4}).Input(Shape{1, 2, 1, 2}, I{5, 2, 8, 15});
  t.Attr("kernel_shape", I{2, 2}).Attr("strides", I{2, 2});
  EXPECT_THAT(t.Values<float>(), ElementsAre(0, 0, 2, 0, 0, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 4));
}

TEST(MaxUnpool, UndoesMaxPoolForEveryInputSize) {
  for (const int64_t size : {4, 5, 6, 7}) {
    const F x = TestFloats(2 * size * size);
    OpTester pool("MaxPool", 12);
    pool.Input(Shape{1, 2, size, size}, x).Attr("kernel_shape", I{3, 3}).Attr("strides", I{2, 2});
    const auto pooled = pool.Attr("pads", I{1, 1, 1, 1}).Outputs(2).Run();
    ASSERT_TRUE(pooled.ok()) << pooled.status().message();
    OpTester unpool("MaxUnpool", 11);
    unpool.Input((*pooled)[0]).Input((*pooled)[1]).Input(Shape{4}, I{1, 2, size, size});
    unpool.Attr("kernel_shape", I{3, 3}).Attr("strides", I{2, 2}).Attr("pads", I{1, 1, 1, 1});
    const F y = unpool.Values<float>();
    F want(x.size(), 0.0f);
    for (int64_t i : (*pooled)[1].tensor().values<int64_t>()) want[static_cast<size_t>(i)] = x[static_cast<size_t>(i)];
    EXPECT_EQ(y, want) << size;
  }
}

TEST(MaxUnpool, CountsInTheImpliedShapeAsOnnxExampleDoes) {
  OpTester t("MaxUnpool", 11);
  t.Input(Shape{1, 1, 2, 2}, F{5, 6, 7, 8}).Input(Shape{1, 1, 2, 2}, I{5, 7, 13, 15}).Input(Shape{4}, I{1, 1, 5, 5});
  t.Attr("kernel_shape", I{2, 2}).Attr("strides", I{2, 2});
  F want(25, 0.0f);
  want[6] = 5;
  want[8] = 6;
  want[16] = 7;
  want[18] = 8;
  EXPECT_EQ(t.Values<float>(), want);
}

TEST(MaxUnpool, NamesWhatDoesNotFit) {
  const auto run = [](I indices, I shape) {
    OpTester t("MaxUnpool", 11);
    t.Input(Shape{1, 1, 2}, F{1, 2}).Input(Shape{1, 1, static_cast<int64_t>(indices.size())}, indices);
    if (!shape.empty()) t.Input(Shape{static_cast<int64_t>(shape.size())}, shape);
    return t.Attr("kernel_shape", I{2}).Attr("strides", I{2}).Error();
  };
  EXPECT_THAT(run({0, 4}, {}), HasSubstr("index 4 is outside a tensor of shape [1,1,4]"));
  EXPECT_THAT(run({0, -1}, {}), HasSubstr("index -1"));
  EXPECT_THAT(run({0, 9}, {1, 1, 5}), HasSubstr("index 9"));
  EXPECT_THAT(run({0, 1, 2}, {}), HasSubstr("must be the same"));
  EXPECT_THAT(run({0, 1}, {1, 5}), HasSubstr("2 elements"));
  EXPECT_THAT(run({0, 1}, {1, 1, -5}), HasSubstr("-5"));
  EXPECT_THAT(run({0, 1}, {int64_t{1} << 40, int64_t{1} << 40, 5}), HasSubstr("MaxUnpool"));
}

TEST(MaxUnpool, InfersSymbols) {
  Graph g;
  g.opset_imports[""] = 11;
  const Dim h = Dim::Symbol("h");
  const Dims dims = {Dim::Symbol("n"), 3, h};
  GraphValue *x = g.AddInput("x", ValueType::Tensor(DType::kF32, dims)),
             *i = g.AddInput("i", ValueType::Tensor(DType::kI64, dims));
  Node* node = g.AddNode({.op_type = "MaxUnpool",
                          .inputs = {x, i},
                          .outputs = {"y"},
                          .attributes = {{"kernel_shape", I{3}}, {"strides", I{2}}, {"pads", I{1, 0}}}});
  g.AddOutput(node->output(0));
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(*node->output(0)->type().shape, (Dims{dims[0], 3, h * 2}));
}

const F kBoxes = {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, -0.1f, 1, 0.9f, 0, 10, 1, 11, 0, 10.1f, 1, 11.1f, 0, 100, 1, 101};
const F kScores = {0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f};

TEST(NonMaxSuppression, LeavesOutWhatOverlapsABetterBox) {
  const auto run = [](int64_t most, float iou, F score_threshold) {
    OpTester t("NonMaxSuppression", 11);
    t.Input(Shape{1, 6, 4}, kBoxes).Input(Shape{1, 1, 6}, kScores).Input(Shape{1}, I{most}).Input(Shape{}, F{iou});
    if (!score_threshold.empty()) t.Input(Shape{1}, score_threshold);
    return t.Values<int64_t>();
  };
  EXPECT_THAT(run(9, 0.5f, {}), ElementsAre(0, 0, 3, 0, 0, 0, 0, 0, 5));
  EXPECT_THAT(run(2, 0.5f, {0}), ElementsAre(0, 0, 3, 0, 0, 0));
  EXPECT_THAT(run(9, 0.5f, {0.3f}), ElementsAre(0, 0, 3, 0, 0, 0));  // a score must be above the threshold
  EXPECT_THAT(run(9, 1.0f, {0.6f}), ElementsAre(0, 0, 3, 0, 0, 0, 0, 0, 1));
  EXPECT_THAT(run(0, 0.5f, {}), ElementsAre());
  EXPECT_THAT(run(-3, 0.5f, {}), ElementsAre());
}

TEST(NonMaxSuppression, ReadsCornersInAnyOrderAndCentres) {
  OpTester flipped("NonMaxSuppression", 10), centre("NonMaxSuppression", 10);
  flipped.Input(Shape{1, 2, 4}, F{1, 1, 0, 0, 1, 0.1f, 0, 1.1f}).Input(Shape{1, 1, 2}, F{1, 2});
  EXPECT_THAT(flipped.Input(Shape{}, I{5}).Input(Shape{}, F{0.5f}).Values<int64_t>(), ElementsAre(0, 0, 1));
  centre.Input(Shape{1, 2, 4}, F{0.5f, 0.5f, 1, 1, 0.6f, 0.5f, 1, 1}).Input(Shape{1, 1, 2}, F{1, 2});
  centre.Input(Shape{}, I{5}).Input(Shape{}, F{0.5f}).Attr("center_point_box", int64_t{1});
  EXPECT_THAT(centre.Values<int64_t>(), ElementsAre(0, 0, 1));
}

TEST(NonMaxSuppression, GoesThroughImagesAndClasses) {
  OpTester t("NonMaxSuppression", 11);
  // Two boxes that do not overlap; of equal scores the first comes first, NaN last.
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  t.Input(Shape{2, 2, 4}, F{0, 0, 1, 1, 5, 5, 6, 6, 0, 0, 1, 1, 0, 0, 1, 1});
  t.Input(Shape{2, 2, 2}, F{1, 1, kNan, 0, 3, 4, 4, 4}).Input(Shape{}, I{2});
  EXPECT_THAT(t.Values<int64_t>(), ElementsAre(0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0));
}

TEST(NonMaxSuppression, KeepsBoxesAtTheThreshold) {
  OpTester t("NonMaxSuppression", 11);  // the overlap is 1 of 2
  t.Input(Shape{1, 2, 4}, F{0, 0, 1, 2, 0, 0, 1, 1}).Input(Shape{1, 1, 2}, F{2, 1}).Input(Shape{}, I{2});
  EXPECT_THAT(t.Input(Shape{}, F{0.5f}).Values<int64_t>(), ElementsAre(0, 0, 0, 0, 0, 1));
}

TEST(NonMaxSuppression, NamesWhatDoesNotFit) {
  const auto run = [](const Shape& boxes, const Shape& scores, float iou, int64_t centre) {
    OpTester t("NonMaxSuppression", 11);
    t.Input(boxes, TestFloats(boxes.num_elements())).Input(scores, TestFloats(scores.num_elements()));
    return t.Input(Shape{}, I{1}).Input(Shape{}, F{iou}).Attr("center_point_box", centre).Error();
  };
  EXPECT_THAT(run({1, 2, 5}, {1, 1, 2}, 0, 0), HasSubstr("[images, boxes, 4]"));
  EXPECT_THAT(run({1, 2, 4}, {1, 1, 3}, 0, 0), HasSubstr("scores have shape [1,1,3]"));
  EXPECT_THAT(run({1, 2, 4}, {2, 1, 2}, 0, 0), HasSubstr("scores have shape [2,1,2]"));
  EXPECT_THAT(run({1, 2, 4}, {1, 1, 2}, 1.5f, 0), HasSubstr("iou_threshold is 1.5"));
  EXPECT_THAT(run({1, 2, 4}, {1, 1, 2}, 0, 2), HasSubstr("center_point_box is 2"));
}

}  // namespace
}  // namespace quern
