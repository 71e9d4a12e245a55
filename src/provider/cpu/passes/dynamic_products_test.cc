// Products of dynamically quantized operands, as exporters write them: one node less for each that scales, casts and
// adds, and the reference's numbers.
#include <gtest/gtest.h>

#include <random>

#include "ops/evaluate.h"
#include "ops/infer.h"
#include "provider/cpu/test_run.h"

namespace quern::cpu {
namespace {

class DynamicProducts : public testing::Test {
 protected:
  DynamicProducts() { graph_.opset_imports[""] = 21; }
  template <typename T>
  Tensor Random(DType type, const Shape& shape, double factor) {
    Tensor t = Tensor::Allocate(type, shape).value();
    for (T& v : t.values<T>()) v = static_cast<T>((static_cast<double>(random_() % 2000) - 1000) * factor);
    return t;
  }
  GraphValue* Constant(const Tensor& t) { return graph_.AddConstant(graph_.UniqueName("c"), Value(t)); }
  GraphValue* Floats(const Shape& shape) { return Constant(Random<float>(DType::kF32, shape, 0.001)); }
  Node* Op(const char* op, std::vector<GraphValue*> inputs, int outputs = 1,
           std::map<std::string, Attribute, std::less<>> attributes = {}) {
    NodeSpec spec{.name = op, .op_type = op, .inputs = std::move(inputs), .attributes = std::move(attributes)};
    for (int i = 0; i < outputs; ++i) spec.outputs.push_back(graph_.UniqueName(std::string(op) + std::to_string(i)));
    return graph_.AddNode(std::move(spec));
  }
  // The scaled product of x, quantized, with weights [5, 7] whose scales have this shape.
  GraphValue* Scaled(GraphValue* x, const Shape& scales, bool swapped) {
    Node* q = Op("DynamicQuantizeLinear", {x}, 3);
    GraphValue* w = Constant(Random<int8_t>(DType::kI8, Shape{5, 7}, 0.1));
    GraphValue* product =
        Op("MatMulInteger", {q->output(0), w, q->output(2), Constant(Random<int8_t>(DType::kI8, {}, 0))})->output(0);
    GraphValue* cast = Op("Cast", {product}, 1, {{"to", int64_t{1}}})->output(0);
    GraphValue* scale = Op("Mul", {q->output(1), Floats(scales)})->output(0);
    return Op("Mul", swapped ? std::vector{scale, cast} : std::vector{cast, scale})->output(0);
  }
  // Runs against the reference; returns how many nodes are left.
  int Check() {
    const Status inferred = InferShapes(graph_);
    EXPECT_TRUE(inferred.ok()) << inferred.message();
    const std::vector<Value> inputs = {Random<float>(DType::kF32, Shape{2, 4, 5}, 0.003)};
    const Result<std::vector<Value>> expected = EvaluateGraph(graph_, inputs);
    const Result<std::vector<Tensor>> actual = RunOnCpu(graph_, inputs, Config(false));
    EXPECT_TRUE(expected.ok()) << expected.status().message();
    EXPECT_TRUE(actual.ok()) << actual.status().message();
    if (!expected.ok() || !actual.ok()) return -1;
    const Tensor& want = (*expected)[0].tensor();
    EXPECT_EQ((*actual)[0].shape().ToString(), want.shape().ToString());
    EXPECT_EQ(std::memcmp((*actual)[0].raw_data(), want.raw_data(), want.bytes()), 0);
    InlineExecutor executor;
    const auto exe = CpuExecutable::Compile(graph_, Config(false), executor);
    EXPECT_TRUE(exe.ok()) << exe.status().message();
    return exe.ok() ? static_cast<int>((*exe)->nodes().size()) : -1;
  }
  GraphValue* Input() { return graph_.AddInput("x", ValueType::Tensor(DType::kF32, Dims{2, 4, 5})); }

  std::mt19937 random_{20240607};
  Graph graph_;
};

TEST_F(DynamicProducts, TakeScalesAndBias) {
  graph_.AddOutput(Op("Add", {Floats(Shape{7}), Scaled(Input(), Shape{7}, false)})->output(0));
  EXPECT_EQ(Check(), 2);  // DynamicQuantizeLinear and the product
}

TEST_F(DynamicProducts, TakeOneScale) {
  graph_.AddOutput(Scaled(Input(), Shape{}, true));
  EXPECT_EQ(Check(), 2);
}

TEST_F(DynamicProducts, LeaveScalesAndTermsOfRows) {
  graph_.AddOutput(Op("Add", {Scaled(Input(), Shape{4, 1}, false), Floats(Shape{4, 7})})->output(0));
  EXPECT_EQ(Check(), 5);  // scales of rows and sum are one
}

}  // namespace
}  // namespace quern::cpu
