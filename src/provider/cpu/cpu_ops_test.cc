// Operators of the CPU provider on random cases: pools, norms, reductions, movement, quantization, layers.
#include <gtest/gtest.h>

#include <cmath>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

TEST_F(CpuOps, Pools) {
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (int i = 0; i < 5 * kRounds; ++i) {
      const int spatial = static_cast<int>(Draw(1, 2));
      Case c{.op = op, .opset = 19};
      std::vector<int64_t> kernel, strides, pads, dilations;
      Shape shape{Draw(1, 2), Pick<int64_t>({1, 3, 16, 20, 70})};
      for (int d = 0; d < spatial; ++d) {
        kernel.push_back(Draw(1, 4));
        strides.push_back(Draw(1, 3));
        dilations.push_back(Draw(0, 3) == 0 ? 2 : 1);
        shape.push_back(Draw(8, 16));
      }
      for (int d = 0; d < 2 * spatial; ++d) pads.push_back(Draw(0, kernel[static_cast<size_t>(d % spatial)] - 1));
      c.Attr("kernel_shape", kernel).Attr("strides", strides).Attr("dilations", dilations);
      const std::string pad = Pick<std::string>({"NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
      if (pad == "NOTSET") c.Attr("pads", pads);
      c.Attr("auto_pad", pad).Attr("ceil_mode", Draw(0, 1));
      if (op == std::string("AveragePool")) c.Attr("count_include_pad", Draw(0, 1));
      const bool bytes = op == std::string("MaxPool") && Draw(0, 3) == 0;
      c.In(DrawTensor(bytes ? Pick({DType::kU8, DType::kI8}) : DType::kF32, shape, 2, op == std::string("MaxPool")));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
    for (int i = 0; i < kRounds; ++i) {
      Shape shape{Draw(0, 3), Pick<int64_t>({1, 5, 16, 130}), Draw(1, 40)};
      if (Draw(0, 1)) shape.push_back(Draw(1, 9));
      Case c{.op = op};
      ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(DType::kF32, shape))));
    }
  }
}

TEST_F(CpuOps, Softmax) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (int i = 0; i < 3 * kRounds; ++i) {
      const Shape shape = Draw(0, 4) == 0 ? Shape{3, Draw(100, 300), 90} : DrawShapeOrLarge(1, 6);
      Case c{.op = op, .opset = Pick({8, 11, 13, 21})};
      c.absolute = 3e-6;
      if (Draw(0, 3))
        c.Attr("axis", Draw(c.opset < 11 ? 0 : -shape.rank(), shape.rank() - 1));
      else if (c.opset < 13 && shape.rank() < 2)
        c.Attr("axis", int64_t{0});
      ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(DType::kF32, shape, 5, c.op == "Softmax" && i % 4 == 0))));
    }
  }
}

TEST_F(CpuOps, Normalizations) {
  for (int i = 0; i < 3 * kRounds; ++i) {
    const Shape shape = Draw(0, 1) ? DrawShape(1, 4, 20) : DrawShape(5, 6);
    const int64_t axis = Draw(-shape.rank(), shape.rank() - 1);
    Shape tail(shape.span().subspan(static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis)));
    Case layer{.op = "LayerNormalization"};
    layer.outputs = static_cast<int>(Draw(0, 1)) * 2 + 1;
    layer.relative = layer.absolute = 2e-5;
    layer.In(DrawTensor(DType::kF32, shape)).In(DrawTensor(DType::kF32, tail)).Attr("axis", axis);
    if (Draw(0, 1)) layer.In(DrawTensor(DType::kF32, tail));
    // Two elements may be all but equal: the rounded mean then shows, divided by the root of epsilon.
    if (tail.num_elements() < 8) layer.Attr("epsilon", 0.1f);
    ASSERT_NO_FATAL_FAILURE(Check(layer));
    Case rms{.op = "RMSNormalization", .opset = 23};
    rms.relative = rms.absolute = 1e-5;
    ASSERT_NO_FATAL_FAILURE(
        Check(rms.In(DrawTensor(DType::kF32, shape)).In(DrawTensor(DType::kF32, tail)).Attr("axis", axis)));

    Shape image{Draw(1, 3), Draw(1, 9), Draw(2, 30)};
    if (Draw(0, 1)) image.push_back(Draw(1, 8));
    const Shape channels{image[1]};
    Case instance{.op = "InstanceNormalization"};
    instance.relative = instance.absolute = 2e-5;
    instance.In(DrawTensor(DType::kF32, image))
        .In(DrawTensor(DType::kF32, channels))
        .In(DrawTensor(DType::kF32, channels))
        .Attr("epsilon", 0.1f);
    ASSERT_NO_FATAL_FAILURE(Check(instance));
    Case batch{.op = "BatchNormalization", .opset = Pick({9, 15})};
    batch.relative = batch.absolute = 1e-5;
    Tensor variance = DrawTensor(DType::kF32, channels);
    for (float& v : variance.values<float>()) v = std::fabs(v) + 0.1f;
    batch.In(DrawTensor(DType::kF32, image));
    for (int k = 0; k < 3; ++k) batch.In(DrawTensor(DType::kF32, channels));
    ASSERT_NO_FATAL_FAILURE(Check(batch.In(variance)));
  }
}

TEST_F(CpuOps, Reductions) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare",
                         "ReduceL1", "ReduceL2", "ReduceLogSum"}) {
    const std::string name = op;
    for (int i = 0; i < 3 * kRounds; ++i) {
      Shape shape = Draw(0, 5) == 0 ? Shape{Draw(2, 4), Draw(50, 90), Draw(3, 300)} : DrawShape(0, 6, 6, false);
      const bool extreme = name == "ReduceMax" || name == "ReduceMin";
      const bool integers = Draw(0, 2) == 0 && name != "ReduceMean" && name != "ReduceL2" && name != "ReduceLogSum";
      const DType integer = extreme && Draw(0, 1) ? Pick({DType::kI8, DType::kU8, DType::kBool})
                                                  : Pick({DType::kI32, DType::kI64, DType::kU32, DType::kU64});
      Case c{.op = op, .opset = extreme ? 20 : 18};
      c.relative = 2e-5;
      c.absolute = 3e-4;
      Tensor x = DrawTensor(integers ? integer : DType::kF32, shape, 1, integers && Draw(0, 1) != 0);
      if (name == "ReduceLogSum")
        for (float& v : x.values<float>()) v = std::fabs(v) + 0.1f;
      c.In(x);
      std::vector<int64_t> axes;
      for (int d = 0; d < shape.rank(); ++d) {
        if (Draw(0, 1)) axes.push_back(Draw(0, 1) ? d : d - shape.rank());
      }
      if (Draw(0, 4)) c.In(Ints(axes), true);
      c.Attr("keepdims", Draw(0, 1));
      if (Draw(0, 3) == 0) c.Attr("noop_with_empty_axes", int64_t{1});
      if (name == "ReduceLogSum") {  // without the Neg of the chained case, which would make its sums negative
        for (const bool portable : {false, true}) ASSERT_NO_FATAL_FAILURE(CheckOnce(c, portable, false));
        ASSERT_NO_FATAL_FAILURE(CheckStrided(c));
      } else {
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
  Case old{.op = "ReduceMean", .opset = 11};
  ASSERT_NO_FATAL_FAILURE(
      Check(old.In(DrawTensor(DType::kF32, Shape{2, 7, 5, 33})).Attr("axes", std::vector<int64_t>{1, 2})));
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    Case c{.op = op, .opset = 18};
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(DType::kF32, Shape{9, 40}, 2, true)).In(Ints({Draw(0, 1)}), true)));
  }
}

TEST_F(CpuOps, ReductionsOfFewLongLines) {
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceL2"}) {
    for (const DType type : {DType::kF32, DType::kF64, DType::kI64}) {
      if (type == DType::kI64 && std::string(op) == "ReduceL2") continue;
      Case c{.op = op, .opset = 18};
      c.absolute = 3e-4;
      c.In(DrawTensor(type, Shape{2, 270001}, 1)).In(Ints({1}), true);
      for (const bool portable : {false, true}) ASSERT_NO_FATAL_FAILURE(CheckOnce(c, portable, false));
    }
  }
}

// Lines of few elements, which are turned; more than one block of them, the last one not full.
TEST_F(CpuOps, SoftmaxOfShortLines) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const int64_t length : {1, 2, 3, 16, 17}) {
      for (const DType type : {DType::kF32, DType::kF64}) {
        Case c{.op = op, .opset = 13};
        c.absolute = c.relative = 1e-5;
        const Shape shape{Draw(2, 3), Draw(30, 90), length};
        ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(type, shape, 5, c.op == "Softmax"))));
      }
    }
  }
}

// Lines of few elements, which are folded side by side; more than one block of them, the last one not full.
TEST_F(CpuOps, ReductionsOfShortLines) {
  for (const int64_t length : {1, 2, 3, 8, 16, 17}) {
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"}) {
      const bool extreme = std::string(op) == "ReduceMax" || std::string(op) == "ReduceMin";
      const DType type = extreme ? Pick({DType::kF32, DType::kF64, DType::kU8, DType::kBool, DType::kI64})
                                 : Pick({DType::kF32, DType::kF64});
      Case c{.op = op, .opset = extreme ? 20 : 18};
      c.relative = 2e-5;
      c.absolute = 3e-4;
      c.In(DrawTensor(type, Shape{3, Draw(90, 200), length}, 1, extreme)).In(Ints({-1}), true);
      ASSERT_NO_FATAL_FAILURE(Check(c.Attr("keepdims", Draw(0, 1))));
    }
    for (const char* op : {"ArgMax", "ArgMin"}) {
      Case c{.op = op};
      const DType type = Pick({DType::kF32, DType::kF64, DType::kI64, DType::kU8});
      c.In(DrawTensor(type, Shape{Draw(250, 600), length}, 2, true));
      c.Attr("axis", int64_t{1}).Attr("select_last_index", Draw(0, 1));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, ArgMaxAndArgMin) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (int i = 0; i < 3 * kRounds; ++i) {
      const Shape shape = Draw(0, 5) == 0 ? Shape{Draw(2, 4), Draw(50, 300), Draw(3, 90)} : DrawShape(1, 6, 6, false);
      Case c{.op = op};
      c.In(DrawTensor(
          Pick({DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU32, DType::kU64, DType::kU8, DType::kI8}),
          shape, 2, true));
      c.Attr("axis", Draw(-shape.rank(), shape.rank() - 1))
          .Attr("keepdims", Draw(0, 1))
          .Attr("select_last_index", Draw(0, 1));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, Pad) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const Shape shape = DrawShape(1, 6, 5, false);
    const std::string mode = Pick<std::string>({"constant", "edge", "reflect", "wrap"});
    std::vector<int64_t> pads;
    for (int k = 0; k < 2 * shape.rank(); ++k) {
      pads.push_back(Draw(0, 2) ? 0 : Draw(mode == "constant" && shape[k % shape.rank()] > 3 ? -1 : 0, 3));
    }
    if (mode == "reflect") {
      for (size_t k = 0; k < pads.size(); ++k) {
        pads[k] = std::min(pads[k], shape[static_cast<int>(k) % shape.rank()] - 1);
      }
    }
    const DType t = AnyWidth();
    Case c{.op = "Pad", .opset = 19};
    c.In(DrawTensor(t, shape)).In(Ints(pads), true).Attr("mode", mode);
    if (Draw(0, 1)) c.In(DrawTensor(t, Shape{}), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
  Case old{.op = "Pad", .opset = 7};
  old.In(DrawTensor(DType::kF32, Shape{2, 3})).Attr("pads", std::vector<int64_t>{0, 1, 2, 0}).Attr("value", 1.5f);
  ASSERT_NO_FATAL_FAILURE(Check(old));
  Case axes{.op = "Pad", .opset = 19};
  axes.In(DrawTensor(DType::kF32, Shape{2, 3, 4})).In(Ints({1, 2}), true).Omit().In(Ints({-2}), true);
  ASSERT_NO_FATAL_FAILURE(Check(axes));
}

TEST_F(CpuOps, Tile) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = DrawShape(1, 6, 4);
    std::vector<int64_t> repeats;
    for (int d = 0; d < shape.rank(); ++d) repeats.push_back(Draw(Draw(0, 9) ? 1 : 0, 3));
    Case c{.op = "Tile"};
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(AnyWidth(), shape)).In(Ints(repeats), true)));
  }
  for (int i = 0; i < kRounds; ++i) {  // long rows, many copies, several threads
    const Shape shape = {Draw(1, 40), Draw(1, 4), Draw(1, Pick({5, 300}))};
    Case c{.op = "Tile"};
    c.In(DrawTensor(AnyWidth(), shape)).In(Ints({Draw(1, 5), Draw(1, 5), Draw(1, Pick({2, 400}))}), true);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, Resize) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const std::string mode = Pick<std::string>({"nearest", "linear", "cubic"});
    const bool last = Draw(0, 1) != 0;
    const Shape shape = last ? Shape{Draw(1, 2), Draw(2, 9), Draw(2, 9), Pick<int64_t>({3, 20})}
                             : Shape{Draw(1, 2), Draw(1, 5), Draw(2, 9), Draw(2, 9)};
    Case c{.op = "Resize", .opset = Pick({11, 13, 19})};
    c.absolute = 2e-5;
    const DType filtered = Draw(0, 2) ? DType::kF32 : Pick({DType::kU8, DType::kI8});
    c.In(DrawTensor(mode == "nearest" ? AnyWidth() : filtered, shape)).Attr("mode", mode);
    if (mode == "nearest") {
      c.Attr("nearest_mode", Pick<std::string>({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
    }
    c.Attr("coordinate_transformation_mode",
           Pick<std::string>({"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}));
    if (mode == "cubic") c.Attr("exclude_outside", Draw(0, 1)).Attr("cubic_coeff_a", -0.5f);
    if (mode != "nearest" && c.opset == 19) c.Attr("antialias", Draw(0, 1));
    const int first = last ? 1 : 2;
    const Tensor roi = Tensor::FromValues<float>(Shape{0}, std::vector<float>{});
    c.In(roi, true);
    if (Draw(0, 1)) {
      std::vector<float> scales(4, 1.0f);
      for (int d = first; d < first + 2; ++d) scales[static_cast<size_t>(d)] = Pick({0.5f, 1.0f, 1.3f, 2.0f, 3.0f});
      c.In(Tensor::FromValues<float>(Shape{4}, scales), true);
    } else {
      std::vector<int64_t> sizes(shape.begin(), shape.end());
      for (int d = first; d < first + 2; ++d) sizes[static_cast<size_t>(d)] = Draw(1, 14);
      c.In(roi, true).In(Ints(sizes), true);
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
  Case scalar{.op = "Resize", .opset = 19};
  ASSERT_NO_FATAL_FAILURE(Check(scalar.In(Tensor::Scalar(1.5f)).Omit().Omit().In(Ints({}), true)));
}

// Neighbours that come several times, of elements of each width; rows too, or not.
TEST_F(CpuOps, ResizeRepeatsElements) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kI64}) {
    for (const float times : {2.0f, 3.0f, 4.0f, 5.0f}) {
      for (const float rows : {1.0f, times}) {
        Case c{.op = "Resize", .opset = 13};
        c.In(DrawTensor(dtype, Shape{1, Draw(1, 3), Draw(1, 6), Draw(1, 40)})).Attr("mode", "nearest");
        c.Attr("coordinate_transformation_mode", "asymmetric").Attr("nearest_mode", "floor").Omit();
        c.In(Tensor::FromValues<float>(Shape{4}, std::vector<float>{1, 1, rows, times}), true);
        ASSERT_NO_FATAL_FAILURE(Check(c)) << DTypeName(dtype) << " " << times;
      }
    }
  }
}

TEST_F(CpuOps, Upsample) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    Case c{.op = "Upsample", .opset = Pick({6, 7, 9})};
    c.absolute = 1e-5;
    c.In(DrawTensor(DType::kF32, Shape{Draw(1, 2), Draw(1, 5), Draw(1, 6), Draw(1, 6)}));
    c.Attr("mode", Pick<std::string>({"nearest", c.opset == 6 ? "bilinear" : "linear"}));
    const float high = Pick({1.0f, 1.5f, 2.0f}), wide = Pick({1.0f, 2.0f, 3.0f});
    const std::vector<float> scales = {1, 1, high, wide};
    if (c.opset == 6) c.Attr("height_scale", high).Attr("width_scale", wide);
    if (c.opset == 7) c.Attr("scales", scales);
    if (c.opset == 9) c.In(Tensor::FromValues<float>(Shape{4}, scales), true);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, Rearrangements) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const int64_t b = Draw(1, 3);
    Case to_space{.op = "DepthToSpace"};
    to_space.In(DrawTensor(AnyWidth(), Shape{Draw(1, 2), b * b * Draw(1, 3), Draw(1, 5), Draw(1, 5)}));
    ASSERT_NO_FATAL_FAILURE(Check(to_space.Attr("blocksize", b).Attr("mode", Pick<std::string>({"DCR", "CRD"}))));
    Case to_depth{.op = "SpaceToDepth"};
    to_depth.In(DrawTensor(AnyWidth(), Shape{Draw(1, 2), Draw(1, 3), b * Draw(1, 4), b * Draw(1, 4)}));
    ASSERT_NO_FATAL_FAILURE(Check(to_depth.Attr("blocksize", b)));

    const Shape shape = DrawShape(1, 6);
    Case sums{.op = "CumSum"};
    sums.absolute = 1e-5;
    sums.In(DrawTensor(Pick({DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU32, DType::kU64}), shape));
    sums.In(Tensor::Scalar<int64_t>(Draw(-shape.rank(), shape.rank() - 1)), true);
    ASSERT_NO_FATAL_FAILURE(Check(sums.Attr("exclusive", Draw(0, 1)).Attr("reverse", Draw(0, 1))));

    Case triangle{.op = "Trilu"};
    triangle.In(DrawTensor(AnyWidth(), DrawShape(2, 6))).Attr("upper", Draw(0, 1));
    if (Draw(0, 1)) triangle.In(Tensor::Scalar<int64_t>(Draw(-8, 8)), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(triangle));
  }
  for (int i = 0; i < kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(0, 6);
    Case fill{.op = "ConstantOfShape", .opset = Pick({9, 20, 25})};
    fill.In(Ints({shape.begin(), shape.end()}), true);
    if (Draw(0, 3)) fill.Attr("value", Value(DrawTensor(AnyWidth(), Shape{1})));
    ASSERT_NO_FATAL_FAILURE(Check(fill));
  }
}

TEST_F(CpuOps, Range) {
  for (int round = 0; round < kRounds; ++round) {
    const int64_t start = Draw(-9, 9), delta = Pick<int64_t>({-3, -1, 1, 2}), count = Draw(0, 100);
    const int64_t limit = start + delta * count;
    Check(Case{.op = "Range"}
              .In(Tensor::Scalar(start), true)
              .In(Tensor::Scalar(limit), true)
              .In(Tensor::Scalar(delta), true));
    const auto narrow = [](int64_t v) { return Tensor::Scalar(static_cast<int32_t>(v)); };
    Check(Case{.op = "Range"}.In(narrow(start), true).In(narrow(limit), true).In(narrow(delta), true));
    const auto real = [](int64_t v) { return Tensor::Scalar(static_cast<float>(v) * 0.25f); };
    Check(Case{.op = "Range"}.In(real(start), true).In(real(limit), true).In(real(delta), true));
  }
}

TEST_F(CpuOps, Quantization) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(1, 6);
    const int64_t axis = Draw(-shape.rank(), shape.rank() - 1);
    const bool by_axis = Draw(0, 1) != 0;
    const Shape parameters = by_axis ? Shape{shape[static_cast<int>(axis < 0 ? axis + shape.rank() : axis)]} : Shape{};
    Tensor scale = DrawTensor(DType::kF32, parameters, 0.1f);
    for (float& s : scale.values<float>()) s = std::fabs(s) + 0.01f;
    const DType t = Pick({DType::kI8, DType::kU8});
    Case to{.op = "QuantizeLinear", .opset = Pick({13, 21})};
    to.In(DrawTensor(DType::kF32, shape, 5, i % 2 == 0)).In(scale, true).Attr("axis", axis);
    if (Draw(0, 1)) to.In(DrawTensor(t, parameters), true);
    ASSERT_NO_FATAL_FAILURE(Check(to));
    Case from{.op = "DequantizeLinear", .opset = Pick({13, 21})};
    const DType stored = Draw(0, 3) ? t : DType::kI32;
    from.In(DrawTensor(stored, shape)).In(scale, Draw(0, 1) != 0).Attr("axis", axis);
    if (Draw(0, 1)) from.In(DrawTensor(stored, parameters), true);
    ASSERT_NO_FATAL_FAILURE(Check(from));
    Case dynamic{.op = "DynamicQuantizeLinear", .opset = 11};
    dynamic.outputs = 3;
    ASSERT_NO_FATAL_FAILURE(Check(dynamic.In(DrawTensor(DType::kF32, DrawShapeOrLarge(1, 3), Pick({0.0f, 3.0f})))));
  }
  // A range without a number for its zero point.
  Case infinite{.op = "DynamicQuantizeLinear", .opset = 11};
  infinite.outputs = 3;
  ASSERT_NO_FATAL_FAILURE(Check(infinite.In(Tensor::FromValues<float>(Shape{3}, std::vector<float>{-INFINITY, 0, 2}))));
  // Halves go to the even neighbour, and what does not fit saturates.
  const std::vector<float> x = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f, 127.5f, 1e10f, -1e10f, NAN};
  Case halves{.op = "QuantizeLinear", .opset = 13};
  halves.In(Tensor::FromValues<float>(Shape{10}, x)).In(Tensor::Scalar(1.0f), true).In(Tensor::Scalar(int8_t{0}), true);
  ASSERT_NO_FATAL_FAILURE(Check(halves));
}

}  // namespace
}  // namespace quern::cpu
