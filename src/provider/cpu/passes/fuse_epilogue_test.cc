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
    "  const %hi = f32[] {0.7}\n  const %s = f32[5] splat 1.5\n  const %b = f32[5] splat 0.1\n"
    "  const %w2 = f32[5,5,1,1] splat -0.2\n  const %p = f32[5,1,1] {0.5, -0.25, 0, 2, 1.5}\n"
    "  const %q = f32[5,1,1] {0.5, inf, 0, 2, 1.5}\n  const %r4 = f32[4] {0.1, 0.2, -0.3, 0.4}\n";

// Runs the lines on the reference and here, if results can be compared: the names of the operators that were made,
// without layout changes.
std::multiset<std::string> OperatorsOf(const std::string& lines, bool finite = true) {
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
  if (expected.ok() && actual.ok() && finite) ExpectClose(*expected, *actual);
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

// A residual stands before the activation or behind it.
TEST(FuseEpilogue, ResidualBehindActivation) {
  constexpr char kConvs[] = "  %x2 = Conv(%x, %w)\n  %c = Conv(%x2, %w2)\n";
  const auto after = [&](const std::string& lines) { return OperatorsOf(kConvs + lines + "  return %y\n"); };
  const Names two = {"Conv", "Conv"};
  EXPECT_EQ(after("  %g = Sigmoid(%c)\n  %a = Mul(%c, %g)\n  %y = Add(%x2, %a)\n"), two);
  EXPECT_EQ(after("  %a = Tanh(%c)\n  %d = Add(%a, %x2)\n  %y = Relu(%d)\n"), two);
  EXPECT_EQ(after("  %a = LeakyRelu(%c) {alpha = 0.2}\n  %d = Add(%a, %x2)\n  %y = Clip(%d, %lo, %hi)\n"), two);
  EXPECT_EQ(after("  %d = Add(%c, %x2)\n  %a = PRelu(%d, %p)\n  %y = Clip(%a, %lo)\n"), two);
  // Neither a second residual nor a bias has a place there, nor has anything one behind bounds.
  EXPECT_EQ(after("  %d = Add(%c, %x2)\n  %a = Tanh(%d)\n  %y = Add(%a, %x2)\n"), (Names{"Conv", "Conv", "Add"}));
  EXPECT_EQ(after("  %a = Tanh(%c)\n  %d = Clip(%a, %lo)\n  %y = Add(%d, %x2)\n"), (Names{"Conv", "Conv", "Add"}));
}

TEST(FuseEpilogue, SlopesOfChannels) {
  constexpr char kConv[] = "  %c = Conv(%x, %w)\n";
  EXPECT_EQ(OperatorsOf(std::string(kConv) + "  %y = PRelu(%c, %p)\n  return %y\n"), Names{"Conv"});
  EXPECT_EQ(OperatorsOf("  %c = MatMul(%x, %m)\n  %y = PRelu(%c, %b)\n  return %y\n"), Names{"MatMul"});
  EXPECT_EQ(OperatorsOf("  %c = Conv(%x, %w)\n  %t = Tanh(%c)\n  %n = BatchNormalization(%t, %s, %b, %b, %s)\n"
                        "  %y = PRelu(%n, %p)\n  return %y\n"),
            (Names{"ChannelScale", "Conv"}));
  // Slopes that are no finite numbers of a channel each.
  EXPECT_EQ(OperatorsOf(std::string(kConv) + "  %y = PRelu(%c, %q)\n  return %y\n", false), (Names{"Conv", "PRelu"}));
  EXPECT_EQ(OperatorsOf(std::string(kConv) + "  %y = PRelu(%c, %r4)\n  return %y\n"), (Names{"Conv", "PRelu"}));
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
