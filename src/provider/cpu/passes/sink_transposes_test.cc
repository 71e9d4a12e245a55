// Moving transposes towards the outputs: all of it or nothing.
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

const Pass& FindPass(std::string_view name) {
  for (const Pass* p : CpuPasses()) {
    if (p->name == name) return *p;
  }
  ADD_FAILURE() << "no pass " << name;
  return *CpuPasses()[0];
}

const CpuPassContext kContext{{.cpu = HostCpu()}, nullptr};

// A run-time operand comes before a constant that cannot be permuted: nothing may have changed by then.
TEST(SinkTransposes, LeavesTheGraphAloneWhereAnOperandDoesNotFit) {
  const std::array values = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f, 9.0f, 10.0f, 11.0f, 12.0f};
  const Tensor memory = Tensor::FromValues<float>(Shape{12}, values);
  for (const bool strided : {false, true}) {
    Graph graph;
    graph.opset_imports[""] = 17;
    const auto input = [&](const char* name, Dims dims) {
      return graph.AddInput(name, ValueType::Tensor(DType::kF32, std::move(dims)));
    };
    const auto transposed = [&](GraphValue* v) { return TransposeValue(graph, v, {1, 0}, nullptr); };
    GraphValue *a = transposed(input("a", {3, 2})), *b = transposed(input("b", {3, 2}));
    const Tensor constant =
        strided ? Tensor::WrapStrided(DType::kF32, Shape{2, 3}, Shape{6, 2}, memory.raw_data(), memory.owner())
                : Tensor::FromValues<float>(Shape{2, 3}, std::span(values).first(6));
    Node* sum = graph.AddNode(
        {.op_type = "Sum", .inputs = {input("c", {2, 3}), graph.AddConstant("k", constant), a, b}, .outputs = {"y"}});
    sum->output(0)->set_type(ValueType::Tensor(DType::kF32, Dims{2, 3}));
    graph.AddOutput(sum->output(0));

    const Result<int> changes = FindPass("cpu_sink_transposes").run(graph, &kContext);
    ASSERT_TRUE(changes.ok()) << changes.status().message();
    EXPECT_EQ(*changes, strided ? 0 : 1);
    EXPECT_EQ(graph.num_nodes(), 3) << "two transposes and the sum";
    EXPECT_EQ(graph.constants().size(), strided ? 1u : 2u);
  }
}

// Before operator set 9, Upsample has its scales as an attribute: an entry for each dimension, which moves with it.
TEST(SinkTransposes, MovesScalesThatAreAnAttribute) {
  Graph graph;
  graph.opset_imports[""] = 7;
  GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF32, Dims{1, 4, 5, 3}));
  GraphValue* transposed = TransposeValue(graph, x, {0, 3, 1, 2}, nullptr);
  const std::vector<float> scales = {1, 1, 2, 3};
  Node* upsample = graph.AddNode(
      {.op_type = "Upsample", .inputs = {transposed}, .outputs = {"y"}, .attributes = {{"scales", scales}}});
  upsample->output(0)->set_type(ValueType::Tensor(DType::kF32, Dims{1, 3, 8, 15}));
  GraphValue* back = TransposeValue(graph, upsample->output(0), {0, 2, 3, 1}, nullptr);
  graph.AddOutput(back);

  const Result<int> changes = FindPass("cpu_sink_transposes").run(graph, &kContext);
  ASSERT_TRUE(changes.ok()) << changes.status().message();
  for (const Node* node : graph.nodes()) {
    if (!node->Is("Upsample")) continue;
    EXPECT_EQ(node->input(0), x);
    EXPECT_EQ(*node->FindAttribute<std::vector<float>>("scales"), (std::vector<float>{1, 2, 3, 1}));
  }
}

// ONNX's LRN has channels first; the one with channels last is this provider's.
TEST(SinkTransposes, LrnTakesChannelsLast) {
  for (const bool images : {false, true}) {
    Graph graph;
    graph.opset_imports[""] = 13;
    GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF32, Dims{1, 4, 5, 3}));
    const Permutation p = images ? Permutation{0, 3, 1, 2} : Permutation{0, 3, 2, 1};
    Node* lrn = graph.AddNode({.op_type = "LRN",
                               .inputs = {TransposeValue(graph, x, p, nullptr)},
                               .outputs = {"y"},
                               .attributes = {{"size", int64_t{5}}}});
    lrn->output(0)->set_type(ValueType::Tensor(DType::kF32, images ? Dims{1, 3, 4, 5} : Dims{1, 3, 5, 4}));
    graph.AddOutput(lrn->output(0));

    const Result<int> changes = FindPass("cpu_sink_transposes").run(graph, &kContext);
    ASSERT_TRUE(changes.ok()) << changes.status().message();
    EXPECT_EQ(*changes, images);
    const Node* last = graph.outputs()[0]->producer();
    EXPECT_EQ(TransposePermutation(last), images ? std::optional(p) : std::nullopt);
    if (!images) continue;
    const Node* made = last->input(0)->producer();
    EXPECT_TRUE(made->Is("LRN", kCpuDomain)) << made->domain() << "::" << made->op_type();
    EXPECT_EQ(made->input(0), x);
    EXPECT_EQ(made->GetInt("size", 1), 5);
  }
}

// Transposed weights are packed as they are.
TEST(ConvertProducts, TakesWeightsThatATransposeTurns) {
  Graph graph;
  graph.opset_imports[""] = 17;
  GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF32, Dims{2, 3, 5}));
  GraphValue* w = graph.AddConstant("w", Tensor::Allocate(DType::kF32, Shape{4, 5}).value());
  Node* product =
      graph.AddNode({.op_type = "MatMul", .inputs = {x, TransposeValue(graph, w, {1, 0}, nullptr)}, .outputs = {"y"}});
  product->output(0)->set_type(ValueType::Tensor(DType::kF32, Dims{2, 3, 4}));
  graph.AddOutput(product->output(0));

  const Result<int> changes = FindPass("cpu_convert_products").run(graph, &kContext);
  ASSERT_TRUE(changes.ok()) << changes.status().message();
  EXPECT_EQ(*changes, 1);
  ASSERT_EQ(graph.num_nodes(), 1);
  const Node* made = graph.first_node();
  EXPECT_EQ(made->op_type(), "MatMul");
  EXPECT_EQ(made->input(1), w);
  EXPECT_EQ(made->GetInt("transB", 0), 1);
}

}  // namespace
}  // namespace quern::cpu
