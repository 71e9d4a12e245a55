// Convolutions around a depthwise one: which become a chain, and that its results are those of the reference.
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

constexpr char kWeights[] =
    "  const %b0 = f32[24] splat 0.5\n  const %w1 = f32[24,1,3,3] splat 0.125\n  const %b1 = f32[24] splat -0.25\n";

// The graph's lines with weights that differ from channel to channel (w0 of 8 to 24 channels, w2 of 24 to 8), on the
// reference and here with a second-level cache of so many bytes: the operators that were made.
std::map<std::string, int> OperatorsOf(const std::string& lines, uint64_t l2_bytes = 16384,
                                       const char* x = "f32[n,8,20,18]") {
  std::string text = std::string("graph opset(\"\": 17) {\n  input %x: ") + x + "\n  const %w0 = f32[24,8,1,1] {";
  for (int i = 0; i < 192; ++i) text += (i ? ", " : "") + std::to_string((i * 37 % 64 - 32) / 64.0);
  text += "}\n  const %w2 = f32[8,24,1,1] {";
  for (int i = 0; i < 192; ++i) text += (i ? ", " : "") + std::to_string((i * 29 % 64 - 32) / 64.0);
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text + "}\n" + kWeights + lines + "}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  EXPECT_TRUE(InferShapes(**graph).ok());
  Tensor t = Tensor::Allocate(DType::kF32, Shape{2, 8, 20, 18}).value();
  std::mt19937 random(3);
  NormalNumbers<float> normal;
  for (float& v : t.values<float>()) v = normal(random);
  const std::vector<Value> inputs = {t};
  const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  std::map<std::string, int> counts;
  for (const bool portable : {false, true}) {
    CpuConfig config = Config(portable);
    config.cpu.l2.bytes = l2_bytes;
    const Result<std::vector<Tensor>> actual = RunOnCpu(**graph, inputs, config);
    EXPECT_TRUE(actual.ok()) << actual.status().message();
    if (!expected.ok() || !actual.ok()) return {};
    ExpectClose(*expected, *actual);
    InlineExecutor executor;
    const Result<std::unique_ptr<CpuExecutable>> made = CpuExecutable::Compile(**graph, config, executor);
    EXPECT_TRUE(made.ok()) << made.status().message();
    counts.clear();
    for (const CompiledNode& n : (*made)->nodes()) {
      ++counts[n.node->op_type()];
      if (n.node->op_type() == "ConvChain") counts["inputs"] = n.node->num_inputs();
    }
  }
  return counts;
}

constexpr char kBefore[] = "  %e = Conv(%x, %w0, %b0)\n  %f = Clip(%e, %lo, %hi)\n";
constexpr char kBounds[] = "  const %lo = f32[] {0.0}\n  const %hi = f32[] {6.0}\n";

TEST(ConvChains, InvertedBottleneckWithResidual) {
  const std::string lines = std::string(kBounds) +
                            "  %q = MaxPool(%x) {kernel_shape = [3, 3], pads = [1, 1, 1, 1]}\n"
                            "  %e = Conv(%q, %w0, %b0)\n  %f = Clip(%e, %lo, %hi)\n"
                            "  %d = Conv(%f, %w1, %b1) {group = 24, pads = [1, 1, 1, 1]}\n  %g = HardSwish(%d)\n"
                            "  %p = Conv(%g, %w2)\n  %y = Add(%p, %q)\n  return %y\n";
  const std::map<std::string, int> chained = OperatorsOf(lines);
  EXPECT_EQ(chained.at("ConvChain"), 1);
  EXPECT_EQ(chained.at("inputs"), 8) << "up to the residual";
  EXPECT_EQ(chained.size(), 4u) << "the pool and transposes at the borders besides";
  const std::map<std::string, int> cached = OperatorsOf(lines, 1 << 20);
  EXPECT_EQ(cached.at("Conv"), 3) << "what lies between stays in the cache anyway";
}

TEST(ConvChains, AConvolutionMayBeMissing) {
  const std::string depthwise = "  %d = Conv(%f, %w1, %b1) {auto_pad = \"SAME_UPPER\", group = 24, strides = [2, 2]}\n";
  // Its result is read twice, as by squeeze and excitation.
  const std::map<std::string, int> before =
      OperatorsOf(std::string(kBounds) + kBefore + depthwise +
                  "  %m = GlobalAveragePool(%d)\n  %s = Mul(%d, %m)\n  %y = Conv(%s, %w2)\n  return %y\n");
  EXPECT_EQ(before.at("ConvChain"), 1);
  EXPECT_EQ(before.at("Conv"), 1);
  EXPECT_EQ(before.at("inputs"), 5);
  // What is before is read twice.
  const std::map<std::string, int> after =
      OperatorsOf(std::string(kBounds) + kBefore + depthwise + "  %y = Conv(%d, %w2)\n  return %y, %f\n");
  EXPECT_EQ(after.at("ConvChain"), 1);
  EXPECT_EQ(after.at("Conv"), 1);
  EXPECT_EQ(after.at("inputs"), 6);
}

TEST(ConvChains, WhatStaysApart) {
  const std::string depthwise = "  %d = Conv(%f, %w1, %b1) {group = 24, pads = [1, 1, 1, 1]}\n";
  const std::string bounds = kBounds, before = kBefore;
  // Values in between that are outputs of the graph.
  EXPECT_FALSE(OperatorsOf(bounds + before + depthwise + "  %p = Conv(%d, %w2)\n  %y = Add(%d, %f)\n  return %y, %p\n")
                   .contains("ConvChain"));
  // Strided or padded convolutions of one tap.
  EXPECT_FALSE(OperatorsOf(bounds + "  %f = Conv(%x, %w0) {pads = [1, 1, 1, 1]}\n" + depthwise +
                           "  %y = Conv(%d, %w2) {strides = [2, 2]}\n  return %y\n")
                   .contains("ConvChain"));
  // Extents that come with the run.
  EXPECT_FALSE(OperatorsOf(bounds + before + depthwise + "  %y = Conv(%d, %w2)\n  return %y\n", 16384, "f32[n,8,h,w]")
                   .contains("ConvChain"));
}

}  // namespace
}  // namespace quern::cpu
