// What a run may hold, two threads with one new shape, weights of a file that was cut short, contents that cross from
// one provider to another.
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>

#include "base/mapped_file.h"
#include "graph/text.h"
#include "provider/reference/reference_provider.h"
#include "session/executable.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Graph> Parse(const char* text) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? std::move(graph).value() : nullptr;
}

class OnProvider : public testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<Session> Make(const char* text, int64_t memory_bytes = Limits().memory_bytes) {
    SessionOptions options;
    options.providers = {GetParam()};
    options.limits.memory_bytes = memory_bytes;
    return MakeSession(Parse(text), options);
  }
};
INSTANTIATE_TEST_SUITE_P(Providers, OnProvider, testing::Values("cpu", "reference"));

constexpr int64_t kMegabyte = 1 << 20;

TEST_P(OnProvider, ValuesWhoseSizeDependsOnDataCountAgainstTheLimit) {
  const std::unique_ptr<Session> session = Make(R"(graph @b opset("": 17) {
    input %x: f32[1]
    input %n: i64[1]
    %a = Expand(%x, %n) @grow
    %b = Neg(%a)
    %c = Affine(%b)
    %d = ReduceSum(%c) {keepdims = 0}
    return %d
  })",
                                                kMegabyte);
  ASSERT_NE(session, nullptr);
  const Tensor x = Tensor::FromValues<float>(Shape{1}, std::vector<float>{1});
  const auto run = [&](int64_t n) {
    std::vector<Value> in = {x, Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{n})}, out(1);
    return session->Run(in, out);
  };
  const Status status = run(20'000'000);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'grow' (Expand)"), HasSubstr("limit of 1048576")));
  // What earlier runs held is no longer held.
  for (int i = 0; i < 10; ++i) {
    const Status small = run(50'000);
    ASSERT_TRUE(small.ok()) << small.message();
  }
}

TEST_P(OnProvider, ResultsCountAgainstTheLimitUntilTheyAreHandedOver) {
  const std::unique_ptr<Session> session = Make(R"(graph @b opset("": 17) {
    input %x: f32[n,1]
    const %row = f32[4] {1.0, 2.0, 3.0, 4.0}
    %y = Add(%x, %row) @widen
    return %y
  })",
                                                kMegabyte);
  ASSERT_NE(session, nullptr);
  std::vector<Value> kept;
  for (int i = 0; i < 4; ++i) {
    std::vector<Value> in = {Zeros(Shape{40'000, 1})}, out(1);
    const Status status = session->Run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    kept.push_back(std::move(out[0]));
  }
  std::vector<Value> in = {Zeros(Shape{5'000'000, 1})}, out(1);
  const Status status = session->Run(in, out);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("'widen' (Add)"));
}

TEST_P(OnProvider, IterationsOfALoopHoldOnlyWhatTheyCarry) {
  const std::unique_ptr<Session> session = Make(R"(graph @loop opset("": 17) {
    input %x: f32[n]
    const %count = i64[] {50}
    const %go = bool[] {true}
    %y = Loop(%count, %go, %x) {
      body = graph { input %i: i64[] input %c: bool[] input %v: f32[n] %w = Neg(%v) return %c, %w }
    }
    return %y
  })",
                                                kMegabyte);
  ASSERT_NE(session, nullptr);
  std::vector<Value> in = {DrawFloats(Shape{30'000}, 1)}, out(1);
  const Status status = session->Run(in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  in[0] = Zeros(Shape{400'000});
  out[0] = Value();
  EXPECT_EQ(session->Run(in, out).code(), StatusCode::kResourceExhausted);
}

// Takes Not; looks at what plan() is told of its operand.
TEST(Plans, KnownContentsCrossInTheMemoryFormOfTheirType) {
  std::vector<uint8_t> seen;
  quern_provider p{};
  p.struct_size = sizeof p;
  p.abi_version = QUERN_PROVIDER_ABI_VERSION;
  p.self = &seen;
  p.name = "peek";
  p.claim = [](void*, const quern_graph_view* graph, quern_claim_sink* sink) {
    for (int32_t i = 0; i < HostApi()->num_nodes(graph); ++i) {
      if (graph->nodes[i].node->Is("Not")) HostApi()->claim(sink, &i, 1, 0);
    }
    return 0;
  };
  p.compile = [](void*, const quern_graph_view*, const char*, void**) { return 0; };
  p.destroy_executable = [](void*, void*) {};
  p.plan = [](void* self, void*, const quern_plan_args* args, quern_plan_sink* sink, void** plan) {
    const quern_tensor_view& x = args->inputs[0];
    const auto* bytes = static_cast<const uint8_t*>(x.data);
    if (bytes) static_cast<std::vector<uint8_t>*>(self)->assign(bytes, bytes + x.dims[0]);
    HostApi()->set_output(sink, 0, x.dtype, x.rank, x.dims);
    *plan = self;
    return 0;
  };
  p.destroy_plan = [](void*, void*) {};
  p.run = [](void*, void*, const quern_run_args* args, void**) {
    for (int i = 0; i < 3; ++i) {
      static_cast<bool*>(args->outputs[0].data)[i] = !static_cast<const bool*>(args->inputs[0].data)[i];
    }
    return 0;
  };
  CompileEnv env;
  env.providers = {Provider::Create(p).value(), MakeReferenceProvider()};
  Result<std::unique_ptr<Executable>> exe = Executable::Compile(Parse(R"(graph @b opset("": 17) {
    input %x: f32[n,m,k]
    const %sizes = i64[3] {2, 3, 4}
    %s: i64[3] = Shape(%x)
    %c: bool[3] = Equal(%s, %sizes)
    %y = Not(%c)
    return %y
  })"),
                                                                env);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  InlineExecutor executor;
  std::vector<Value> in = {Zeros(Shape{2, 5, 4})}, out(1);
  RunEnv run;
  run.executor = &executor;
  const Status status = (*exe)->Run(in, out, run);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(seen, testing::ElementsAre(1, 0, 1));
  EXPECT_THAT(out[0].tensor().values<bool>(), testing::ElementsAre(false, true, false));
}

// Takes everything; plan() lets other threads come in.
struct SlowPlanner {
  std::atomic<int> inside{0}, most{0}, plans{0};

  std::shared_ptr<Provider> Make() {
    quern_provider p{};
    p.struct_size = sizeof p;
    p.abi_version = QUERN_PROVIDER_ABI_VERSION;
    p.self = this;
    p.name = "slow";
    p.claim = [](void*, const quern_graph_view* graph, quern_claim_sink* sink) {
      for (int32_t i = 0; i < HostApi()->num_nodes(graph); ++i) HostApi()->claim(sink, &i, 1, 0);
      return 0;
    };
    p.compile = [](void*, const quern_graph_view*, const char*, void**) { return 0; };
    p.destroy_executable = [](void*, void*) {};
    p.plan = [](void* self, void*, const quern_plan_args* args, quern_plan_sink* sink, void** plan) {
      auto& s = *static_cast<SlowPlanner*>(self);
      ++s.inside;
      for (int i = 0; i < 50000 && s.inside < 2; ++i) std::this_thread::yield();
      if (s.inside > s.most) s.most = s.inside.load();
      --s.inside;
      ++s.plans;
      HostApi()->set_output(sink, 0, args->inputs[0].dtype, args->inputs[0].rank, args->inputs[0].dims);
      *plan = self;
      return 0;
    };
    p.destroy_plan = [](void*, void*) {};
    p.run = [](void*, void*, const quern_run_args* args, void**) {
      *static_cast<float*>(args->outputs[0].data) = -*static_cast<const float*>(args->inputs[0].data);
      return 0;
    };
    return Provider::Create(p).value();
  }
};

TEST(Plans, ThreadsWithTheSameNewShapesMakeOne) {
  SlowPlanner planner;
  GraphMaker g;
  CompileEnv env;
  env.providers = {planner.Make()};
  Result<std::unique_ptr<Executable>> exe =
      Executable::Compile(g.Finish({g.Op("Neg", {g.In("x", DType::kF32, {1})}, "y")}), env);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  InlineExecutor executor;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      std::vector<Value> in = {Zeros(Shape{1})}, out(1);
      RunEnv run;
      run.executor = &executor;
      EXPECT_TRUE((*exe)->Run(in, out, run).ok());
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(planner.most, 1);
  EXPECT_EQ(planner.plans, 1);
  EXPECT_EQ((*exe)->plans_built(), 1);
}

// Weights that are bytes of a file, and the file.
class CutFile : public testing::Test {
 protected:
  static constexpr int64_t kRows = 4096;  // many pages of weights
  void SetUp() override {
    std::ofstream(path_, std::ios::binary) << std::string(kRows * 8 * sizeof(float), '\0');
    Result<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status().message();
    GraphMaker g;
    // The memory is read only, as of every constant.
    void* bytes = const_cast<uint8_t*>((*file)->data());
    GraphValue* x = g.In("x", DType::kF32, {1, kRows});
    GraphValue* w = g.Const("w", Tensor::Wrap(DType::kF32, Shape{kRows, 8}, bytes, *file));
    graph_ = g.Finish({g.Op("MatMul", {x, w}, "y")});
    graph_->mapped_files.push_back(*file);
  }
  void TearDown() override { std::remove(path_.c_str()); }
  void Cut() const { ASSERT_EQ(truncate(path_.c_str(), 100), 0); }

  const std::string path_ = testing::TempDir() + "quern_weights_" + std::to_string(getpid());
  std::unique_ptr<Graph> graph_;
};

TEST_F(CutFile, BeforeTheSessionIsMade) {
  Cut();
  const Status status = Session::Create(std::move(graph_), {}).status();
  EXPECT_EQ(status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST_F(CutFile, BeforeARun) {
  const std::unique_ptr<Session> session = MakeSession(std::move(graph_));
  ASSERT_NE(session, nullptr);
  std::vector<Value> in = {Zeros(Shape{1, kRows})}, out(1);
  EXPECT_TRUE(session->Run(in, out).ok());
  Cut();
  out[0] = Value();
  EXPECT_EQ(session->Run(in, out).code(), StatusCode::kCorrupt);
}

}  // namespace
}  // namespace quern
