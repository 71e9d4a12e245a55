// Regions that stay channels last: what is left of transposes, and that the results are those of the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/random_numbers.h"
#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/test_run.h"

namespace quern::cpu {
namespace {

Tensor DrawNormal(const Shape& shape, unsigned seed) {
  Tensor t = Tensor::Allocate(DType::kF32, shape).value();
  std::mt19937 random(seed);
  NormalNumbers<float> normal;
  for (float& v : t.values<float>()) v = normal(random);
  return t;
}

// Runs the graph on both providers, and gives how many nodes of each operator the CPU provider made of it.
std::map<std::string, int> OperatorsOf(const std::string& lines, const std::vector<Value>& inputs) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 17) {\n" + lines + "}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  EXPECT_TRUE(InferShapes(**graph).ok());
  const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  const Result<std::vector<Tensor>> actual = RunOnCpu(**graph, inputs, Config(false));
  EXPECT_TRUE(actual.ok()) << actual.status().message();
  if (!expected.ok() || !actual.ok()) return {};
  ExpectClose(*expected, *actual);
  InlineExecutor executor;
  const Result<std::unique_ptr<CpuExecutable>> made = CpuExecutable::Compile(**graph, Config(false), executor);
  EXPECT_TRUE(made.ok()) << made.status().message();
  std::map<std::string, int> counts;
  for (const CompiledNode& n : (*made)->nodes()) ++counts[n.node->op_type()];
  return counts;
}

constexpr char kNorm[] =
    "  const %s = f32[6] {1.0, 2.0, -1.0, 0.5, 3.0, 0.25}\n  const %b = f32[6] {0.5, 0.0, 1.0, -2.0, 1.0, 4.0}\n"
    "  const %m = f32[6] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}\n  const %v = f32[6] {1.0, 2.0, 3.0, 0.5, 0.25, 1.5}\n";

TEST(ChannelsLast, BatchNormalizationTakesActivationAndResidual) {
  const std::string lines = std::string("  input %x: f32[n,6,5,4]\n  input %r: f32[n,6,5,4]\n") + kNorm +
                            "  const %w = f32[6,6,1,1] splat 0.25\n"
                            "  %p = MaxPool(%x) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
                            "  %q = MaxPool(%r) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
                            "  %n = BatchNormalization(%p, %s, %b, %m, %v)\n  %a = Add(%n, %q)\n  %z = Relu(%a)\n"
                            "  %y = Conv(%z, %w)\n  return %y\n";
  const std::vector<Value> inputs = {DrawNormal(Shape{2, 6, 5, 4}, 1), DrawNormal(Shape{2, 6, 5, 4}, 2)};
  const std::map<std::string, int> counts = OperatorsOf(lines, inputs);
  EXPECT_EQ(counts.at("ChannelScale"), 1);
  EXPECT_EQ(counts.at("Transpose"), 2) << "of the inputs";
  EXPECT_FALSE(counts.contains("Relu") || counts.contains("Add") || counts.contains("BatchNormalization"));
}

// Behind a pool, whose channels are last, it is a scale of channels; alone it and what follows are one pass over memory
// as it lies, without transposes.
TEST(ChannelsLast, BatchNormalizationOfAnyRank) {
  for (const Shape& shape : {Shape{5, 6}, Shape{2, 6, 7}, Shape{1, 6, 3, 2, 5}, Shape{3, 6, 0, 2}}) {
    std::string dims, ones;
    for (const int64_t d : shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    for (int i = 2; i < shape.rank(); ++i) ones += std::string(i > 2 ? ", " : "") + "1";
    const auto counts = [&](const std::string& before, const std::string& x) {
      return OperatorsOf("  input %x: f32[" + dims + "]\n" + kNorm + before + "  %n = BatchNormalization(" + x +
                             ", %s, %b, %m, %v) {epsilon = 0.01}\n  %y = Sigmoid(%n)\n  return %y\n",
                         {DrawNormal(shape, 1)});
    };
    const std::map<std::string, int> alone = counts("", "%x");
    EXPECT_EQ(alone.at(shape.rank() == 2 ? "ChannelScale" : "Elementwise"), 1);
    EXPECT_EQ(alone.size(), 1u);
    if (shape.rank() == 2 || shape.num_elements() == 0) continue;
    EXPECT_EQ(counts("  %p = MaxPool(%x) {kernel_shape = [" + ones + "]}\n", "%p").at("ChannelScale"), 1);
  }
}

// A pool by itself stays channels first, one that a convolution reads does not.
TEST(ChannelsLast, PoolsOfPlanes) {
  const std::string input = "  input %x: f32[2,3,9,10]\n  const %w = f32[4,3,1,1] splat 0.25\n";
  const std::vector<Value> inputs = {DrawNormal(Shape{2, 3, 9, 10}, 3)};
  for (const std::string op : {"MaxPool", "AveragePool"}) {
    const std::string pool = "  %p = " + op + "(%x) {kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 1]}\n";
    EXPECT_FALSE(OperatorsOf(input + pool + "  return %p\n", inputs).contains("Transpose"));
    EXPECT_EQ(OperatorsOf(input + pool + "  %y = Conv(%p, %w)\n  return %y\n", inputs).at("Transpose"), 1);
  }
}

TEST(ChannelsLast, ConvolutionTakesSwish) {
  for (const char* swish : {"Swish#24(%c)", "Swish#24(%c) {alpha = 1.702}"}) {
    SCOPED_TRACE(swish);
    const std::map<std::string, int> counts =
        OperatorsOf("  input %x: f32[2,6,5,4]\n  const %w = f32[6,6,1,1] splat 0.25\n  %c = Conv(%x, %w)\n  %y = " +
                        std::string(swish) + "\n  return %y\n",
                    {DrawNormal(Shape{2, 6, 5, 4}, 1)});
    EXPECT_EQ(counts.at("Conv"), 1);
    EXPECT_FALSE(counts.contains("Swish"));
  }
}

// A chain of shuffles between convolutions: each is one transpose of its groups.
TEST(ChannelsLast, ShufflesOfChannels) {
  std::string lines =
      "  input %x: f32[2,6,4,5]\n  const %w = f32[6,6,1,1] splat 0.25\n  const %apart = i64[5] {2, 3, 2, 4, 5}\n"
      "  const %whole = i64[4] {2, 6, 4, 5}\n  %c0 = Conv(%x, %w)\n";
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    lines += "  %a" + n + " = Reshape(%c" + n + ", %apart)\n  %t" + n + " = Transpose(%a" + n +
             ") {perm = [0, 2, 1, 3, 4]}\n  %s" + n + " = Reshape(%t" + n + ", %whole)\n  %c" + next + " = Conv(%s" +
             n + ", %w)\n";
  }
  const std::map<std::string, int> counts = OperatorsOf(lines + "  return %c6\n", {DrawNormal(Shape{2, 6, 4, 5}, 1)});
  EXPECT_EQ(counts.at("Transpose"), 6 + 1) << "of the shuffles and the input";
}

// What a Reshape of a convolution's result leaves of transposes: `behind` reads %r and gives %y.
int TransposesBehindReshape(const std::string& input, const std::string& list, const std::string& behind) {
  const std::map<std::string, int> counts =
      OperatorsOf("  input %x: f32[" + input + "]\n  const %w = f32[6,6,1,1] splat 0.25\n  const %list = i64" + list +
                      "\n  %c = Conv(%x, %w)\n  %r = Reshape(%c, %list)\n" + behind + "  return %y\n",
                  {DrawNormal(Shape{2, 6, 4, 5}, 1)});
  return (counts.contains("Transpose") ? counts.at("Transpose") : 0) - 1;  // but for that of the image
}

TEST(ChannelsLast, ReshapesOfImages) {
  const std::string rows_last = "  %y = Transpose(%r) {perm = [0, 2, 1]}\n";
  for (const char* input : {"2,6,4,5", "n,6,4,5", "n,6,h,5", "n,6,h,w"}) {
    SCOPED_TRACE(input);
    EXPECT_EQ(TransposesBehindReshape(input, "[3] {0, 6, -1}", rows_last), 0);
    EXPECT_EQ(TransposesBehindReshape(input, "[3] {0, 0, -1}",
                                      "  %s = Sigmoid(%r)\n  %k = Concat(%s, %r) {axis = 2}\n"
                                      "  %y = Transpose(%k) {perm = [0, 2, 1]}\n"),
              0);
    EXPECT_EQ(TransposesBehindReshape(input, "[3] {0, 6, -1}", "  %y = Neg(%r)\n"), 0) << "stored channels first";
  }
  // Channels apart, as heads of detectors have them: one transpose where there were two.
  EXPECT_EQ(
      TransposesBehindReshape("2,6,4,5", "[5] {2, 3, 2, 4, 5}", "  %y = Transpose(%r) {perm = [0, 1, 3, 4, 2]}\n"), 1);
  EXPECT_EQ(
      TransposesBehindReshape("2,6,4,5", "[5] {2, 3, 2, 4, 5}", "  %y = Transpose(%r) {perm = [0, 3, 4, 1, 2]}\n"), 0);
  // Ones in between; channels together with a side, which a move of the transpose would tear apart; an order of its
  // own.
  EXPECT_EQ(
      TransposesBehindReshape("2,6,4,5", "[5] {2, 1, 6, 20, 1}", "  %y = Transpose(%r) {perm = [0, 3, 4, 1, 2]}\n"), 0);
  EXPECT_EQ(TransposesBehindReshape("2,6,4,5", "[3] {2, 24, 5}", rows_last), 1) << "the other is the convolution's";
  EXPECT_EQ(TransposesBehindReshape("2,6,4,5", "[3] {2, 6, 20}", "  %y = Transpose(%r) {perm = [2, 0, 1]}\n"), 1);
}

// Between a convolution and a transpose: read with channels last where these are many, and the positions not few.
TEST(ChannelsLast, GridSampleOfManyChannels) {
  const auto transposes = [](const std::string& channels, const std::string& grid, const Shape& positions) {
    const std::map<std::string, int> counts =
        OperatorsOf("  input %x: f32[2,6,12,10]\n  input %g: f32[" + grid + "]\n  const %w = f32[" + channels +
                        ",6,1,1] splat 0.25\n  %c = Conv(%x, %w)\n  %s = GridSample(%c, %g) {mode = \"bilinear\"}\n"
                        "  %y = Transpose(%s) {perm = [0, 2, 3, 1]}\n  return %y\n",
                    {DrawNormal(Shape{2, 6, 12, 10}, 1), DrawNormal(positions, 2)});
    return counts.at("Transpose") - 1;  // but for that of the image
  };
  EXPECT_EQ(transposes("20", "2,7,9,2", Shape{2, 7, 9, 2}), 0);
  EXPECT_EQ(transposes("20", "n,h,w,2", Shape{2, 1, 2, 2}), 0);
  EXPECT_EQ(transposes("8", "2,7,9,2", Shape{2, 7, 9, 2}), 1) << "the convolution stores channels first";
  EXPECT_EQ(transposes("20", "2,7,2,2", Shape{2, 7, 2, 2}), 1);
}

}  // namespace
}  // namespace quern::cpu
