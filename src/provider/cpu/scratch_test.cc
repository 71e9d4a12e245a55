// A step uses the scratch of the slots that its plan was made for, however many the run's executor has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "ops/evaluate.h"
#include "ops/infer.h"
#include "parallel/hostile_executor.h"
#include "provider/cpu/cpu_executable.h"
#include "provider/host.h"

namespace quern::cpu {
namespace {

// Runs the graph as planned for two slots, on an executor that has eight, with a guard behind its memory.
void Check(Graph& graph, const std::vector<Tensor>& inputs) {
  ASSERT_TRUE(InferShapes(graph).ok());
  const Result<std::vector<Value>> expected = EvaluateGraph(graph, std::vector<Value>(inputs.begin(), inputs.end()));
  ASSERT_TRUE(expected.ok()) << expected.status().message();

  HostileExecutor executor(7, 8);
  CpuConfig config;
  config.cpu = HostCpu();
  const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(graph, config, executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  std::vector<quern_tensor_view> views;
  for (const Tensor& t : inputs) views.push_back(ViewOf(t));
  quern_tensor_view planned{};
  planned.rank = -1;
  quern_plan_args plan_args{};
  plan_args.num_inputs = static_cast<int32_t>(views.size());
  plan_args.num_outputs = 1;
  plan_args.inputs = views.data();
  plan_args.outputs = &planned;
  plan_args.concurrency = 2;
  const Result<std::unique_ptr<CpuPlan>> plan = CpuPlan::Build(**exe, plan_args);
  ASSERT_TRUE(plan.ok()) << plan.status().message();

  constexpr size_t kGuardBytes = 65536;
  constexpr std::byte kGuard{0x5a};
  const size_t bytes = (*plan)->workspace_bytes();
  AlignedBuffer workspace = AlignedBuffer::Allocate(bytes + kGuardBytes).value();
  std::fill_n(workspace.data(), workspace.size_bytes(), kGuard);
  const Tensor& want = (*expected)[0].tensor();
  const Tensor y = Tensor::Allocate(want.dtype(), want.shape()).value();
  quern_tensor_view output = ViewOf(y);
  quern_executor handle;
  handle.executor = &executor;
  quern_run_args args{};
  args.num_inputs = plan_args.num_inputs;
  args.num_outputs = 1;
  args.inputs = views.data();
  args.outputs = &output;
  args.workspace = workspace.data();
  args.executor = &handle;
  const Status status = (*plan)->Run(args);
  ASSERT_TRUE(status.ok()) << status.message();
  if (want.dtype() == DType::kF32) {
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      ASSERT_NEAR(y.data<float>()[i], want.data<float>()[i], 1e-5) << "element " << i;
    }
  } else {
    EXPECT_EQ(std::memcmp(y.raw_data(), want.raw_data(), y.bytes()), 0);
  }
  const std::byte* guard = workspace.data() + bytes;
  EXPECT_TRUE(std::all_of(guard, guard + kGuardBytes, [&](std::byte b) { return b == kGuard; }));
}

// Large windows that reach over every border: each slot has a long list of its own.
TEST(PlannedScratch, OfPools) {
  Graph graph;
  graph.opset_imports[""] = 17;
  Tensor x = Tensor::Allocate(DType::kU8, Shape{1, 3, 16, 16}).value();
  for (int64_t i = 0; i < x.num_elements(); ++i) x.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
  GraphValue* in = graph.AddInput("x", TypeOf(x));
  Node* pool = graph.AddNode(
      {.name = "pool",
       .op_type = "MaxPool",
       .inputs = {in},
       .outputs = {"y"},
       .attributes = {{"kernel_shape", std::vector<int64_t>{9, 9}}, {"pads", std::vector<int64_t>{4, 4, 4, 4}}}});
  graph.AddOutput(pool->output(0));
  Check(graph, {x});
}

Tensor Floats(const Shape& shape) {
  Tensor t = Tensor::Allocate(DType::kF32, shape).value();
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<float>()[i] = static_cast<float>(i * 37 % 101 - 50) * 0.01f;
  return t;
}

// Blocks of scores, the products' own memory and a joined cache.
TEST(PlannedScratch, OfAttention) {
  for (const int64_t queries : {1, 70}) {
    SCOPED_TRACE(queries);
    Graph graph;
    graph.opset_imports[""] = 23;
    const std::vector<Tensor> inputs = {Floats(Shape{2, 6, queries, 8}), Floats(Shape{2, 2, 90, 8}),
                                        Floats(Shape{2, 2, 90, 5}),      Floats(Shape{queries, 101}),
                                        Floats(Shape{2, 2, 11, 8}),      Floats(Shape{2, 2, 11, 5})};
    NodeSpec spec{.name = "attention", .op_type = "Attention", .outputs = {"y"}};
    for (const Tensor& t : inputs) {
      spec.inputs.push_back(graph.AddInput("x" + std::to_string(spec.inputs.size()), TypeOf(t)));
    }
    graph.AddOutput(graph.AddNode(std::move(spec))->output(0));
    Check(graph, inputs);
  }
}

// Blocks of a chain's values: of rows that are worth calls of their own, and of shorter ones.
TEST(PlannedScratch, OfChains) {
  for (const Shape& shape : {Shape{90, 700}, Shape{9000, 7}}) {
    SCOPED_TRACE(shape.ToString());
    Graph graph;
    graph.opset_imports[""] = 17;
    const std::vector<Tensor> inputs = {Floats(shape), Floats(Shape{shape[0], 1}), Floats(Shape{shape[1]})};
    std::vector<GraphValue*> x;
    for (const Tensor& t : inputs) x.push_back(graph.AddInput("x" + std::to_string(x.size()), TypeOf(t)));
    const auto node = [&](const char* op, std::vector<GraphValue*> operands) {
      return graph.AddNode({.op_type = op, .inputs = std::move(operands), .outputs = {graph.UniqueName("v")}})
          ->output(0);
    };
    GraphValue *a = node("Sub", {x[0], x[1]}), *b = node("Mul", {a, x[2]}), *c = node("Tanh", {b});
    graph.AddOutput(node("Where", {node("Less", {x[1], c}), b, node("Mul", {c, a})}));
    Check(graph, inputs);
  }
}

}  // namespace
}  // namespace quern::cpu
