// Normalizations of groups and lines, Swish, predicates of floats, reversed sequences and regions of maps on the CPU
// provider, on random cases.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

TEST_F(CpuOps, GroupNormalization) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    const int64_t groups = Draw(1, 4), channels = groups * Draw(1, 4);
    Shape shape{Draw(0, 3), channels};
    for (int64_t d = Draw(0, 3); d > 0; --d) shape.push_back(Draw(1, 20));
    Case c{.op = "GroupNormalization", .opset = Pick({18, 21})};
    c.relative = c.absolute = 2e-5;
    const Shape parameters{c.opset < 21 ? groups : channels};
    c.In(DrawTensor(DType::kF32, shape))
        .In(DrawTensor(DType::kF32, parameters))
        .In(DrawTensor(DType::kF32, parameters));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("num_groups", groups).Attr("epsilon", 0.1f)));
  }
}

TEST_F(CpuOps, LpNormalization) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    Case c{.op = "LpNormalization", .opset = 22};
    c.relative = 1e-5;
    Tensor x = DrawTensor(DType::kF32, shape, 2, i % 4 == 0);
    if (i % 3 == 0) std::fill_n(x.data<float>(), std::min<int64_t>(x.num_elements(), 7), 0.0f);
    if (i % 5 == 0) {  // sums beyond float32
      for (float& v : x.values<float>()) v *= 1e38f;
    }
    c.In(x).Attr("p", Draw(1, 2));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("axis", Draw(-shape.rank(), shape.rank() - 1))));
  }
}

// NaN and infinities among the numbers; no huge ones, whose squares only the reference's doubles hold.
Tensor DrawNotFinite(const Shape& shape) {
  Tensor x = DrawTensor(DType::kF32, shape);
  for (float& v : x.values<float>()) {
    if (Draw(0, 20) == 0) v = Pick({NAN, INFINITY, -INFINITY});
  }
  return x;
}

TEST_F(CpuOps, NormalizationsOfWhatIsNotFinite) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape image{Draw(1, 3), 2 * Draw(1, 4), Draw(1, 9), Draw(1, 9)}, channels{image[1]}, line{image[3]};
    const auto parameter = [](const Shape& shape) { return DrawTensor(DType::kF32, shape); };
    for (const char* op : {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}) {
      Case c{.op = op, .opset = 23};
      c.relative = c.absolute = 2e-5;
      c.In(DrawNotFinite(image)).In(parameter(line)).Attr("epsilon", 0.1f);
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
    for (const char* op : {"InstanceNormalization", "GroupNormalization", "BatchNormalization"}) {
      Case c{.op = op, .opset = 22};
      c.relative = c.absolute = 2e-5;
      c.In(DrawNotFinite(image)).In(parameter(channels)).In(parameter(channels)).Attr("epsilon", 0.1f);
      if (c.op == "GroupNormalization") c.Attr("num_groups", int64_t{2});
      if (c.op == "BatchNormalization") {
        Tensor variance = parameter(channels);
        for (float& v : variance.values<float>()) v = std::fabs(v);
        c.In(parameter(channels)).In(variance);
      }
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
    Case rows{.op = "BatchNormalization", .opset = 15};
    rows.relative = rows.absolute = 2e-5;
    const Shape columns{Draw(1, 200)};
    Tensor variance = parameter(columns);
    for (float& v : variance.values<float>()) v = std::fabs(v) + 0.1f;
    rows.In(DrawNotFinite(Shape{Draw(1, 5), columns[0]}));
    for (int k = 0; k < 3; ++k) rows.In(parameter(columns), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(rows.In(variance)));
    for (const char* op : {"LRN", "LpNormalization", "MeanVarianceNormalization"}) {
      Case c{.op = op, .opset = 22};
      c.relative = c.absolute = 2e-5;
      if (c.op == "LRN") c.Attr("size", int64_t{3});
      ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawNotFinite(image))));
    }
  }
}

TEST_F(CpuOps, SimplifiedLayerNormalization) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    const int64_t axis = Draw(-shape.rank(), shape.rank() - 1);
    const Shape tail(shape.span().subspan(static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis)));
    Case c{.op = "SimplifiedLayerNormalization", .opset = 17};
    c.outputs = static_cast<int>(Draw(1, 2));
    c.relative = c.absolute = 1e-5;
    c.In(DrawTensor(DType::kF32, shape)).In(DrawTensor(DType::kF32, tail), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("axis", axis)));
    if (c.outputs == 2) ASSERT_NO_FATAL_FAILURE(CheckDoubled(c.Attr("stash_type", int64_t{11})));
  }
}

TEST_F(CpuOps, MeanVarianceNormalization) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const bool all = Draw(0, 1) != 0;
    Shape shape = all ? DrawShapeOrLarge(1, 6) : Shape{Draw(1, 3), Draw(0, 9), Draw(1, 9), Draw(2, 30)};
    if (i % 3 == 0) shape = Shape{Draw(2, 9), Draw(60, 300)};  // several blocks of columns
    Case c{.op = "MeanVarianceNormalization", .opset = Pick({9, 13})};
    c.relative = c.absolute = 2e-5;
    if (shape.rank() != 4 || Draw(0, 1)) {
      std::vector<int64_t> axes;
      for (int d = 0; d < shape.rank(); ++d) {
        if (Draw(0, 1)) axes.push_back(Draw(0, 1) ? d : d - shape.rank());
      }
      if (axes.empty()) axes.push_back(Draw(-shape.rank(), shape.rank() - 1));
      c.Attr("axes", axes);
    }
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(DType::kF32, shape))));
  }
}

TEST_F(CpuOps, Hardmax) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    Case c{.op = "Hardmax", .opset = Pick({6, 11, 13})};
    Tensor x = DrawTensor(DType::kF32, shape, 2, i % 2 == 0);
    for (float& v : x.values<float>()) v = Draw(0, 1) ? std::nearbyint(v) : v;  // equal ones among them
    c.In(x).Attr("axis", Draw(c.opset < 11 ? 0 : -shape.rank(), shape.rank() - 1));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
  Case scalar{.op = "Hardmax", .opset = 13};
  ASSERT_NO_FATAL_FAILURE(Check(scalar.In(Tensor::Scalar(-3.0f))));
}

TEST_F(CpuOps, Swish) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    Case c{.op = "Swish", .opset = 24};
    c.In(DrawTensor(DType::kF32, DrawShapeOrLarge(0, 6), 3));
    if (Draw(0, 1)) c.Attr("alpha", Pick({0.5f, 1.702f, -1.0f}));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, PredicatesOfFloats) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    Case nan{.op = "IsNaN", .opset = 20};
    ASSERT_NO_FATAL_FAILURE(Check(nan.In(DrawTensor(DType::kF32, DrawShapeOrLarge(0, 5), 2, true))));
    Case inf{.op = "IsInf", .opset = 20};
    inf.Attr("detect_positive", Draw(0, 1)).Attr("detect_negative", Draw(0, 1));
    ASSERT_NO_FATAL_FAILURE(Check(inf.In(DrawTensor(DType::kF32, DrawShapeOrLarge(0, 5), 2, true))));
  }
  const std::vector<double> odd = {NAN, INFINITY, -INFINITY, 1e308, 0};
  for (const char* op : {"IsNaN", "IsInf"}) {
    Case c{.op = op, .opset = 20};
    ASSERT_NO_FATAL_FAILURE(Check(c.In(Tensor::FromValues<double>(Shape{5}, odd))));
  }
}

TEST_F(CpuOps, ReverseSequence) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const int64_t steps = Draw(1, 6), entries = Draw(0, 4), time = Draw(0, 1);
    Shape shape = time == 0 ? Shape{steps, entries} : Shape{entries, steps};
    for (int64_t d = Draw(0, 3); d > 0; --d) shape.push_back(Draw(1, 5));
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < entries; ++b) lengths.push_back(Draw(0, steps));
    Case c{.op = "ReverseSequence", .opset = 10};
    c.In(DrawTensor(AnyWidth(), shape)).In(Ints(lengths));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("time_axis", time).Attr("batch_axis", 1 - time)));
  }
}

TEST_F(CpuOps, RoiAlign) {
  for (int i = 0; i < 5 * kRounds; ++i) {
    const Shape x{Draw(1, 3), Draw(1, 9), Draw(1, 12), Draw(1, 12)};
    const int64_t regions = Draw(0, 5);
    Tensor rois = Tensor::Allocate(DType::kF32, Shape{regions, 4}).value();
    std::vector<int64_t> batch;
    for (int64_t r = 0; r < regions; ++r) {
      batch.push_back(Draw(0, x[0] - 1));
      float* v = rois.data<float>() + 4 * r;
      for (int k = 0; k < 2; ++k) {
        v[k] = static_cast<float>(Draw(-20, 100)) / 10;
        v[k + 2] = v[k] + static_cast<float>(Draw(-5, 120)) / 10;
      }
    }
    Case c{.op = "RoiAlign", .opset = Pick({10, 16, 22})};
    c.relative = c.absolute = 1e-5;
    c.In(DrawTensor(DType::kF32, x)).In(rois).In(Ints(batch));
    c.Attr("mode", Pick<std::string>({"avg", "max"})).Attr("sampling_ratio", Draw(0, 3));
    c.Attr("output_height", Draw(1, 4)).Attr("output_width", Draw(1, 4)).Attr("spatial_scale", Pick({1.0f, 0.5f}));
    // Without the Neg of the chained case, which would turn regions around.
    for (const bool portable : {false, true}) ASSERT_NO_FATAL_FAILURE(CheckOnce(c, portable, false)) << c.ToString();
  }
}

TEST_F(CpuOps, BadLengthsAndImagesAreErrors) {
  Case reverse{.op = "ReverseSequence", .opset = 10};
  reverse.In(DrawTensor(DType::kF32, Shape{3, 1})).In(Ints({4}));
  Case align{.op = "RoiAlign", .opset = 16};
  align.In(DrawTensor(DType::kF32, Shape{1, 1, 3, 3})).In(DrawTensor(DType::kF32, Shape{1, 4})).In(Ints({1}));
  for (const auto& [c, message] :
       {std::pair(reverse, "length 4"), std::pair(align, "batch index 1 is outside [0, 0]")}) {
    Built b;
    ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
    const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, b.inputs, Config(false));
    ASSERT_FALSE(result.ok()) << c.op;
    EXPECT_NE(result.status().message().find(message), std::string::npos) << result.status().message();
  }
}

}  // namespace
}  // namespace quern::cpu
