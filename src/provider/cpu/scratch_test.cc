// A step uses the scratch of the slots that its plan was made for, however many the run's executor has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ops/evaluate.h"
#include "ops/infer.h"
#include "parallel/hostile_executor.h"
#include "provider/cpu/cpu_executable.h"
#include "provider/host.h"

namespace quern::cpu {
namespace {

// Large windows that reach over every border: each slot has a long list of its own.
TEST(PoolScratch, IsThatOfThePlannedSlots) {
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
  ASSERT_TRUE(InferShapes(graph).ok());
  const Result<std::vector<Value>> expected = EvaluateGraph(graph, std::vector<Value>{x});
  ASSERT_TRUE(expected.ok()) << expected.status().message();

  HostileExecutor executor(7, 8);
  CpuConfig config;
  config.cpu = HostCpu();
  const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(graph, config, executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  const quern_tensor_view input = ViewOf(x);
  quern_tensor_view planned{};
  planned.rank = -1;
  quern_plan_args plan_args{};
  plan_args.num_inputs = plan_args.num_outputs = 1;
  plan_args.inputs = &input;
  plan_args.outputs = &planned;
  plan_args.concurrency = 2;
  const Result<std::unique_ptr<CpuPlan>> plan = CpuPlan::Build(**exe, plan_args);
  ASSERT_TRUE(plan.ok()) << plan.status().message();

  constexpr size_t kGuardBytes = 65536;
  constexpr std::byte kGuard{0x5a};
  const size_t bytes = (*plan)->workspace_bytes();
  AlignedBuffer workspace = AlignedBuffer::Allocate(bytes + kGuardBytes).value();
  std::fill_n(workspace.data(), workspace.size_bytes(), kGuard);
  const Tensor y = Tensor::Allocate(DType::kU8, x.shape()).value();
  quern_tensor_view output = ViewOf(y);
  quern_executor handle;
  handle.executor = &executor;
  quern_run_args args{};
  args.num_inputs = args.num_outputs = 1;
  args.inputs = &input;
  args.outputs = &output;
  args.workspace = workspace.data();
  args.executor = &handle;
  const Status status = (*plan)->Run(args);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(std::memcmp(y.raw_data(), (*expected)[0].tensor().raw_data(), y.bytes()), 0);
  const std::byte* guard = workspace.data() + bytes;
  EXPECT_TRUE(std::all_of(guard, guard + kGuardBytes, [&](std::byte b) { return b == kGuard; }));
}

}  // namespace
}  // namespace quern::cpu
