// Convolutions whose results go to their places channels first: which, and that these are those of the reference.
#include <gtest/gtest.h>

#include <random>

#include "base/random_numbers.h"
#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/test_run.h"

namespace quern::cpu {
namespace {

// How many nodes of the compiled graph are Transposes; results here are checked against the reference.
int TransposesOf(const std::string& lines, const Shape& x, const Shape& w) {
  const auto type = [](const Shape& shape) {
    std::string text = "f32[";
    for (int d = 0; d < shape.rank(); ++d) text += (d ? "," : "") + std::to_string(shape[d]);
    return text + "]";
  };
  std::mt19937 random(static_cast<uint32_t>(w.num_elements()));
  NormalNumbers<float> normal;
  std::string text = "graph opset(\"\": 17) {\n  input %x: " + type(x) + "\n  const %w = " + type(w) + " {";
  for (int64_t i = 0; i < w.num_elements(); ++i) text += (i ? ", " : "") + std::to_string(normal(random));
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text + "}\n" + lines + "}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return -1;
  EXPECT_TRUE(InferShapes(**graph).ok());
  Tensor t = Tensor::Allocate(DType::kF32, x).value();
  for (float& v : t.values<float>()) v = normal(random);
  const std::vector<Value> inputs = {t};
  const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status().message();
  int transposes = -1;
  for (const bool portable : {true, false}) {
    const Result<std::vector<Tensor>> actual = RunOnCpu(**graph, inputs, Config(portable));
    EXPECT_TRUE(actual.ok()) << actual.status().message();
    if (!expected.ok() || !actual.ok()) return -1;
    ExpectClose(*expected, *actual);
    InlineExecutor executor;
    const Result<std::unique_ptr<CpuExecutable>> made = CpuExecutable::Compile(**graph, Config(portable), executor);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return -1;
    transposes = 0;
    for (const CompiledNode& n : (*made)->nodes()) transposes += n.node->op_type() == "Transpose";
  }
  return transposes;
}

constexpr char kConv[] = "  %y = Conv(%x, %w)\n  return %y\n";

TEST(StoreChannelsFirst, OfAnyDimensions) {
  EXPECT_EQ(TransposesOf(kConv, {2, 18, 130}, {20, 18, 3}), 1) << "that of the input";
  EXPECT_EQ(TransposesOf(kConv, {1, 3, 30, 41}, {70, 3, 5, 4}), 1);
  EXPECT_EQ(TransposesOf(kConv, {2, 6, 5, 7, 6}, {5, 6, 2, 3, 1}), 1);
  EXPECT_EQ(TransposesOf(kConv, {2, 40, 1, 1}, {36, 40, 1, 1}), 1);
}

TEST(StoreChannelsFirst, WithGroupsResidualAndActivation) {
  const char* lines =
      "  %a = Conv(%x, %w) {group = 4}\n  %s = MaxPool(%x) {kernel_shape = [1, 1]}\n  %b = Add(%a, %s)\n"
      "  %y = Relu(%b)\n  return %y\n";
  EXPECT_EQ(TransposesOf(lines, {2, 192, 9, 7}, {192, 48, 1, 1}), 1);
  const char* reshaped =
      "  const %to = i64[3] {2, 24, -1}\n  %a = Conv(%x, %w) {strides = [2, 1]}\n"
      "  %y = Reshape(%a, %to)\n  return %y\n";
  EXPECT_EQ(TransposesOf(reshaped, {2, 17, 13, 11}, {24, 17, 2, 2}), 1);
}

TEST(StoreChannelsFirst, NotForOtherAlgorithmsAndReaders) {
  EXPECT_EQ(TransposesOf("  %y = Conv(%x, %w) {group = 24}\n  return %y\n", {1, 24, 9, 9}, {24, 1, 3, 3}), 2)
      << "depthwise";
  EXPECT_EQ(TransposesOf("  %y = Conv(%x, %w)\n  %z = MaxPool(%y) {kernel_shape = [2, 2]}\n  return %y, %z\n",
                         {1, 20, 9, 9}, {24, 20, 1, 1}),
            3)
      << "the pool reads it channels last";
}

}  // namespace
}  // namespace quern::cpu
