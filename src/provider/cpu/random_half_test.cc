// Operators of the CPU provider on 16-bit floats, on random cases: each result is the one of float32, rounded.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// Alone, and before a Relu that the kernel's float32 reaches without being rounded on the way.
void CheckHalf(const Case& c) {
  SCOPED_TRACE(c.ToString());
  for (const bool portable : {false, true}) {
    for (const bool chained : {false, true}) {
      SCOPED_TRACE(std::string(portable ? "portable rows" : "the host's rows") + (chained ? ", before Relu" : ""));
      Built b;
      ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
      if (chained && IsHalf(b.node->output(0)->type().dtype)) {
        Node* relu = b.graph.AddNode({.op_type = "Relu", .opset = 14, .inputs = {b.node->output(0)}, .outputs = {"z"}});
        b.graph.SetOutput(0, relu->output(0));
        ASSERT_TRUE(InferShapes(b.graph).ok());
      }
      const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      ASSERT_EQ(RejectWidened(*b.node, Config(portable)), "");
      const Result<std::vector<Tensor>> actual = RunOnCpu(b.graph, b.inputs, Config(portable));
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      for (size_t i = 0; i < expected->size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(ExpectNear((*actual)[i], (*expected)[i].tensor(), c));
      }
    }
  }
}

DType DrawType() { return Pick({DType::kF16, DType::kBF16}); }

TEST_F(CpuOps, HalfElementwise) {
  for (const char* op : {"Relu", "LeakyRelu", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "Exp", "Sqrt", "Neg",
                         "Abs", "Floor", "Sign", "Erf", "Elu", "Softplus", "Gelu", "Mish", "Sin", "Clip"}) {
    for (int i = 0; i < kRounds / 2; ++i) {
      Case c{.op = op, .opset = 22};
      const DType t = DrawType();
      c.absolute = 1e-5;
      c.In(DrawHalf(t, DrawShapeOrLarge(0, 6), 3, i % 2 == 0 && op != std::string("Gelu")));
      if (op == std::string("Clip")) c.In(Halved(t, Tensor::Scalar(-1.0f))).In(Halved(t, Tensor::Scalar(1.3f)), true);
      ASSERT_NO_FATAL_FAILURE(CheckHalf(c));
    }
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Min", "Max", "PRelu", "Pow", "Sum", "Mean", "Equal", "Less"}) {
    for (int i = 0; i < kRounds; ++i) {
      Case c{.op = op, .opset = 22};
      if (op == std::string("Less") || op == std::string("Equal")) c.opset = 13;
      const DType t = DrawType();
      const Shape shape = DrawShapeOrLarge(0, 6);
      c.In(DrawHalf(t, shape, 2, i % 2 == 0)).In(DrawHalf(t, BroadcastPart(shape), 2, i % 2 == 0), Draw(0, 1) != 0);
      ASSERT_NO_FATAL_FAILURE(CheckHalf(c));
    }
  }
}

TEST_F(CpuOps, HalfPools) {
  for (const char* op : {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}) {
    for (int i = 0; i < kRounds; ++i) {
      Case c{.op = op, .opset = 22};
      const int spatial = static_cast<int>(Draw(1, 2));
      Shape shape{Draw(1, 2), Pick<int64_t>({1, 3, 16, 20})};
      for (int d = 0; d < spatial; ++d) shape.push_back(Draw(4, 16));
      if (op[0] != 'G') {
        c.Attr("kernel_shape", std::vector<int64_t>(static_cast<size_t>(spatial), Draw(1, 3)));
        c.Attr("pads", std::vector<int64_t>(static_cast<size_t>(2 * spatial), 0));
        c.Attr("auto_pad", Pick<std::string>({"NOTSET", "SAME_UPPER"}));
        if (op[0] == 'A') c.Attr("count_include_pad", Draw(0, 1));
      }
      c.absolute = 1e-6;
      ASSERT_NO_FATAL_FAILURE(CheckHalf(c.In(DrawHalf(DrawType(), shape, 2, op == std::string("MaxPool")))));
    }
  }
}

TEST_F(CpuOps, HalfSoftmaxAndNormalizations) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const DType t = DrawType();
    const Shape shape = DrawShape(1, 5, 12);
    const int64_t axis = Draw(-shape.rank(), shape.rank() - 1);
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      Case c{.op = op, .opset = 13};
      c.absolute = 3e-6;
      ASSERT_NO_FATAL_FAILURE(CheckHalf(c.In(DrawHalf(t, shape, 5)).Attr("axis", axis)));
    }
    const Shape tail(shape.span().subspan(static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis)));
    Case layer{.op = "LayerNormalization"};
    layer.outputs = static_cast<int>(Draw(0, 1)) * 2 + 1;
    layer.relative = layer.absolute = 3e-5;
    layer.In(DrawHalf(t, shape)).In(DrawHalf(t, tail), true).Attr("axis", axis).Attr("epsilon", 0.1f);
    if (Draw(0, 1)) layer.In(DrawHalf(t, tail), true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(layer));

    const Shape image{Draw(1, 3), Draw(1, 9), Draw(2, 30)}, channels{image[1]};
    Case instance{.op = "InstanceNormalization", .opset = 22};
    instance.absolute = instance.relative = 3e-5;
    instance.In(DrawHalf(t, image)).In(DrawHalf(t, channels)).In(DrawHalf(t, channels)).Attr("epsilon", 0.1f);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(instance));
    Case batch{.op = "BatchNormalization", .opset = 15};
    batch.absolute = batch.relative = 3e-5;
    batch.In(DrawHalf(t, image));
    for (int k = 0; k < 3; ++k) batch.In(DrawHalf(t, channels), true);
    batch.In(Halved(t, Tensor::FromValues<float>(channels, std::vector<float>(static_cast<size_t>(image[1]), 0.7f))),
             true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(batch));
  }
}

TEST_F(CpuOps, HalfReductions) {
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2"}) {
    for (int i = 0; i < kRounds; ++i) {
      const Shape shape = DrawShape(1, 5, 6, false);
      Case c{.op = op, .opset = 18};
      c.relative = c.absolute = 1e-4;
      c.In(DrawHalf(DrawType(), shape, 1)).In(Ints({Draw(-shape.rank(), shape.rank() - 1)}), true);
      ASSERT_NO_FATAL_FAILURE(CheckHalf(c.Attr("keepdims", Draw(0, 1))));
    }
  }
  for (const char* op : {"ArgMax", "ArgMin"}) {
    Case c{.op = op};
    ASSERT_NO_FATAL_FAILURE(CheckHalf(c.In(DrawHalf(DrawType(), Shape{5, 7, 4}, 2, true)).Attr("axis", int64_t{1})));
  }
  Case top{.op = "TopK", .opset = 24, .outputs = 2};
  ASSERT_NO_FATAL_FAILURE(CheckHalf(top.In(DrawHalf(DrawType(), Shape{5, 70})).In(Ints({7}), true)));
}

TEST_F(CpuOps, HalfProducts) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const DType t = DrawType();
    const int64_t m = Draw(1, 20), n = Draw(1, 40), k = Draw(1, 30);
    Case product{.op = "MatMul", .opset = 13};
    product.absolute = product.relative = 1e-4;
    product.In(DrawHalf(t, Shape{Draw(1, 3), m, k})).In(DrawHalf(t, Shape{k, n}), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(product));
    Case gemm{.op = "Gemm", .opset = 13};
    gemm.absolute = gemm.relative = 1e-4;
    gemm.In(DrawHalf(t, Shape{m, k})).In(DrawHalf(t, Shape{n, k}), true).In(DrawHalf(t, Shape{n}), true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(gemm.Attr("transB", int64_t{1})));

    const int64_t channels = Draw(1, 20), groups = Pick<int64_t>({1, channels});
    Case conv{.op = "Conv", .opset = 22};
    conv.absolute = conv.relative = 2e-4;
    conv.In(DrawHalf(t, Shape{Draw(1, 2), channels, Draw(3, 9), Draw(3, 9)}));
    conv.In(DrawHalf(t, Shape{groups * Draw(1, 3), channels / groups, 3, 3}, 1), true).Attr("group", groups);
    conv.In(DrawHalf(t, Shape{conv.inputs[1].tensor().dim(0)}), true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(conv.Attr("pads", std::vector<int64_t>{1, 1, 1, 1})));
    Case back{.op = "ConvTranspose", .opset = 22};
    back.absolute = back.relative = 2e-4;
    back.In(DrawHalf(t, Shape{1, channels, Draw(2, 6), Draw(2, 6)})).In(DrawHalf(t, Shape{channels, 5, 2, 2}), true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(back.Attr("strides", std::vector<int64_t>{2, 2})));
  }
}

TEST_F(CpuOps, HalfResizeAndRecurrence) {
  for (int i = 0; i < kRounds; ++i) {
    const DType t = DrawType();
    Case resize{.op = "Resize", .opset = 19};
    resize.absolute = 1e-5;
    resize.In(DrawHalf(t, Shape{1, 3, 5, 7})).Omit().Omit().In(Ints({1, 3, Draw(1, 12), Draw(1, 12)}), true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(resize.Attr("mode", std::string("linear"))));
    const int64_t hidden = Draw(1, 8), inputs = Draw(1, 8);
    Case lstm{.op = "LSTM", .opset = 22, .outputs = 3};
    lstm.absolute = lstm.relative = 1e-4;
    lstm.In(DrawHalf(t, Shape{4, 2, inputs})).In(DrawHalf(t, Shape{1, 4 * hidden, inputs}, 1), true);
    lstm.In(DrawHalf(t, Shape{1, 4 * hidden, hidden}, 1), true).Attr("hidden_size", hidden);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(lstm));
    Case rnn{.op = "RNN", .opset = 22, .outputs = 2};
    rnn.absolute = rnn.relative = 1e-4;
    rnn.In(DrawHalf(t, Shape{4, 2, inputs})).In(DrawHalf(t, Shape{1, hidden, inputs}, 1), true);
    rnn.In(DrawHalf(t, Shape{1, hidden, hidden}, 1), true).Attr("hidden_size", hidden);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(rnn));
  }
}

TEST_F(CpuOps, HalfFourierAndDeformConv) {
  for (int i = 0; i < kRounds; ++i) {
    const DType t = Pick({DType::kF16, DType::kBF16});
    Case lines{.op = "DFT", .opset = 20};
    lines.absolute = lines.relative = 1e-4;
    ASSERT_NO_FATAL_FAILURE(CheckHalf(lines.In(DrawHalf(t, Shape{Draw(1, 3), Draw(1, 20), Pick<int64_t>({1, 2})}))));
    Case frames{.op = "STFT", .opset = 17};
    frames.absolute = frames.relative = 1e-4;
    const int64_t length = Draw(1, 16);
    frames.In(DrawHalf(t, Shape{1, length + Draw(0, 20), 1})).In(Tensor::Scalar(Draw(1, 9)), true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(frames.In(DrawHalf(t, Shape{length}), true)));
    const int64_t channels = Draw(1, 5);
    Case deformed{.op = "DeformConv", .opset = 22};
    deformed.absolute = deformed.relative = 2e-4;
    deformed.In(DrawHalf(t, Shape{1, channels, 6, 7})).In(DrawHalf(t, Shape{Draw(1, 9), channels, 3, 3}, 1), true);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(deformed.In(DrawHalf(t, Shape{1, 18, 4, 5}, 1))));
  }
}

TEST_F(CpuOps, HalfOfMicrosoft) {
  for (const char* op : {"FastGelu", "BiasGelu", "QuickGelu"}) {
    for (int i = 0; i < kRounds / 2; ++i) {
      const DType t = DrawType();
      const Shape shape = DrawShape(1, 3, 9, false);
      Case c{.op = op};
      c.domain = "com.microsoft";
      c.absolute = 1e-5;
      c.In(DrawHalf(t, shape));
      if (op != std::string("QuickGelu")) c.In(DrawHalf(t, Shape{shape.back()}), true);
      ASSERT_NO_FATAL_FAILURE(CheckHalf(c));
    }
  }
}

// Scales of 16 bits: of the tensor, of an axis, of blocks, and of a table's rows.
TEST_F(CpuOps, HalfScales) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const DType t = DrawType();
    const int64_t rows = Draw(1, 9), block = Pick({16, 32}), columns = 2 * Draw(1, 90);
    const int64_t blocks = (columns + block - 1) / block, form = Draw(0, 2);
    const Shape table{rows, columns}, by_blocks{rows, blocks};
    Case dequantize{.op = "DequantizeLinear", .opset = 21};
    dequantize.In(DrawTensor(Pick({DType::kI8, DType::kU8}), table), Draw(0, 1) != 0);
    dequantize.In(DrawHalf(t, form == 0 ? Shape{} : form == 1 ? Shape{columns} : by_blocks), Draw(0, 1) != 0);
    if (form == 2) dequantize.Attr("block_size", block);
    ASSERT_NO_FATAL_FAILURE(CheckHalf(dequantize));
    Case gather{.op = "GatherBlockQuantized", .domain = "com.microsoft"};
    gather.In(DrawTensor(DType::kU8, Shape{rows, columns / 2}), true)
        .In(Tensor::FromValues<int64_t>(Shape{3}, std::vector<int64_t>{rows - 1, 0, rows / 2}));
    gather.In(DrawHalf(t, by_blocks), true);
    gather.Attr("bits", int64_t{4}).Attr("block_size", block).Attr("quantize_axis", int64_t{-1});
    ASSERT_NO_FATAL_FAILURE(CheckHalf(gather));
  }
}

// Products with 4-bit weights have dynamic rows of int8, whose results are not the reference's: those of float32 are
// rounded.
TEST_F(CpuOps, HalfProductsWithBlocksOfFourBits) {
  constexpr int64_t kN = 24, kK = 64, kBlocks = 2;
  for (const DType t : {DType::kF16, DType::kBF16}) {
    const auto make = [&](auto convert, const Tensor& a, const Tensor& weights, const Tensor& scales) {
      Case c{.op = "MatMulNBits", .domain = "com.microsoft"};
      c.In(convert(a)).In(weights, true).In(convert(scales), true);
      c.Attr("K", kK).Attr("N", kN).Attr("bits", int64_t{4}).Attr("block_size", int64_t{32});
      return c.Attr("accuracy_level", int64_t{4});
    };
    const Tensor a = DrawHalf(t, Shape{5, kK}), scales = DrawHalf(t, Shape{kN * kBlocks}, 0.1f);
    const Tensor weights = DrawTensor(DType::kU8, Shape{kN, kBlocks, 16});
    const Case half = make([](const Tensor& x) { return x; }, a, weights, scales);
    const Case wide = make([](const Tensor& x) { return WidenConstant(x).value(); }, a, weights, scales);
    Built b, w;
    ASSERT_NO_FATAL_FAILURE(Build(half, false, b));
    ASSERT_NO_FATAL_FAILURE(Build(wide, false, w));
    ASSERT_EQ(RejectWidened(*b.node, Config(false)), "");
    const Result<std::vector<Tensor>> y = RunOnCpu(b.graph, b.inputs, Config(false));
    const Result<std::vector<Tensor>> z = RunOnCpu(w.graph, w.inputs, Config(false));
    ASSERT_TRUE(y.ok() && z.ok());
    ExpectSame((*y)[0], Halved(t, (*z)[0]), half);
  }
}

TEST_F(CpuOps, CastsOfHalf) {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    for (const DType other : {DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kBool, DType::kU8}) {
      Case c{.op = "Cast", .opset = 13};
      c.In(DrawHalf(half, DrawShapeOrLarge(0, 4), 100)).Attr("to", static_cast<int64_t>(other));
      ASSERT_NO_FATAL_FAILURE(Check(c));
    }
    Case c{.op = "Cast", .opset = 13};
    c.In(DrawTensor(DType::kF32, DrawShapeOrLarge(0, 4), 100, true)).Attr("to", static_cast<int64_t>(half));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST(WidenFloats, ReasonsNameTheTypeAndWhatIsMissing) {
  Graph graph;
  graph.opset_imports[""] = 21;
  GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF16, Dims{1, 2, 5, 5}));
  GraphValue* w = graph.AddInput("w", ValueType::Tensor(DType::kF16, Dims{2, 1, 3, 3}));
  Node* conv =
      graph.AddNode({.op_type = "Conv", .inputs = {x, w}, .outputs = {"y"}, .attributes = {{"group", int64_t{2}}}});
  graph.AddOutput(conv->output(0));
  ASSERT_TRUE(InferShapes(graph).ok());
  const std::string why = RejectWidened(*conv, Config(false));
  EXPECT_TRUE(why.empty() || why.starts_with("type f16, and as float32: ")) << why;
  Node* copy = graph.AddNode({.op_type = "NonZero", .inputs = {x}, .outputs = {"z"}});
  EXPECT_EQ(RejectWidened(*copy, Config(false)), "type f16");
}

}  // namespace
}  // namespace quern::cpu
