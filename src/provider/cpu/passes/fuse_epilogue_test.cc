// What follows a convolution, product or scale of channels: which operators are left, and that results are those of the
// reference.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/random_numbers.h"
#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/test_run.h"

namespace quern::cpu {
namespace {

constexpr char kConstants[] =
    "  const %w = f32[5,4,3,3] splat 0.125\n  const %m = f32[6,5] splat 0.25\n  const %lo = f32[] {-0.4}\n"
    "  const %hi = f32[] {0.7}\n  const %s = f32[5] splat 1.5\n  const %b = f32[5] splat 0.1\n";

// Runs the lines on the reference and here: the names of the operators that were made, without layout changes.
std::multiset<std::string> OperatorsOf(const std::string& lines) {
  const std::string text =
      "graph opset(\"\": 17) {\n  input %x: f32[2,4,6,6]\n" + std::string(kConstants) + lines + "}\n";
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok() || !InferShapes(**graph).ok()) return {};
  Tensor x = Tensor::Allocate(DType::kF32, Shape{2, 4, 6, 6}).value();
  std::mt19937 random(5);
  NormalNumbers<float> normal;
  for (float& v : x.values<float>()) v = normal(random);
  const std::vector<Value> inputs = {x};
  const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
  const Result<std::vector<Tensor>> actual = RunOnCpu(**graph, inputs, Config(false));
  EXPECT_TRUE(expected.ok() && actual.ok()) << expected.status().message() << actual.status().message();
  if (expected.ok() && actual.ok()) ExpectClose(*expected, *actual);
  InlineExecutor executor;
  const Result<std::unique_ptr<CpuExecutable>> made = CpuExecutable::Compile(**graph, Config(false), executor);
  EXPECT_TRUE(made.ok()) << made.status().message();
  std::multiset<std::string> names;
  for (const CompiledNode& n : (*made)->nodes()) {
    if (n.node->op_type() != "Transpose") names.insert(n.node->op_type());
  }
  return names;
}

using Names = std::multiset<std::string>;

TEST(FuseEpilogue, ActivationAndBounds) {
  constexpr char kConv[] = "  %c = Conv(%x, %w)\n";
  const auto after = [&](const std::string& lines) { return OperatorsOf(kConv + lines + "  return %y\n"); };
  EXPECT_EQ(after("  %y = Relu(%c)\n"), Names{"Conv"});
  EXPECT_EQ(after("  %a = LeakyRelu(%c) {alpha = 0.2}\n  %y = Clip(%a, %lo, %hi)\n"), Names{"Conv"});
  EXPECT_EQ(after("  %a = LeakyRelu(%c) {alpha = 0.2}\n  %y = Clip(%a, %lo)\n"), Names{"Conv"});
  EXPECT_EQ(after("  %a = Tanh(%c)\n  %y = Clip(%a, %lo, %hi)\n"), Names{"Conv"});
  // Neither a second activation nor second bounds have a place.
  EXPECT_EQ(after("  %a = Tanh(%c)\n  %y = Sigmoid(%a)\n"), (Names{"Conv", "Sigmoid"}));
  EXPECT_EQ(after("  %a = Tanh(%c)\n  %d = Clip(%a, %lo, %hi)\n  %y = Sigmoid(%d)\n"), (Names{"Conv", "Sigmoid"}));
  // Something else reads what is not bounded.
  EXPECT_EQ(OperatorsOf(std::string(kConv) + "  %a = Tanh(%c)\n  %y = Clip(%a, %lo)\n  return %y, %a\n"),
            (Names{"Conv", "Clip"}));
}

TEST(FuseEpilogue, OfOtherProducts) {
  EXPECT_EQ(OperatorsOf("  %c = MatMul(%x, %m)\n  %a = Elu(%c)\n  %y = Clip(%a, %lo, %hi)\n  return %y\n"),
            Names{"MatMul"});
  EXPECT_EQ(OperatorsOf("  %c = Conv(%x, %w)\n  %t = Tanh(%c)\n  %n = BatchNormalization(%t, %s, %b, %b, %s)\n"
                        "  %a = LeakyRelu(%n)\n  %y = Clip(%a, %lo, %hi)\n  return %y\n"),
            (Names{"ChannelScale", "Conv"}));
}

}  // namespace
}  // namespace quern::cpu
