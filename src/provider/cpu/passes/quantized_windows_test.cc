// Convolutions and what stands between them on bytes: one layout from the first to the last, the reference's bytes.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/test_run.h"

namespace quern::cpu {
namespace {

class QuantizedWindows : public testing::Test {
 protected:
  QuantizedWindows() {
    graph_.opset_imports[""] = 21;
    graph_.opset_imports["com.microsoft"] = 1;
  }
  Tensor Bytes(const Shape& shape) {
    Tensor t = Tensor::Allocate(DType::kU8, shape).value();
    for (uint8_t& b : t.values<uint8_t>()) b = static_cast<uint8_t>(random_());
    return t;
  }
  GraphValue* Constant(Tensor t) { return graph_.AddConstant(graph_.UniqueName("c"), Value(t)); }
  GraphValue* Scale(float s) { return Constant(Tensor::Scalar(s)); }
  GraphValue* Zero() { return Constant(Bytes(Shape{})); }
  GraphValue* Microsoft(const char* op, std::vector<GraphValue*> inputs,
                        std::map<std::string, Attribute, std::less<>> attributes = {}) {
    return graph_
        .AddNode({.name = op,
                  .domain = "com.microsoft",
                  .op_type = op,
                  .inputs = std::move(inputs),
                  .outputs = {graph_.UniqueName(op)},
                  .attributes = std::move(attributes)})
        ->output(0);
  }
  GraphValue* Conv(GraphValue* x, int64_t out, int64_t in) {
    return graph_
        .AddNode({.name = "conv",
                  .op_type = "QLinearConv",
                  .inputs = {x, Scale(0.02f), Zero(), Constant(Bytes(Shape{out, in, 3, 3})), Scale(0.01f), Zero(),
                             Scale(0.4f), Zero()},
                  .outputs = {graph_.UniqueName("conv")},
                  .attributes = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}})
        ->output(0);
  }

  std::mt19937 random_{20240607};
  Graph graph_;
};

TEST_F(QuantizedWindows, KeepOneLayout) {
  const Tensor x = Bytes(Shape{1, 4, 8, 9});
  GraphValue* in = graph_.AddInput("x", TypeOf(Value(x)));
  GraphValue* first = Conv(in, 8, 4);
  GraphValue* left = Microsoft("QLinearLeakyRelu", {Conv(first, 8, 8), Scale(0.4f), Zero(), Scale(0.3f), Zero()});
  GraphValue* right = Microsoft("QLinearSigmoid", {Conv(first, 8, 8), Scale(0.4f), Zero(), Scale(0.004f), Zero()});
  GraphValue* sum =
      Microsoft("QLinearAdd", {left, Scale(0.3f), Zero(), right, Scale(0.01f), Zero(), Scale(0.3f), Zero()});
  GraphValue* by_channel = Microsoft("QLinearMul", {sum, Scale(0.3f), Zero(), Constant(Bytes(Shape{8, 1, 1})),
                                                    Scale(0.01f), Zero(), Scale(0.2f), Zero()});
  GraphValue* both =
      Microsoft("QLinearConcat", {Scale(0.2f), Zero(), by_channel, Scale(0.2f), Zero(), first, Scale(0.4f), Zero()},
                {{"axis", int64_t{1}}});
  GraphValue* pooled =
      Microsoft("QLinearAveragePool", {both, Scale(0.2f), Zero(), Scale(0.2f), Zero()},
                {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  graph_.AddOutput(Conv(pooled, 4, 16));
  graph_.AddOutput(Microsoft("QLinearGlobalAveragePool", {pooled, Scale(0.2f), Zero(), Scale(0.1f), Zero()}));
  const Status inferred = InferShapes(graph_);
  ASSERT_TRUE(inferred.ok()) << inferred.message();

  const std::vector<Value> inputs = {x};
  const Result<std::vector<Value>> expected = EvaluateGraph(graph_, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (const bool portable : {false, true}) {
    const Result<std::vector<Tensor>> actual = RunOnCpu(graph_, inputs, Config(portable));
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    for (size_t i = 0; i < 2; ++i) {
      const Tensor& want = (*expected)[i].tensor();
      ASSERT_EQ((*actual)[i].shape().ToString(), want.shape().ToString());
      EXPECT_EQ(std::memcmp((*actual)[i].raw_data(), want.raw_data(), want.bytes()), 0);
    }
  }

  InlineExecutor executor;
  const auto exe = CpuExecutable::Compile(graph_, Config(false), executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  int transposes = 0;
  for (const Node* n : (*exe)->graph().nodes()) transposes += n->Is("Transpose");
  EXPECT_EQ(transposes, 2);  // of the input and one output; a convolution stores the other channels first
}

// Sums of integers are no product that takes a float32 epilogue.
TEST_F(QuantizedWindows, IntegersAfterSumsStayApart) {
  const Tensor x = Bytes(Shape{1, 4, 8, 9});
  GraphValue* in = graph_.AddInput("x", TypeOf(Value(x)));
  const auto add = [&](const char* op, std::vector<GraphValue*> inputs) {
    return graph_.AddNode({.name = op, .op_type = op, .inputs = std::move(inputs), .outputs = {graph_.UniqueName(op)}})
        ->output(0);
  };
  Tensor bias = Tensor::Allocate(DType::kI32, Shape{8, 1, 1}).value();
  for (int32_t& b : bias.values<int32_t>()) b = static_cast<int32_t>(random_() % 1000);
  GraphValue* sums = add("ConvInteger", {in, Constant(Bytes(Shape{8, 4, 3, 3})), Zero()});
  GraphValue* biased = add("Add", {sums, Constant(bias)});
  graph_.AddOutput(add("Add", {biased, sums}));
  const Status inferred = InferShapes(graph_);
  ASSERT_TRUE(inferred.ok()) << inferred.message();
  const std::vector<Value> inputs = {x};
  const Result<std::vector<Value>> expected = EvaluateGraph(graph_, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const Result<std::vector<Tensor>> actual = RunOnCpu(graph_, inputs, Config(false));
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  const Tensor& want = (*expected)[0].tensor();
  EXPECT_EQ(std::memcmp((*actual)[0].raw_data(), want.raw_data(), want.bytes()), 0);
}

}  // namespace
}  // namespace quern::cpu
