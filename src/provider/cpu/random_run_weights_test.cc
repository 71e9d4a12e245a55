// Convolutions whose weights or bias come with the run, and of fills that are folded, on random cases.
#include <gtest/gtest.h>

#include <cmath>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// Small whole numbers, of which sums of products are exact in any order.
Tensor DrawWhole(const Shape& shape) {
  Tensor t = DrawTensor(DType::kF32, shape);
  for (float& v : t.values<float>()) v = std::nearbyint(4 * v);
  return t;
}

// A Conv of 1 to 3 dimensions with its input; the weights' shape comes back.
Shape DrawConv(Case& c) {
  const int rank = static_cast<int>(Draw(1, 3));
  const int64_t groups = Draw(0, 2) == 0 ? Draw(2, 5) : 1, part = Draw(0, 2) == 0 ? 1 : Draw(1, 20);
  Shape x{Draw(0, 3), groups * part}, w{groups * Draw(1, 20), part};
  std::vector<int64_t> strides, dilations, pads;
  for (int d = 0; d < rank; ++d) {
    const int64_t kernel = Draw(1, 4);
    strides.push_back(Draw(1, 3));
    dilations.push_back(Draw(1, 2));
    x.push_back((kernel - 1) * dilations[d] + Draw(1, 9));
    w.push_back(kernel);
  }
  for (int d = 0; d < 2 * rank; ++d) pads.push_back(Draw(0, 2));
  c.In(DrawWhole(x)).Attr("strides", strides).Attr("group", groups);
  switch (Draw(0, 3)) {
    case 0:
      c.Attr("auto_pad", std::string(Pick({"SAME_UPPER", "SAME_LOWER", "VALID"})));
      break;
    default:
      c.Attr("pads", pads).Attr("dilations", dilations);
  }
  return w;
}

TEST_F(CpuOps, ConvWithWeightsOfTheRun) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    Case c{.op = "Conv"};
    const Shape w = DrawConv(c);
    c.In(DrawWhole(w));
    if (Draw(0, 1)) c.In(DrawWhole(Shape{w[0]}), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, ConvWithABiasOfTheRun) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    Case c{.op = "Conv"};
    const Shape w = DrawConv(c);
    c.In(DrawWhole(w), true).In(DrawWhole(Shape{w[0]}));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// NaN and infinities of the weights reach the outputs that they belong to.
TEST_F(CpuOps, ConvWithSpecialWeightsOfTheRun) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    Case c{.op = "Conv"};
    const int64_t in = Draw(1, 5), out = Draw(1, 20);
    Tensor w = DrawWhole(Shape{out, in, 3, 2});
    for (float& v : w.values<float>()) {
      if (Draw(0, 30) == 0) v = Pick({NAN, INFINITY, -INFINITY});
    }
    c.In(DrawWhole(Shape{1, in, 6, 5})).In(w);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// y = Relu(Conv(x, w, b) + r), of which all but the input is an operand of the convolution.
TEST_F(CpuOps, ConvWithWeightsOfTheRunTakesAnEpilogue) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Shape image{Draw(1, 2), Draw(1, 8), 5, 6}, filter{Draw(1, 20), image[1], 3, 3};
    const std::vector<Value> inputs = {DrawWhole(image), DrawWhole(filter), DrawWhole(Shape{filter[0]}),
                                       DrawWhole(Shape{image[0], filter[0], 5, 6})};
    Graph graph;
    graph.opset_imports[""] = 21;
    std::vector<GraphValue*> in;
    for (size_t k = 0; k < inputs.size(); ++k) {
      in.push_back(graph.AddInput("x" + std::to_string(k), TypeOf(inputs[k])));
    }
    const auto op = [&](const char* type, std::vector<GraphValue*> operands,
                        std::map<std::string, Attribute, std::less<>> attributes = {}) {
      return graph
          .AddNode({.op_type = type, .inputs = std::move(operands), .outputs = {type}, .attributes = attributes})
          ->output(0);
    };
    GraphValue* y = op("Conv", {in[0], in[1], in[2]}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    graph.AddOutput(op("Relu", {op("Add", {y, in[3]})}));
    ASSERT_TRUE(InferShapes(graph).ok());
    const Result<std::vector<Value>> expected = EvaluateGraph(graph, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const Result<std::vector<Tensor>> actual = RunOnCpu(graph, inputs, Config(i % 2 != 0));
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    Case c{.op = "Conv"};
    ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[0], (*expected)[0].tensor(), c));
  }
}

// Weights that are a ConstantOfShape are packed at load: the executable has neither the fill nor weights of the run.
TEST_F(CpuOps, ConvOfAFillIsPackedAtLoad) {
  const Tensor x = DrawWhole(Shape{1, 6, 9, 9});
  Graph graph;
  graph.opset_imports[""] = 21;
  GraphValue* shape = graph.AddConstant("shape", Value(Ints({40, 6, 5, 5})));
  Node* fill =
      graph.AddNode({.op_type = "ConstantOfShape",
                     .inputs = {shape},
                     .outputs = {"w"},
                     .attributes = {{"value", Value(Tensor::FromValues<float>(Shape{1}, std::vector<float>{0.25f}))}}});
  GraphValue* in = graph.AddInput("x", TypeOf(x));
  graph.AddOutput(graph.AddNode({.op_type = "Conv", .inputs = {in, fill->output(0)}, .outputs = {"y"}})->output(0));
  ASSERT_TRUE(InferShapes(graph).ok());
  HostileExecutor executor(7, 3);
  const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(graph, Config(false), executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  bool packed = false;
  for (const CompiledNode& n : (*exe)->nodes()) {
    EXPECT_FALSE(n.node->Is("ConstantOfShape"));
    packed |= n.node->op_type() == "Conv" && n.kernel->Describe().packed_bytes > 0;
  }
  EXPECT_TRUE(packed);
  const Result<std::vector<Value>> expected = EvaluateGraph(graph, std::vector<Value>{x});
  const Result<std::vector<Tensor>> actual = RunOnCpu(graph, std::vector<Value>{x}, Config(false));
  ASSERT_TRUE(expected.ok() && actual.ok());
  Case c{.op = "Conv"};
  ASSERT_NO_FATAL_FAILURE(ExpectSame((*actual)[0], (*expected)[0].tensor(), c));
}

// A symbolic shape of the weights does not say how they are to be packed.
TEST_F(CpuOps, ConvWithWeightsOfUnknownShapeIsLeft) {
  Graph graph;
  graph.opset_imports[""] = 21;
  GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF32, Dims{1, 2, 5, 5}));
  GraphValue* w = graph.AddInput("w", ValueType::Tensor(DType::kF32, Dims{Dim::Symbol("m"), 2, 3, 3}));
  Node* conv = graph.AddNode({.op_type = "Conv", .inputs = {x, w}, .outputs = {"y"}});
  graph.AddOutput(conv->output(0));
  ASSERT_TRUE(InferShapes(graph).ok());
  EXPECT_EQ(FindCpuOp("", "Conv")->reject(*conv, Config(false)), "the weights' shape does not fit");
}

}  // namespace
}  // namespace quern::cpu
