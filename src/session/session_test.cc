// Sessions: plans, threads and executors, cancellation, strides, errors, subgraphs, borders between providers, limits.
#include "session/session.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "graph/text.h"
#include "parallel/host_executor.h"
#include "parallel/hostile_executor.h"
#include "parallel/thread_pool.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// y = relu(x W), large enough for several threads once x has a few dozen rows.
constexpr int64_t kK = 64, kN = 256;
const Tensor& DenseWeights() {
  static const Tensor weights = DrawFloats(Shape{kK, kN}, 77);
  return weights;
}
std::unique_ptr<Graph> Dense() {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), kK});
  GraphValue* p = g.Op("MatMul", {x, g.Const("w", DenseWeights())}, "product");
  return g.Finish({g.Op("Relu", {p}, "y")});
}
std::vector<double> DenseExpected(const Tensor& x) {
  std::vector<double> y = Product(x, DenseWeights());
  for (double& v : y) v = std::max(v, 0.0);
  return y;
}

std::unique_ptr<Session> Parse(const std::string& text, SessionOptions options = {}) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? MakeSession(std::move(graph).value(), std::move(options)) : nullptr;
}

SessionOptions On(std::shared_ptr<Executor> executor) {
  SessionOptions options;
  options.executor = std::move(executor);
  return options;
}

TEST(Session, KeepsAPlanPerShapeWithinItsBound) {
  SessionOptions options;
  options.plan_cache_size = 2;
  const std::unique_ptr<Session> session = MakeSession(Dense(), options);
  const auto run = [&](int64_t n) {
    const Tensor x = DrawFloats(Shape{n, kK}, static_cast<unsigned>(n));
    std::vector<Value> in = {x}, out(1);
    ASSERT_TRUE(session->Run(in, out).ok());
    ExpectNear(out[0], DenseExpected(x));
  };
  run(1);
  run(2);
  run(1);
  run(2);
  EXPECT_EQ(session->plans_built(), 2);
  run(3);  // displaces the plan for one row, the one used longest ago
  run(2);
  EXPECT_EQ(session->plans_built(), 3);
  run(1);
  EXPECT_EQ(session->plans_built(), 4);
}

// Four threads, fifty runs each, several shapes.
void RunFromManyThreads(Session& session, int runs = 50) {
  std::vector<Tensor> inputs;
  std::vector<std::vector<double>> expected;
  for (int64_t n : {1, 30, 64, 2, 47}) {
    inputs.push_back(DrawFloats(Shape{n, kK}, static_cast<unsigned>(n)));
    expected.push_back(DenseExpected(inputs.back()));
  }
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int run = 0; run < runs; ++run) {
        const size_t i = static_cast<size_t>(run + t) % inputs.size();
        std::vector<Value> in = {inputs[i]}, out(1);
        failures += !session.Run(in, out).ok();
        ExpectNear(out[0], expected[i]);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures, 0);
}

TEST(SessionThreads, ManyRunsAtOnce) {
  SessionOptions options;
  options.threads = 2;
  const std::unique_ptr<Session> session = MakeSession(Dense(), options);
  RunFromManyThreads(*session);
}

TEST(SessionThreads, PlansMayBeDroppedWhileOthersRun) {
  SessionOptions options;
  options.threads = 2;
  options.plan_cache_size = 1;
  const std::unique_ptr<Session> session = MakeSession(Dense(), options);
  RunFromManyThreads(*session);
}

TEST(SessionThreads, SeveralSessionsShareAnExecutor) {
  const auto pool = std::make_shared<ThreadPool>(ThreadPoolOptions{.threads = 3});
  const std::unique_ptr<Session> one = MakeSession(Dense(), On(pool)), other = MakeSession(Dense(), On(pool));
  std::thread second([&] { RunFromManyThreads(*other, 20); });
  RunFromManyThreads(*one, 20);
  second.join();
}

TEST(SessionThreads, AHostileExecutorGivesTheSameResults) {
  const std::unique_ptr<Session> session = MakeSession(Dense(), On(std::make_shared<HostileExecutor>(3)));
  for (int64_t n : {1, 7, 150}) {
    const Tensor x = DrawFloats(Shape{n, kK}, 5);
    std::vector<Value> in = {x}, out(1);
    ASSERT_TRUE(session->Run(in, out).ok());
    ExpectNear(out[0], DenseExpected(x));
  }
}

TEST(SessionThreads, AHostsPoolServesARun) {
  std::atomic<int64_t> regions{0};
  const HostParallel host = {
      .context = &regions,
      .concurrency = 2,
      .parallel_for = [](void* context, void (*body)(void*, int64_t), void* body_context, int64_t count) {
        ++*static_cast<std::atomic<int64_t>*>(context);
        for (int64_t i = count; i-- > 0;) body(body_context, i);
      }};
  SessionOptions options;
  options.threads = 2;
  const std::unique_ptr<Session> session = MakeSession(Dense(), options);
  HostExecutor executor(host);
  const Tensor x = DrawFloats(Shape{256, kK}, 5);
  std::vector<Value> in = {x}, out(1);
  ASSERT_TRUE(session->Run(in, out, {.cancel = nullptr, .executor = &executor, .want = {}}).ok());
  ExpectNear(out[0], DenseExpected(x));
  EXPECT_GT(regions, 0);

  HostParallel wide = host;
  wide.concurrency = 8;
  HostExecutor too_wide(wide);
  const Status status = session->Run(in, out, {.cancel = nullptr, .executor = &too_wide, .want = {}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("8 slots"));
}

// Cancels once the run has used it: no clock is needed to be in the middle of a run.
class CancellingExecutor final : public Executor {
 public:
  explicit CancellingExecutor(CancelToken& token) : token_(token) {}
  int concurrency() const override { return 2; }
  Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel, int max_slots) override {
    if (armed_) std::thread([this] { token_.Cancel(); }).join();
    return inline_.ParallelFor(total, grain, task, cancel, max_slots);
  }
  void Arm() { armed_ = true; }

 private:
  CancelToken& token_;
  InlineExecutor inline_;
  bool armed_ = false;
};

RunOptions Cancellable(const CancelToken& token) {
  RunOptions options;
  options.cancel = &token;
  return options;
}

TEST(SessionThreads, ACancelledRunSaysSoAndLeavesTheSessionUsable) {
  CancelToken token;
  const auto executor = std::make_shared<CancellingExecutor>(token);
  const std::unique_ptr<Session> session = MakeSession(Dense(), On(executor));
  const Tensor x = DrawFloats(Shape{256, kK}, 5);
  std::vector<Value> in = {x}, out(1);
  ASSERT_TRUE(session->Run(in, out, Cancellable(token)).ok());
  executor->Arm();
  out = std::vector<Value>(1);
  EXPECT_EQ(session->Run(in, out, Cancellable(token)).code(), StatusCode::kCancelled);
  EXPECT_TRUE(token.cancelled()) << "the run used no executor";
  EXPECT_EQ(session->Run(in, out, Cancellable(token)).code(), StatusCode::kCancelled);
  ASSERT_TRUE(session->Run(in, out).ok());
  ExpectNear(out[0], DenseExpected(x));
}

TEST(Session, TakesStridesOnBothSides) {
  const std::unique_ptr<Session> session = MakeSession(Dense());
  const Tensor x = DrawFloats(Shape{3, kK}, 6);
  // Columns one after the other, rows of the result 16 apart.
  Tensor turned = Tensor::Allocate(DType::kF32, Shape{kK, 3}).value();
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < kK; ++c) turned.data<float>()[c * 3 + r] = x.data<float>()[r * kK + c];
  }
  std::vector<float> memory(3 * 300, -9);
  std::vector<Value> in = {Tensor::WrapStrided(DType::kF32, Shape{3, kK}, Shape{1, 3}, turned.raw_data())};
  std::vector<Value> out = {Tensor::WrapStrided(DType::kF32, Shape{3, kN}, Shape{300, 1}, memory.data())};
  const Status status = session->Run(in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectNear(out[0], DenseExpected(x));
  for (int r = 0; r < 3; ++r) {
    for (int64_t c = kN; c < 300; ++c) EXPECT_EQ(memory[static_cast<size_t>(r * 300 + c)], -9) << "between the rows";
  }
  std::vector<Value> plain = {x}, dense(1);
  ASSERT_TRUE(session->Run(plain, dense).ok());
  ExpectNear(dense[0], DenseExpected(x));
}

TEST(Session, ErrorsNameInputsAndOutputs) {
  const std::unique_ptr<Session> session = MakeSession(Dense());
  const auto message = [&](Value x, Value y) {
    std::vector<Value> in = {std::move(x)}, out = {std::move(y)};
    const Status status = session->Run(in, out);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  const Tensor good = Zeros(Shape{2, kK});
  EXPECT_THAT(message(Tensor::Allocate(DType::kF64, Shape{2, kK}).value(), {}),
              AllOf(HasSubstr("'x'"), HasSubstr("f64")));
  EXPECT_THAT(message(Zeros(Shape{2, kK, 1}), {}), AllOf(HasSubstr("'x'"), HasSubstr("[2,64,1]")));
  EXPECT_THAT(message(Zeros(Shape{2, 65}), {}), AllOf(HasSubstr("'x'"), HasSubstr("[2,65]")));
  EXPECT_THAT(message({}, {}), AllOf(HasSubstr("'x'"), HasSubstr("missing")));
  EXPECT_THAT(message(good, Zeros(Shape{2, 13})), AllOf(HasSubstr("'y'"), HasSubstr("[2,13]")));
  EXPECT_THAT(message(good, Tensor::Allocate(DType::kF64, Shape{2, kN}).value()),
              AllOf(HasSubstr("'y'"), HasSubstr("f64")));
  std::vector<Value> none, out(1);
  EXPECT_EQ(session->Run(none, out).code(), StatusCode::kInvalidArgument);
}

TEST(Session, RunsTheBranchTakenWithItsCaptures) {
  const std::unique_ptr<Session> session = Parse(R"(graph @branches opset("": 17) {
    input %c: bool[]
    input %x: f32[2,2]
    const %w = f32[2,2] {1.0, 2.0, 3.0, 4.0}
    %twice = Add(%x, %x)
    %y = If(%c) captures(%twice, %w) {
      then_branch = graph { input %a input %b %p = MatMul(%a, %b) return %p },
      else_branch = graph { input %a input %b %n = Sub(%a, %b) return %n }
    }
    %z = Neg(%y)
    return %z
  })");
  ASSERT_NE(session, nullptr);
  const std::vector<float> x = {1, 0, 0, 2};
  for (bool taken : {true, false, true}) {
    std::vector<Value> in = {Tensor::Scalar<bool>(taken), Tensor::FromValues<float>(Shape{2, 2}, x)}, out(1);
    const Status status = session->Run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectNear(out[0], taken ? std::vector<double>{-2, -4, -12, -16} : std::vector<double>{-1, 2, 3, 0});
  }
}

TEST(Session, GoesOnOnTheCpuAfterShapesThatDependOnData) {
  const std::unique_ptr<Session> session = Parse(R"(graph @dynamic opset("": 17) {
    input %x: f32[k]
    const %w = f32[1,3] {1.0, 2.0, 3.0}
    %where: i64[1,found] = NonZero(%x)
    %float = Cast(%where) {to = 1}
    %column = Transpose(%float) {perm = [1, 0]}
    %y = MatMul(%column, %w) @product
    return %y
  })");
  ASSERT_NE(session, nullptr);
  for (const std::vector<float>& x : {std::vector<float>{0, 5, 0, 6}, {1, 1, 1, 0}, {0, 0, 0, 0}}) {
    std::vector<Value> in = {Tensor::FromValues<float>(Shape{4}, x)}, out(1);
    const Status status = session->Run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<double> expected;
    for (size_t i = 0; i < x.size(); ++i) {
      for (int c = 1; c <= 3 && x[i] != 0; ++c) expected.push_back(static_cast<double>(i) * c);
    }
    ExpectNear(out[0], expected);
    EXPECT_EQ(out[0].tensor().rank(), 2);
  }
}

TEST(Session, LeavesAloneOutputsThatAreNotWanted) {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {2});
  const std::unique_ptr<Session> session = MakeSession(g.Finish({g.Op("Neg", {x}, "a"), g.Op("Abs", {x}, "b")}));
  const std::vector<float> values = {1, -2};
  std::vector<Value> in = {Tensor::FromValues<float>(Shape{2}, values)}, out(2);
  const uint8_t want[] = {0, 1};
  ASSERT_TRUE(session->Run(in, out, {.cancel = nullptr, .executor = nullptr, .want = want}).ok());
  EXPECT_FALSE(out[0].has_value());
  ExpectNear(out[1], {1, 2});
}

TEST(Session, StaysWithinItsLimits) {
  SessionOptions options;
  options.limits.tensor_bytes = 4096;
  const std::unique_ptr<Session> small_tensors = MakeSession(Dense(), options);
  std::vector<Value> in = {Zeros(Shape{2, kK})}, out(1);
  EXPECT_TRUE(small_tensors->Run(in, out).ok());
  in[0] = Zeros(Shape{100, kK});
  out[0] = Value();
  const Status tensor = small_tensors->Run(in, out);
  EXPECT_EQ(tensor.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(tensor.message(), HasSubstr("limit"));

  options = {};
  options.limits.memory_bytes = 200'000;  // the weights take 65'536
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), kK});
  GraphValue* p = g.Op("MatMul", {x, g.Const("w", DenseWeights())}, "product");
  const std::unique_ptr<Session> small_memory =
      MakeSession(g.Finish({g.Op("ReduceMax", {g.Op("Softmax", {p}, "s")}, "y")}), options);
  ASSERT_NE(small_memory, nullptr);
  out[0] = Value();
  in[0] = Zeros(Shape{2, kK});
  ASSERT_TRUE(small_memory->Run(in, out).ok());
  out[0] = Value();
  in[0] = Zeros(Shape{500, kK});
  const Status memory = small_memory->Run(in, out);
  EXPECT_EQ(memory.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(memory.message(), AllOf(HasSubstr("200000"), HasSubstr("node 'product' (MatMul)")));

  options.limits.memory_bytes = 60'000;
  const Status weights = Session::Create(Dense(), options).status();
  EXPECT_EQ(weights.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(weights.message(), AllOf(HasSubstr("node 'product'"), HasSubstr("packed weights")));

  // Weights of 16 bits are float32 beside their packed form.
  const Tensor wide = DenseWeights();
  const Tensor half = Tensor::Allocate(DType::kF16, wide.shape()).value();
  for (int64_t i = 0; i < wide.num_elements(); ++i) half.data<Float16>()[i] = Float16(wide.data<float>()[i]);
  const auto halved = [&] {
    GraphMaker h;
    GraphValue* in16 = h.In("x", DType::kF16, {Dim::Symbol("n"), kK});
    return h.Finish({h.Op("MatMul", {in16, h.Const("w", half)}, "y")});
  };
  options.limits.memory_bytes = 100'000;
  const Status widened = Session::Create(halved(), options).status();
  EXPECT_EQ(widened.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(widened.message(), HasSubstr("packed weights: 66560 bytes more than the 65536 held"));
  options.limits.memory_bytes = 60'000;
  EXPECT_THAT(Session::Create(halved(), options).status().message(),
              HasSubstr("constant 'w_f32' of the CPU provider: 65536 bytes"));
  options.limits.memory_bytes = 200'000;
  EXPECT_TRUE(Session::Create(halved(), options).ok());
}

// An initializer that a file lists as an input too: a constant, or an input whose value need not be the file's. A
// subgraph reads it as well.
TEST(Session, MakesInitializersInputsWhenAsked) {
  auto graph = [] {
    auto g = ParseGraph(R"(graph @g opset("": 17) {
  input %c: bool[]
  const %w = f32[2] {10, 20}
  %y = If(%c) captures(%w) {else_branch = graph {
    input %w: f32[2]
    %n = Neg(%w)
    return %n
  }, then_branch = graph {
    input %w: f32[2]
    return %w
  }}
  %z = Abs(%w)
  return %y, %z
})");
    EXPECT_TRUE(g.ok()) << g.status().message();
    (*g)->overridable = {{"w", ValueType::Tensor(DType::kF32, Dims{2})}};
    return std::move(g).value();
  };
  const Value no = Tensor::Scalar<bool>(false);
  const std::unique_ptr<Session> fixed = MakeSession(graph());
  std::vector<Value> in = {no}, out(2);
  ASSERT_TRUE(fixed->Run(in, out).ok());
  ExpectNear(out[0], {-10, -20});
  EXPECT_EQ(fixed->inputs().size(), 1u);
  EXPECT_THAT(fixed->FindInput("w").status().message(), HasSubstr("overridable_initializers"));
  EXPECT_THAT(fixed->FindInput("v").status().message(), AllOf(HasSubstr("no input 'v'"), HasSubstr("'c' (bool[])")));

  SessionOptions options;
  options.overridable_initializers = true;
  const std::unique_ptr<Session> open = MakeSession(graph(), options);
  ASSERT_EQ(open->inputs().size(), 2u);
  EXPECT_EQ(*open->FindInput("w"), 1u);
  ExpectNear(open->inputs()[1].default_value, {10, 20});
  const std::vector<float> other = {-3, 4};
  in = {no, Tensor::FromValues<float>(Shape{2}, other)};
  out.assign(2, Value());
  ASSERT_TRUE(open->Run(in, out).ok());
  ExpectNear(out[0], {3, -4});
  ExpectNear(out[1], {3, 4});
}

TEST(Session, RefusesWhatItDoesNotKnowByName) {
  SessionOptions options;
  options.providers = {"gpu"};
  EXPECT_THAT(Session::Create(Dense(), options).status().message(), HasSubstr("'gpu'"));
  options = {};
  options.precision = "fp8";
  EXPECT_THAT(Session::Create(Dense(), options).status().message(), HasSubstr("'fp8'"));
  EXPECT_EQ(MakeSession(Dense())->Facts("nonsense").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quern
