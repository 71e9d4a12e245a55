// Convolutions of the CPU provider over one to three spatial dimensions on random cases, alone and with what fuses.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

TEST_F(CpuOps, ConvolutionsOverVolumes) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const int64_t groups = Pick<int64_t>({1, 1, 1, 2, 5}), in = Pick<int64_t>({1, 3, 16, 20}), out = Draw(1, 9);
    Case c{.op = "Conv", .opset = 11};
    c.relative = 1e-4;
    c.absolute = 1e-4;
    std::vector<int64_t> strides, dilations, pads;
    Shape x{Draw(1, 2), groups * in}, w{groups * out, in};
    for (int d = 0; d < 3; ++d) {
      w.push_back(Draw(1, 3));
      strides.push_back(Draw(1, 2));
      dilations.push_back(Draw(1, 2));
      x.push_back(Draw(5, 8));
    }
    for (int d = 0; d < 6; ++d) pads.push_back(Draw(0, 2));
    const std::string pad = Pick<std::string>({"NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
    c.Attr("group", groups).Attr("strides", strides).Attr("dilations", dilations).Attr("auto_pad", pad);
    if (pad == "NOTSET") c.Attr("pads", pads);
    c.In(DrawTensor(DType::kF32, x)).In(DrawTensor(DType::kF32, w, 1), true);
    if (Draw(0, 1)) c.In(DrawTensor(DType::kF32, Shape{groups * out}), true);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// As networks of video have them: each slice by itself, by Winograd's algorithm where that is faster.
TEST_F(CpuOps, ConvolutionsOfSlices) {
  for (const int64_t back : {0, 1}) {
    Case c{.op = "Conv", .opset = 11};
    c.absolute = c.relative = 1e-4;
    c.In(DrawTensor(DType::kF32, Shape{2, 64, 3, 14, 13}));
    c.In(DrawTensor(DType::kF32, Shape{64, 64, 1, 3, 3}, 0.1f), true).In(DrawTensor(DType::kF32, Shape{64}), true);
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("pads", std::vector<int64_t>{0, 1, 1, back, 1, 1})));
  }
}

TEST_F(CpuOps, DepthwiseConvolutionsOverVolumes) {
  for (int i = 0; i < kRounds; ++i) {
    const int64_t channels = Draw(2, 20);
    Case c{.op = "Conv", .opset = 11};
    c.absolute = c.relative = 1e-4;
    c.In(DrawTensor(DType::kF32, Shape{1, channels, 4, 6, 5}));
    c.In(DrawTensor(DType::kF32, Shape{channels * Draw(1, 2), 1, 3, 3, 3}, 1), true);
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("group", channels).Attr("pads", std::vector<int64_t>{1, 1, 1, 1, 1, 1})));
  }
}

// Groups of few channels, over lines, images and volumes, with weights that the run brings too.
TEST_F(CpuOps, ConvolutionsOverGroups) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const int64_t group = Draw(2, 18), groups = Draw(2, 9), kernel = Draw(1, 5), pad = Draw(0, kernel / 2);
    const int64_t more = Draw(0, 5) == 0 ? 2 : 1;  // results of an input channel
    const auto spatial = static_cast<size_t>(Draw(0, 4) == 0 ? Draw(1, 3) : 2);
    Shape x{Draw(1, 2), group * groups}, w{more * group * groups, group};
    for (size_t d = 0; d < spatial; ++d) {
      x.push_back(kernel + Draw(0, 12));
      w.push_back(kernel);
    }
    Case c{.op = "Conv", .opset = 11};
    c.absolute = c.relative = 1e-4;
    c.In(DrawTensor(DType::kF32, x)).In(DrawTensor(DType::kF32, w, 0.3f), i % 3 != 0);
    if (i % 2) c.In(DrawTensor(DType::kF32, Shape{w[0]}), true);
    c.Attr("group", groups).Attr("pads", std::vector<int64_t>(2 * spatial, pad));
    c.Attr("strides", std::vector<int64_t>(spatial, Draw(1, 2)));
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

// Conv -> Relu -> Conv -> MaxPool, all in one layout.
TEST_F(CpuOps, VolumesKeepTheirLayoutBetweenOperators) {
  Graph graph;
  graph.opset_imports[""] = 13;
  const Tensor x = DrawTensor(DType::kF32, Shape{1, 16, 6, 8, 7});
  const Tensor w = DrawTensor(DType::kF32, Shape{16, 16, 3, 3, 3}, 0.1f);
  GraphValue* in = graph.AddInput("x", TypeOf(Value(x)));
  GraphValue* weights = graph.AddConstant("w", w);
  const std::vector<int64_t> ones(6, 1), two(3, 2);
  GraphValue* conv =
      graph.AddNode({.op_type = "Conv", .inputs = {in, weights}, .outputs = {"c"}, .attributes = {{"pads", ones}}})
          ->output(0);
  GraphValue* relu = graph.AddNode({.op_type = "Relu", .inputs = {conv}, .outputs = {"r"}})->output(0);
  GraphValue* next = graph.AddNode({.op_type = "Conv", .inputs = {relu, weights}, .outputs = {"n"}})->output(0);
  Node* pool = graph.AddNode({.op_type = "MaxPool",
                              .inputs = {next},
                              .outputs = {"y"},
                              .attributes = {{"kernel_shape", two}, {"strides", two}}});
  graph.AddOutput(pool->output(0));
  ASSERT_TRUE(InferShapes(graph).ok());
  const std::vector<Value> inputs = {x};
  const Result<std::vector<Value>> expected = EvaluateGraph(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const Result<std::vector<Tensor>> actual = RunOnCpu(graph, inputs, Config(false));
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  Case c{.op = "Conv"};
  c.absolute = 1e-4;
  ExpectSame((*actual)[0], (*expected)[0].tensor(), c);

  HostileExecutor executor(1, 1);
  const auto exe = CpuExecutable::Compile(graph, Config(false), executor);
  ASSERT_TRUE(exe.ok());
  int transposes = 0, nodes = 0;
  for (const CompiledNode& n : (*exe)->nodes()) {
    ++nodes;
    transposes += n.node->Is("Transpose");
  }
  EXPECT_EQ(transposes, 2);
  EXPECT_EQ(nodes, 5);  // those, two convolutions (one with Relu) and the pool
}

}  // namespace
}  // namespace quern::cpu
