// Plans that start from the plan before: the same results as from nothing, in any order of shapes, and no step bound
// again that stays as it was.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "graph/text.h"
#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// Rows that grow, as caches do, beside rows that do not; shapes that are computed, and one that comes as an input.
constexpr char kGraph[] = R"(graph opset("": 17) {
  input %past: f32[b,p,8]
  input %x: f32[b,n,8]
  input %target: i64[2]
  const %one = f32[1] {1}
  %all = Concat(%past, %x) {axis = 1}
  %turned = Transpose(%all) {perm = [0, 2, 1]}
  %scores = MatMul(%x, %turned)
  %weights = Softmax(%scores) {axis = -1}
  %mixed = MatMul(%weights, %all)
  %alone = Tanh(%x)
  %last = Relu(%alone)
  %flat = Reshape(%mixed, %target)
  %y = Sigmoid(%flat)
  %shape = Shape(%scores)
  %ones = Expand(%one, %shape)
  return %y, %last, %ones
}
)";

struct Sizes {
  int64_t b = 1, p = 4, n = 2, width = 8;
};

// Past, x and target, the first two in memory of any strides where asked for.
std::vector<Value> InputsOf(const Sizes& s, bool strided) {
  std::vector<Value> inputs;
  for (const int64_t rows : {s.p, s.n}) {
    const Shape shape{s.b, rows, 8};
    const Tensor dense = DrawTensor(DType::kF32, shape);
    inputs.emplace_back(dense);
    if (!strided || Draw(0, 1) == 0) continue;
    const Tensor view = DrawStrided(DType::kF32, shape).view;
    CopyTensor(dense, view);
    inputs.back() = view;
  }
  inputs.emplace_back(Tensor::FromValues<int64_t>(Shape{2}, std::vector<int64_t>{-1, s.width}));
  return inputs;
}

TEST_F(CpuOps, AnyOrderOfShapes) {
  const Result<std::unique_ptr<Graph>> graph = ParseGraph(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_TRUE(InferShapes(**graph).ok());
  for (const bool portable : {false, true}) {
    HostileExecutor executor(7, 3);
    const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(**graph, Config(portable), executor);
    ASSERT_TRUE(exe.ok()) << exe.status().message();
    Sizes sizes;
    for (int i = 0; i < 60; ++i) {
      switch (Draw(0, 4)) {
        case 0:
          sizes.n = Draw(1, 5);
          break;
        case 1:
          sizes.b = Draw(1, 3);
          break;
        case 2:
          sizes.width = Pick<int64_t>({1, 2, 4, 8});
          break;
        default:
          sizes.p = Draw(0, 9);
      }
      SCOPED_TRACE("b " + std::to_string(sizes.b) + ", p " + std::to_string(sizes.p) + ", n " +
                   std::to_string(sizes.n) + ", width " + std::to_string(sizes.width));
      const std::vector<Value> inputs = InputsOf(sizes, Draw(0, 2) == 0);
      const Result<std::vector<Value>> expected = EvaluateGraph(**graph, inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const Result<std::vector<Tensor>> actual = RunOnce(**exe, executor, inputs);
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      ASSERT_NO_FATAL_FAILURE(ExpectClose(*expected, *actual));
    }
    // One that cannot be leaves nothing behind that the next would start from.
    std::vector<Value> unfit = InputsOf(sizes, false);
    unfit[0] = DrawTensor(DType::kF32, Shape{sizes.b, 3, 7});
    EXPECT_FALSE(RunOnce(**exe, executor, unfit).ok());
    const std::vector<Value> inputs = InputsOf(sizes, false);
    const Result<std::vector<Tensor>> actual = RunOnce(**exe, executor, inputs);
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    ASSERT_NO_FATAL_FAILURE(ExpectClose(EvaluateGraph(**graph, inputs).value(), *actual));
  }
}

// Each starts from what some thread left.
TEST_F(CpuOps, ThreadsPlanAtOnce) {
  const Result<std::unique_ptr<Graph>> graph = ParseGraph(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_TRUE(InferShapes(**graph).ok());
  HostileExecutor executor(7, 3);
  const Result<std::unique_ptr<CpuExecutable>> exe = CpuExecutable::Compile(**graph, Config(false), executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  constexpr int kThreads = 4, kRuns = 12;
  std::vector<std::vector<Value>> inputs, expected;
  for (int i = 0; i < kThreads * kRuns; ++i) {
    inputs.push_back(InputsOf({.b = Draw(1, 2), .p = Draw(0, 9), .n = Draw(1, 4)}, false));
    expected.push_back(EvaluateGraph(**graph, inputs.back()).value());
  }
  std::vector<Result<std::vector<Tensor>>> actual(inputs.size(), Internal("not run"));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      HostileExecutor own(static_cast<uint32_t>(t), 3);
      for (int i = t * kRuns; i < (t + 1) * kRuns; ++i) {
        actual[static_cast<size_t>(i)] = RunOnce(**exe, own, inputs[static_cast<size_t>(i)]);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(actual[i].ok()) << actual[i].status().message();
    ASSERT_NO_FATAL_FAILURE(ExpectClose(expected[i], *actual[i]));
  }
}

TEST_F(CpuOps, StepsThatStayAreNotBoundAgain) {
  const Result<std::unique_ptr<Graph>> graph = ParseGraph(kGraph);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_TRUE(InferShapes(**graph).ok());
  InlineExecutor executor;
  const Result<std::unique_ptr<CpuExecutable>> exe =
      CpuExecutable::Compile(**graph, ConfigWithoutChains(false), executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  using Steps = std::map<std::string, std::shared_ptr<const CpuStep>>;
  const auto steps = [&](const Sizes& sizes) {
    std::vector<quern_tensor_view> in, out(3);
    const std::vector<Value> inputs = InputsOf(sizes, false);
    for (const Value& v : inputs) in.push_back(ViewOf(v.tensor()));
    for (quern_tensor_view& o : out) o.rank = -1;
    const quern_plan_args args{.struct_size = sizeof(quern_plan_args),
                               .num_inputs = 3,
                               .inputs = in.data(),
                               .concurrency = 1,
                               .num_outputs = 3,
                               .outputs = out.data()};
    const Result<std::unique_ptr<CpuPlan>> plan = CpuPlan::Build(**exe, args);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    Steps result;
    for (const BoundSteps::Step& s : (*plan)->steps().steps) {
      if (s.node >= 0) result[(*exe)->nodes()[static_cast<size_t>(s.node)].node->op_type()] = s.step;
    }
    return result;
  };
  const Steps before = steps({.p = 4}), grown = steps({.p = 5}), wider = steps({.p = 5, .n = 3});
  ASSERT_TRUE(before.contains("Tanh"));
  EXPECT_EQ(grown.at("Tanh"), before.at("Tanh"));
  EXPECT_NE(grown.at("Concat"), before.at("Concat"));
  EXPECT_NE(wider.at("Tanh"), before.at("Tanh"));
}

}  // namespace
}  // namespace quern::cpu
