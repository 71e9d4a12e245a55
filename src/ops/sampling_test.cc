// Operators that read images at computed positions, or put blocks of them together.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;
using S = std::vector<std::string>;

// The element of a line that a whole position reads, or nothing: by the rules of the padding, one reflection at a time.
std::optional<int64_t> ElementAt(const std::string& padding, bool align, int64_t n, int64_t i) {
  if (padding == "zeros") return i >= 0 && i < n ? std::optional(i) : std::nullopt;
  if (padding == "border") return std::clamp<int64_t>(i, 0, n - 1);
  while (i < 0 || i >= n) {
    if (i < 0) i = align ? -i : -1 - i;
    if (i >= n) i = align ? 2 * (n - 1) - i : 2 * n - 1 - i;
  }
  return i;
}

double Keys(double d) {
  d = std::fabs(d);
  const double a = -0.75;
  return d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1 : d < 2 ? a * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

// The weights of a line's elements for a position.
std::vector<double> Weights(const std::string& mode, const std::string& padding, bool align, int64_t n, float g) {
  const float size = static_cast<float>(n);
  const float x = align ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
  std::vector<double> weights(static_cast<size_t>(n), 0.0);
  const auto add = [&](int64_t i, double w) {
    if (const auto at = ElementAt(padding, align, n, i)) weights[static_cast<size_t>(*at)] += w;
  };
  if (mode == "nearest") {
    add(static_cast<int64_t>(std::nearbyint(x)), 1);
    return weights;
  }
  const int64_t floor = static_cast<int64_t>(std::floor(x));
  const double t = static_cast<double>(x) - static_cast<double>(floor);
  for (int64_t i = -1; i <= 2; ++i) {
    const double d = t - static_cast<double>(i);
    add(floor + i, mode == "cubic" ? Keys(d) : std::max(0.0, 1 - std::fabs(d)));
  }
  return weights;
}

TEST(GridSample, FollowsEveryModeAndPadding) {
  const int64_t n = 2, channels = 2, height = 3, width = 4, rows = 5, columns = 7;
  const F x = TestFloats(n * channels * height * width, 1);
  F grid = TestFloats(n * rows * columns * 2, 2);
  for (float& g : grid) g *= 2.5f;  // many positions are outside, some by more than one reflection
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    for (const std::string padding : {"zeros", "border", "reflection"}) {
      for (const int64_t align : {0, 1}) {
        std::vector<double> want;
        for (int64_t plane = 0; plane < n * channels; ++plane) {
          for (int64_t o = 0; o < rows * columns; ++o) {
            const size_t at = static_cast<size_t>((plane / channels * rows * columns + o) * 2);
            const auto across = Weights(mode, padding, align != 0, width, grid[at]);
            const auto down = Weights(mode, padding, align != 0, height, grid[at + 1]);
            double sum = 0;
            for (int64_t i = 0; i < height * width; ++i) {
              sum += down[static_cast<size_t>(i / width)] * across[static_cast<size_t>(i % width)] *
                     x[static_cast<size_t>(plane * height * width + i)];
            }
            want.push_back(sum);
          }
        }
        SCOPED_TRACE(mode + " " + padding + (align != 0 ? " aligned" : ""));
        OpTester t("GridSample", 20);
        t.Input(Shape{n, channels, height, width}, x).Input(Shape{n, rows, columns, 2}, grid);
        t.Attr("mode", mode).Attr("padding_mode", padding).Attr("align_corners", align);
        ExpectNear(t.Values<float>(), want);
      }
    }
  }
}

TEST(GridSample, SamplesAnyNumberOfDimensions) {
  OpTester line("GridSample", 22), volume("GridSample", 22);
  line.Input(Shape{1, 1, 3}, F{10, 20, 40}).Input(Shape{1, 4, 1}, F{-1, -0.5f, 0.5f, 1});
  EXPECT_THAT(line.Attr("align_corners", int64_t{1}).Values<float>(), ElementsAre(10, 15, 30, 40));
  volume.Input(Shape{1, 1, 2, 2, 2}, F{0, 1, 2, 3, 4, 5, 6, 7}).Input(Shape{1, 1, 1, 2, 3}, F{0, 0, 0, 1, -1, 1});
  EXPECT_THAT(volume.Attr("align_corners", int64_t{1}).Values<float>(), ElementsAre(3.5f, 5));  // x comes first
}

Tensor Bools(const Shape& shape, const std::vector<int>& values) {
  const Tensor t = Tensor::Allocate(DType::kBool, shape).value();
  for (size_t i = 0; i < values.size(); ++i) t.data<bool>()[i] = values[i] != 0;
  return t;
}

TEST(GridSample, KeepsTheElementType) {
  const F grid = {0.5f, 0};
  OpTester bytes("GridSample", 20), words("GridSample", 20), text("GridSample", 20), bits("GridSample", 20);
  bytes.Input<int8_t>({1, 1, 1, 2}, {-3, 100}).Input(Shape{1, 1, 1, 2}, grid).Attr("align_corners", int64_t{1});
  EXPECT_THAT(bytes.Values<int8_t>(), ElementsAre(74));  // 74.25
  words.Input(StringTensor{{1, 1, 1, 2}, {"a", "b"}}).Input(Shape{1, 1, 2, 2}, F{0.5f, 0, 9, 0});
  const auto result = words.Attr("mode", std::string("nearest")).Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ((*result)[0].strings().values, (S{"b", ""}));
  text.Input(StringTensor{{1, 1, 1, 2}, {"a", "b"}}).Input(Shape{1, 1, 1, 2}, grid);
  EXPECT_THAT(text.Error(), HasSubstr("string"));
  bits.Input(Bools({1, 1, 1, 2}, {0, 1})).Input(Shape{1, 1, 2, 2}, F{-0.9f, 0, 0.5f, 0});
  EXPECT_THAT(bits.Values<bool>(), ElementsAre(false, true));
  const Tensor complex = Tensor::Allocate(DType::kC64, {1, 1, 1, 2}).value();
  const F parts = {1, -1, 3, 5};
  std::copy(parts.begin(), parts.end(), static_cast<float*>(complex.raw_data()));
  OpTester pairs("GridSample", 22);
  const auto sampled = pairs.Input(complex).Input(Shape{1, 1, 1, 2}, F{0, 0}).Run();
  ASSERT_TRUE(sampled.ok()) << sampled.status().message();
  const auto* y = static_cast<const float*>((*sampled)[0].tensor().raw_data());
  EXPECT_THAT((F{y[0], y[1]}), ElementsAre(2, 2));
}

TEST(GridSample, ReadsNothingAtPositionsThatAreNone) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    for (const std::string padding : {"zeros", "border", "reflection"}) {
      OpTester t("GridSample", 20);
      t.Input(Shape{1, 1, 1, 2}, F{7, 7}).Input(Shape{1, 1, 4, 2}, F{kNan, 0, kInf, 0, -kInf, 0, 1e30f, 0});
      const float v = padding == "zeros" ? 0.0f : 7.0f;
      EXPECT_THAT(t.Attr("mode", mode).Attr("padding_mode", padding).Values<float>(),
                  testing::Each(testing::FloatNear(v, 1e-6f)));
    }
  }
  OpTester border("GridSample", 20);  // the end that is nearest
  border.Input(Shape{1, 1, 1, 2}, F{6, 7}).Input(Shape{1, 1, 2, 2}, F{kInf, 0, -kInf, 0});
  EXPECT_THAT(border.Attr("padding_mode", std::string("border")).Values<float>(), ElementsAre(7, 6));
  // One element with aligned corners has no range to reflect in.
  OpTester one("GridSample", 20);
  one.Input(Shape{1, 1, 1, 1}, F{3}).Input(Shape{1, 1, 1, 2}, F{5, -4}).Attr("align_corners", int64_t{1});
  EXPECT_THAT(one.Attr("padding_mode", std::string("reflection")).Values<float>(), ElementsAre(3));
}

TEST(GridSample, NamesWhatDoesNotFit) {
  OpTester rank("GridSample", 16), batch("GridSample", 20), depth("GridSample", 20), mode("GridSample", 20);
  rank.Input(Shape{1, 1, 3}, F{1, 2, 3}).Input(Shape{1, 1, 1}, F{0});
  EXPECT_THAT(rank.Error(), HasSubstr("4 dimensions are needed"));
  batch.Input(Shape{1, 1, 1, 1}, F{1}).Input(Shape{2, 1, 1, 2}, F{0, 0, 0, 0});
  EXPECT_THAT(batch.Error(), HasSubstr("does not fit"));
  depth.Input(Shape{1, 1, 1, 1}, F{1}).Input(Shape{1, 1, 1, 3}, F{0, 0, 0});
  EXPECT_THAT(depth.Error(), HasSubstr("does not fit"));
  mode.Input(Shape{1, 1, 1, 1}, F{1}).Input(Shape{1, 1, 1, 2}, F{0, 0}).Attr("mode", std::string("area"));
  EXPECT_THAT(mode.Error(), HasSubstr("mode 'area'"));
  OpTester empty("GridSample", 20);
  empty.Input(Shape{1, 1, 0, 1}, F{}).Input(Shape{1, 1, 1, 2}, F{0, 0}).Attr("padding_mode", std::string("border"));
  EXPECT_THAT(empty.Error(), HasSubstr("nothing to read"));
}

// The type of a node's first output.
std::string TypeOfOutput(NodeSpec spec, Graph& g) {
  spec.outputs = {"y"};
  Node* node = g.AddNode(std::move(spec));
  g.AddOutput(node->output(0));
  const Status status = InferShapes(g);
  return status.ok() ? TypeToString(node->output(0)->type()) : status.message();
}

TEST(GridSample, KeepsSymbolsInTheShape) {
  Graph g;
  g.opset_imports[""] = 20;
  const Dim n = Dim::Symbol("n"), h = Dim::Symbol("h");
  GraphValue* x = g.AddInput("x", ValueType::Tensor(DType::kF32, Dims{n, 3, Dim::Symbol("a"), 9}));
  GraphValue* grid = g.AddInput("g", ValueType::Tensor(DType::kF32, Dims{n, h, h * 2, 2}));
  EXPECT_EQ(TypeOfOutput({.op_type = "GridSample", .inputs = {x, grid}}, g), "f32[n,3,h,2*h]");
}

TEST(AffineGrid, MapsEvenlySpacedPositions) {
  const F theta = {2, 0, 0.25f, 0.5f, -1, 1};  // x' = 2x + 1/4, y' = x/2 - y + 1
  for (const int64_t align : {0, 1}) {
    std::vector<double> want;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 2; ++j) {
        const double x = align != 0 ? -1 + 2 * j : -0.5 + j, y = align != 0 ? -1 + i : (2 * i - 2) / 3.0;
        want.push_back(2 * x + 0.25);
        want.push_back(0.5 * x - y + 1);
      }
    }
    OpTester t("AffineGrid", 20);
    t.Input(Shape{1, 2, 3}, theta).Input(Shape{4}, I{1, 8, 3, 2}).Attr("align_corners", align);
    ExpectNear(t.Values<float>(), want);
  }
}

TEST(AffineGrid, GridsOfVolumesAndOfOneElement) {
  OpTester t("AffineGrid", 20);  // the identity gives the positions themselves, x first
  t.Input(Shape{1, 3, 4}, F{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}).Input(Shape{5}, I{1, 1, 1, 1, 2});
  EXPECT_THAT(t.Values<float>(), ElementsAre(-0.5f, 0, 0, 0.5f, 0, 0));
  OpTester one("AffineGrid", 20);
  one.Input(Shape{1, 2, 3}, F{1, 0, 0, 0, 1, 0}).Input(Shape{4}, I{1, 1, 1, 1}).Attr("align_corners", int64_t{1});
  EXPECT_THAT(one.Values<float>(), ElementsAre(0, 0));
  OpTester wrong("AffineGrid", 20), negative("AffineGrid", 20), few("AffineGrid", 20);
  wrong.Input(Shape{1, 2, 3}, TestFloats(6)).Input(Shape{5}, I{1, 1, 1, 1, 1});
  EXPECT_THAT(wrong.Error(), HasSubstr("[1,3,4] is needed"));
  negative.Input(Shape{1, 2, 3}, TestFloats(6)).Input(Shape{4}, I{1, 1, -1, 1});
  EXPECT_THAT(negative.Error(), HasSubstr("-1"));
  few.Input(Shape{1, 2, 3}, TestFloats(6)).Input(Shape{3}, I{1, 1, 1});
  EXPECT_THAT(few.Error(), HasSubstr("4 or 5 are needed"));
}

TEST(DeformConv, WithoutOffsetsIsAConvolution) {
  const int64_t channels = 4, height = 5, width = 6;
  const F x = TestFloats(2 * channels * height * width, 3), w = TestFloats(6 * 2 * 3 * 2, 4), b = TestFloats(6, 5);
  const auto configure = [&](OpTester& t) {
    t.Attr("group", int64_t{2}).Attr("pads", I{1, 0, 1, 1}).Attr("strides", I{2, 1}).Attr("dilations", I{1, 2});
  };
  OpTester plain("Conv", 11);
  plain.Input(Shape{2, channels, height, width}, x).Input(Shape{6, 2, 3, 2}, w).Input(Shape{6}, b);
  configure(plain);
  const F want = plain.Values<float>();
  OpTester t("DeformConv", 19);
  t.Input(Shape{2, channels, height, width}, x).Input(Shape{6, 2, 3, 2}, w);
  t.Input(Shape{2, 24, 3, 5}, F(2 * 24 * 15, 0.0f)).Input(Shape{6}, b).Attr("offset_group", int64_t{2});
  configure(t);
  ExpectNear(t.Values<float>(), {want.begin(), want.end()});
}

TEST(DeformConv, ReadsWhereOffsetsPoint) {
  // One tap at (0.5 + offset row, offset column) of {0 1; 2 3; 4 5}, for the rows 0 and 1 of the output.
  const auto run = [](F offsets, F mask) {
    OpTester t("DeformConv", 22);
    t.Input(Shape{1, 1, 3, 2}, F{0, 1, 2, 3, 4, 5}).Input(Shape{1, 1, 1, 1}, F{2});
    t.Input(Shape{1, 2, 3, 2}, std::move(offsets)).Input(Shape{1}, F{10}).Input(Shape{1, 1, 3, 2}, std::move(mask));
    return t.Values<float>();
  };
  const F rows = {0.5f, 0, 0, -9, 0, 0.5f}, columns = {0, -0.5f, 0.5f, 0, 1e30f, 0};
  F offsets = rows;
  offsets.insert(offsets.end(), columns.begin(), columns.end());
  // (0.5, 0): 1; (0, 0.5): 0.5; (1, 0.5): 2.5; outside; outside; (2.5, 1): half of 5.
  EXPECT_THAT(run(offsets, F{1, 1, 0.5f, 1, 1, 1}), ElementsAre(12, 11, 12.5f, 10, 10, 15));
}

TEST(DeformConv, WorksOnLinesAndNamesWhatDoesNotFit) {
  OpTester line("DeformConv", 22);
  line.Input(Shape{1, 1, 4}, F{1, 2, 4, 8}).Input(Shape{1, 1, 2}, F{1, 10});
  line.Input(Shape{1, 2, 3}, F{0, 0, 0, 0.5f, 0, 0});
  EXPECT_THAT(line.Values<float>(), ElementsAre(31, 42, 84));
  const auto broken = [](const Shape& offsets, int64_t offset_group) {
    OpTester t("DeformConv", 22);
    t.Input(Shape{1, 3, 2, 2}, TestFloats(12)).Input(Shape{1, 3, 1, 1}, TestFloats(3));
    t.Input(offsets, F(static_cast<size_t>(offsets.num_elements()), 0.0f)).Attr("offset_group", offset_group);
    return t.Error();
  };
  EXPECT_THAT(broken({1, 4, 2, 2}, 1), HasSubstr("[1,2,2,2] is needed"));
  EXPECT_THAT(broken({1, 2, 2, 1}, 1), HasSubstr("[1,2,2,2] is needed"));
  EXPECT_THAT(broken({1, 4, 2, 2}, 2), HasSubstr("does not divide"));
  EXPECT_THAT(broken({1, 2, 2, 2}, 0), HasSubstr("at least 1"));
}

TEST(Col2Im, AddsOverlappingBlocks) {
  OpTester t("Col2Im", 18);  // two blocks of 2 by 1 in a column of 3: the middle belongs to both
  t.Input(Shape{1, 2, 2}, F{1, 2, 3, 4}).Input(Shape{2}, I{3, 1}).Input(Shape{2}, I{2, 1});
  EXPECT_THAT(t.Values<float>(), ElementsAre(1, 5, 4));
}

TEST(Col2Im, FollowsStridesPadsAndDilations) {
  const I image = {4, 5}, block = {2, 3}, strides = {2, 1}, pads = {1, 0, 0, 2}, dilations = {2, 1};
  const int64_t down = 2, across = 5;  // (4 + 1 - 3) / 2 + 1 and (5 + 2 - 3) / 1 + 1
  const F x = TestFloats(2 * 3 * 6 * down * across);
  std::vector<double> want(2 * 3 * 20, 0.0);
  size_t at = 0;
  for (int64_t plane = 0; plane < 6; ++plane) {
    for (int64_t k = 0; k < 6; ++k) {
      for (int64_t b = 0; b < down * across; ++b, ++at) {
        const int64_t row = b / across * 2 - 1 + k / 3 * 2, column = b % across + k % 3;
        if (row < 0 || row >= 4 || column >= 5) continue;
        want[static_cast<size_t>(plane * 20 + row * 5 + column)] += x[at];
      }
    }
  }
  OpTester t("Col2Im", 18);
  t.Input(Shape{2, 18, down * across}, x).Input(Shape{2}, image).Input(Shape{2}, block);
  t.Attr("strides", strides).Attr("pads", pads).Attr("dilations", dilations);
  ExpectNear(t.Values<float>(), want);
}

TEST(Col2Im, AddsInTheElementType) {
  OpTester bytes("Col2Im", 18), bits("Col2Im", 18);
  bytes.Input<uint8_t>({1, 2, 2}, {1, 200, 100, 4}).Input(Shape{2}, I{3, 1}).Input(Shape{2}, I{2, 1});
  EXPECT_THAT(bytes.Values<uint8_t>(), ElementsAre(1, 44, 4));  // 300 wraps around
  bits.Input(Bools({1, 2, 2}, {0, 1, 1, 0})).Input(Shape{2}, I{3, 1}).Input(Shape{2}, I{2, 1});
  EXPECT_THAT(bits.Values<bool>(), ElementsAre(false, true, false));
  OpTester half("Col2Im", 18);
  const std::vector<BFloat16> x = {BFloat16(1.0f), BFloat16(2.0f), BFloat16(3.0f), BFloat16(4.0f)};
  half.Input(Shape{1, 2, 2}, x).Input(Shape{2}, I{3, 1}).Input(Shape{2}, I{2, 1});
  EXPECT_EQ(static_cast<float>(half.Values<BFloat16>().at(1)), 5.0f);
}

TEST(Col2Im, NamesWhatDoesNotFit) {
  const auto run = [](const Shape& x, I image, I block) {
    OpTester t("Col2Im", 18);
    t.Input(x, TestFloats(x.num_elements())).Input(Shape{static_cast<int64_t>(image.size())}, image);
    return t.Input(Shape{static_cast<int64_t>(block.size())}, block).Error();
  };
  EXPECT_THAT(run({1, 3, 2}, {3, 1}, {2, 1}), HasSubstr("whole blocks"));
  EXPECT_THAT(run({1, 2, 3}, {3, 1}, {2, 1}), HasSubstr("the 2 blocks"));
  EXPECT_THAT(run({1, 2, 2}, {3, 1}, {2}), HasSubstr("one for each dimension"));
  EXPECT_THAT(run({1, 2, 2}, {3, 1}, {0, 1}), HasSubstr("[0,1]"));
  EXPECT_THAT(run({1, 2, 2}, {-3, 1}, {2, 1}), HasSubstr("-3"));
  EXPECT_THAT(run({2, 2}, {3, 1}, {2, 1}), HasSubstr("[2,2]"));
  EXPECT_THAT(run({1, 2, 2}, {int64_t{1} << 62, int64_t{1} << 62}, {2, 1}), HasSubstr(""));
}

TEST(Col2Im, InfersSymbols) {
  Graph g;
  g.opset_imports[""] = 18;
  const Dim n = Dim::Symbol("n");
  GraphValue* x = g.AddInput("x", ValueType::Tensor(DType::kF32, Dims{n, 12, 4}));
  GraphValue* image = g.AddConstant("i", Tensor::FromValues<int64_t>({2}, I{3, 3}));
  GraphValue* block = g.AddConstant("b", Tensor::FromValues<int64_t>({2}, I{2, 2}));
  EXPECT_EQ(TypeOfOutput({.op_type = "Col2Im", .inputs = {x, image, block}}, g), "f32[n,3,3,3]");
}

TEST(CenterCropPad, CutsAndSurrounds) {
  OpTester cut("CenterCropPad", 18), pad("CenterCropPad", 18), both("CenterCropPad", 18);
  EXPECT_THAT(cut.Input(Shape{5}, F{1, 2, 3, 4, 5}).Input(Shape{1}, I{2}).Values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(pad.Input(Shape{2}, F{1, 2}).Input<int32_t>({1}, {5}).Values<float>(), ElementsAre(0, 1, 2, 0, 0));
  both.Input(Shape{4, 2}, F{1, 2, 3, 4, 5, 6, 7, 8}).Input(Shape{2}, I{3, 2}).Attr("axes", I{-1, 0});
  EXPECT_THAT(both.Values<float>(), ElementsAre(3, 4, 0, 5, 6, 0));
  OpTester words("CenterCropPad", 18);
  const auto result = words.Input(StringTensor{{1}, {"a"}}).Input(Shape{1}, I{3}).Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ((*result)[0].strings().values, (S{"", "a", ""}));
  OpTester nothing("CenterCropPad", 18);
  EXPECT_THAT(nothing.Input(Shape{2, 0}, F{}).Input(Shape{2}, I{1, 2}).Values<float>(), ElementsAre(0, 0));
}

TEST(CenterCropPad, NamesWhatDoesNotFitAndKeepsSymbols) {
  OpTester few("CenterCropPad", 18), negative("CenterCropPad", 18), twice("CenterCropPad", 18);
  EXPECT_THAT(few.Input(Shape{2, 2}, TestFloats(4)).Input(Shape{1}, I{2}).Error(), HasSubstr("1 elements for 2 axes"));
  EXPECT_THAT(negative.Input(Shape{2}, TestFloats(2)).Input(Shape{1}, I{-2}).Error(), HasSubstr("negative element -2"));
  twice.Input(Shape{2, 2}, TestFloats(4)).Input(Shape{2}, I{1, 1}).Attr("axes", I{0, -2});
  EXPECT_THAT(twice.Error(), HasSubstr("given twice"));
  Graph g;
  g.opset_imports[""] = 18;
  GraphValue* x = g.AddInput("x", ValueType::Tensor(DType::kF32, Dims{Dim::Symbol("n"), 4}));
  GraphValue* extents = g.AddConstant("e", Tensor::FromValues<int64_t>({1}, I{7}));
  EXPECT_EQ(TypeOfOutput({.op_type = "CenterCropPad", .inputs = {x, extents}, .attributes = {{"axes", I{1}}}}, g),
            "f32[n,7]");
}

}  // namespace
}  // namespace quern
