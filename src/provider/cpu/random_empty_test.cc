// Operators of the CPU provider on operands without elements, alone and on strided memory: a batch of none, no
// channels, sums of nothing. Other tests draw such extents now and then; here every case has one.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// A shape of which one dimension is 0, but for those below `kept`.
Shape DrawEmpty(int min_rank, int max_rank, int kept = 0) {
  Shape s = DrawShape(min_rank, max_rank, 5, false);
  s[static_cast<int>(Draw(kept, s.rank() - 1))] = 0;
  return s;
}
// [batch, channels, spatial...] of which the batch is 0.
Shape DrawNoImages(int min_spatial, int max_spatial) {
  Shape s{0, Draw(1, 20)};
  for (int64_t d = Draw(min_spatial, max_spatial); d > 0; --d) s.push_back(Draw(4, 8));
  return s;
}
Tensor Floats(const Shape& shape) { return DrawTensor(DType::kF32, shape); }

TEST_F(CpuOps, EmptyElementwise) {
  for (const char* op : {"Relu", "Exp", "Clip", "Gelu", "Sign", "IsNaN", "Add", "Div", "Max", "PRelu", "Less", "Pow"}) {
    Case c{.op = op, .opset = 22};
    const Shape shape = DrawEmpty(1, 6);
    c.In(Floats(shape));
    const std::string name = op;
    if (name == "Add" || name == "Div" || name == "Max" || name == "PRelu" || name == "Less" || name == "Pow") {
      c.In(Floats(Shape{1}));
    }
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
  const Shape shape = DrawEmpty(1, 6);
  Case where{.op = "Where"};
  ASSERT_NO_FATAL_FAILURE(Check(where.In(DrawTensor(DType::kBool, shape)).In(Floats(Shape{1})).In(Floats(shape))));
  Case cast{.op = "Cast", .opset = 13};
  ASSERT_NO_FATAL_FAILURE(Check(cast.In(Floats(shape)).Attr("to", static_cast<int64_t>(DType::kI32))));
}

TEST_F(CpuOps, EmptyNormalizations) {
  for (int i = 0; i < kRounds; ++i) {
    const Shape shape = DrawEmpty(1, 6);
    const int64_t axis = Draw(-shape.rank(), shape.rank() - 1);
    const Shape tail(shape.span().subspan(static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis)));
    for (const char* op : {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"}) {
      Case c{.op = op, .opset = 23};
      if (c.op == "LayerNormalization") c.outputs = 3;
      ASSERT_NO_FATAL_FAILURE(Check(c.In(Floats(shape)).In(Floats(tail)).Attr("axis", axis)));
    }
    for (const char* op : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "MeanVarianceNormalization"}) {
      Case c{.op = op, .opset = 22};
      const bool many = c.op == "MeanVarianceNormalization";
      many ? c.Attr("axes", std::vector<int64_t>{axis}) : c.Attr("axis", axis);
      ASSERT_NO_FATAL_FAILURE(Check(c.In(Floats(shape))));
    }
    const Shape image = Draw(0, 1) ? DrawNoImages(1, 3) : DrawEmpty(3, 5, 2), channels{image[1]};
    for (const char* op : {"InstanceNormalization", "GroupNormalization", "BatchNormalization", "LRN"}) {
      Case c{.op = op, .opset = 22};
      c.In(Floats(image));
      if (c.op == "LRN") c.Attr("size", int64_t{3});
      if (c.op == "GroupNormalization") c.Attr("num_groups", int64_t{1});
      const int parameters = c.op == "LRN" ? 0 : c.op == "BatchNormalization" ? 4 : 2;
      for (int k = 0; k < parameters; ++k) c.In(Floats(channels));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
  }
}

TEST_F(CpuOps, EmptyReductions) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2",
                         "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin"}) {
    for (int i = 0; i < kRounds; ++i) {
      const Shape shape = DrawEmpty(1, 6);
      Case c{.op = op, .opset = 20};
      c.In(Floats(shape));
      std::vector<int64_t> axes;
      for (int d = 0; d < shape.rank(); ++d) {
        if (Draw(0, 1)) axes.push_back(Draw(0, 1) ? d : d - shape.rank());
      }
      c.In(Ints(axes), true).Attr("keepdims", Draw(0, 1));
      // Without the Neg of the chained case: -0 and 0 differ where they are divided by.
      for (const bool portable : {false, true}) ASSERT_NO_FATAL_FAILURE(CheckOnce(c, portable, false)) << c.ToString();
      ASSERT_NO_FATAL_FAILURE(CheckStrided(c));
      ASSERT_NO_FATAL_FAILURE(CheckDoubled(c));
    }
  }
  for (const char* op : {"ArgMax", "ArgMin"}) {
    Case c{.op = op};
    ASSERT_NO_FATAL_FAILURE(Check(c.In(Floats(DrawEmpty(2, 6, 1))).Attr("axis", int64_t{0})));
  }
  Case top{.op = "TopK", .opset = 11, .outputs = 2};
  ASSERT_NO_FATAL_FAILURE(Check(top.In(Floats(DrawEmpty(1, 6))).In(Ints({0}), true)));
}

TEST_F(CpuOps, EmptyWindows) {
  for (int i = 0; i < kRounds; ++i) {
    for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
      const Shape shape = DrawNoImages(1, 3);
      Case c{.op = op, .opset = 22};
      c.Attr("kernel_shape", std::vector<int64_t>(static_cast<size_t>(shape.rank() - 2), 2));
      if (c.op == "MaxPool") c.outputs = static_cast<int>(Draw(1, 2));
      ASSERT_NO_FATAL_FAILURE(Check(c.In(Floats(shape))));
    }
    const Shape image = DrawNoImages(2, 2);
    Case conv{.op = "Conv"};
    conv.In(Floats(image)).In(Floats(Shape{5, image[1], 2, 2}), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(conv));
    Case back{.op = "ConvTranspose"};
    back.In(Floats(image)).In(Floats(Shape{image[1], 5, 2, 2}), true).Attr("strides", std::vector<int64_t>{2, 2});
    ASSERT_NO_FATAL_FAILURE(Check(back));
    Case resize{.op = "Resize", .opset = 19};
    resize.In(Floats(image)).Omit().Omit().In(Ints({0, image[1], 3, 11}), true);
    ASSERT_NO_FATAL_FAILURE(Check(resize.Attr("mode", Pick<std::string>({"nearest", "linear", "cubic"}))));
    Case blocks{.op = "DepthToSpace"};
    ASSERT_NO_FATAL_FAILURE(Check(blocks.In(Floats(Shape{0, 8, 3, 2})).Attr("blocksize", int64_t{2})));
    Case depth{.op = "SpaceToDepth"};
    ASSERT_NO_FATAL_FAILURE(Check(depth.In(Floats(Shape{2, 0, 4, 2})).Attr("blocksize", int64_t{2})));
  }
}

TEST_F(CpuOps, EmptyMoves) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = DrawEmpty(1, 6);
    std::vector<int64_t> pads, repeats, extents(shape.begin(), shape.end());
    for (int d = 0; d < 2 * shape.rank(); ++d) pads.push_back(Draw(0, 2));
    for (int d = 0; d < shape.rank(); ++d) repeats.push_back(Draw(0, 3));
    Case pad{.op = "Pad", .opset = 19};
    ASSERT_NO_FATAL_FAILURE(Check(pad.In(Floats(shape)).In(Ints(pads), true)));
    Case tile{.op = "Tile"};
    ASSERT_NO_FATAL_FAILURE(Check(tile.In(Floats(shape)).In(Ints(repeats), true)));
    Case expand{.op = "Expand", .opset = 13};
    ASSERT_NO_FATAL_FAILURE(Check(expand.In(Floats(Shape{1})).In(Ints(extents), true)));
    for (const char* op : {"CumSum", "CumProd"}) {
      Case c{.op = op, .opset = 26};
      c.In(Floats(shape)).In(Tensor::Scalar(Draw(-shape.rank(), shape.rank() - 1)), true);
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
    Case triangle{.op = "Trilu"};
    ASSERT_NO_FATAL_FAILURE(Check(triangle.In(Floats(DrawEmpty(2, 5)))));
    Case reverse{.op = "ReverseSequence", .opset = 10};
    reverse.In(Floats(Shape{Draw(1, 4), 0, 3})).In(Ints({})).Attr("time_axis", int64_t{0});
    ASSERT_NO_FATAL_FAILURE(Check(reverse.Attr("batch_axis", int64_t{1})));
    Case crop{.op = "CenterCropPad", .opset = 18};
    for (int64_t& e : extents) e = Draw(0, 3);
    ASSERT_NO_FATAL_FAILURE(Check(crop.In(Floats(shape)).In(Ints(extents), true)));
  }
}

TEST_F(CpuOps, EmptyIndices) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape shape = DrawEmpty(2, 6, 1), none = DrawEmpty(1, 3);
    const auto indices = [](const Shape& s) {
      const Tensor t = Tensor::Allocate(DType::kI64, s).value();
      std::fill_n(t.data<int64_t>(), t.num_elements(), int64_t{0});
      return t;
    };
    Case of_none{.op = "Gather"}, by_none{.op = "Gather"};
    ASSERT_NO_FATAL_FAILURE(Check(of_none.In(Floats(shape)).In(indices(Shape{3}))));
    ASSERT_NO_FATAL_FAILURE(Check(by_none.In(Floats(Shape{3, 4})).In(indices(none)).Attr("axis", Draw(0, 1))));
    Case elements{.op = "GatherElements"};
    ASSERT_NO_FATAL_FAILURE(Check(elements.In(Floats(shape)).In(indices(shape))));
    Case tuples{.op = "GatherND"};
    ASSERT_NO_FATAL_FAILURE(Check(tuples.In(Floats(Shape{2, 3})).In(indices(Shape{0, 2}))));
    for (const char* op : {"Scatter", "ScatterElements"}) {
      Case c{.op = op, .opset = op[7] ? 18 : 9};
      const Shape part{0, 2};
      ASSERT_NO_FATAL_FAILURE(Check(c.In(Floats(Shape{3, 4})).In(indices(part)).In(Floats(part))));
    }
    Case nd{.op = "ScatterND", .opset = 18};
    ASSERT_NO_FATAL_FAILURE(Check(nd.In(Floats(Shape{3, 4})).In(indices(Shape{0, 1})).In(Floats(Shape{0, 4}))));
    Case hot{.op = "OneHot", .opset = 11};
    ASSERT_NO_FATAL_FAILURE(Check(hot.In(indices(none)).In(Ints({4}), true).In(Floats(Shape{2}))));
  }
}

TEST_F(CpuOps, EmptyLayers) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    const bool lstm = op[0] == 'L';
    const int64_t gates = lstm ? 4 : op[0] == 'G' ? 3 : 1, hidden = 5, input = 3;
    for (const Shape& x : {Shape{4, 0, input}, Shape{0, 2, input}}) {
      Case c{.op = op, .opset = 14, .outputs = lstm ? 3 : 2};
      c.In(Floats(x)).In(Floats(Shape{1, gates * hidden, input}), true);
      ASSERT_NO_FATAL_FAILURE(Check(c.In(Floats(Shape{1, gates * hidden, hidden}), true).Attr("hidden_size", hidden)));
    }
  }
  for (const DType t : {DType::kU8, DType::kI8}) {
    const Shape shape = DrawEmpty(2, 5);
    const Tensor scale = Tensor::Scalar(0.1f);
    const Tensor zero = DrawTensor(t, Shape{});
    Case to{.op = "QuantizeLinear", .opset = 21}, from{.op = "DequantizeLinear", .opset = 21};
    ASSERT_NO_FATAL_FAILURE(Check(to.In(Floats(shape)).In(scale, true).In(zero, true)));
    ASSERT_NO_FATAL_FAILURE(Check(from.In(DrawTensor(t, shape)).In(scale, true).In(zero, true)));
    Case product{.op = "MatMulInteger"};
    const int64_t m = Draw(0, 2), n = m == 0 ? Draw(0, 3) : 0;
    ASSERT_NO_FATAL_FAILURE(Check(product.In(DrawTensor(t, Shape{m, 4})).In(DrawTensor(t, Shape{4, n}))));
  }
}

}  // namespace
}  // namespace quern::cpu
