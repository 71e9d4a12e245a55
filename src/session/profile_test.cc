// Sessions that are profiled: how often each node ran, on how much, on every provider and in subgraphs.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

SessionOptions Profiled(int threads = 1) {
  SessionOptions options;
  options.profile = true;
  options.threads = threads;
  return options;
}

Json ProfileOf(const Session& session) {
  const Result<std::string> text = session.Facts("profile");
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? Json::parse(*text) : Json();
}

const Json& NodeNamed(const Json& graph, const std::string& name) {
  static const Json none = Json::object();
  for (const Json& n : graph["profile"]["nodes"]) {
    if (n["name"] == name || n["outputs"] == Json::array({name})) return n;
  }
  ADD_FAILURE() << "no node " << name << " in " << graph["profile"];
  return none;
}

constexpr int64_t kK = 48, kN = 20;
std::unique_ptr<Graph> Dense() {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), kK});
  GraphValue* p = g.Op("MatMul", {x, g.Const("w", DrawFloats(Shape{kK, kN}, 1))}, "product");
  return g.Finish({g.Op("Softmax", {p}, "y")});
}

void RunTimes(Session& session, const std::vector<Value>& in, int times) {
  for (int i = 0; i < times; ++i) {
    std::vector<Value> out(session.outputs().size());
    const Status status = session.Run(in, out);
    ASSERT_TRUE(status.ok()) << status.message();
  }
}

TEST(Profile, SumsRunsAndWorkOfEachNode) {
  const std::unique_ptr<Session> session = MakeSession(Dense(), Profiled());
  ASSERT_TRUE(session);
  EXPECT_EQ(NodeNamed(ProfileOf(*session), "y")["runs"], 0);
  RunTimes(*session, {DrawFloats(Shape{6, kK}, 2)}, 3);
  RunTimes(*session, {DrawFloats(Shape{1, kK}, 2)}, 2);
  const Json doc = ProfileOf(*session);
  const Json& product = NodeNamed(doc, "product");
  EXPECT_EQ(product["runs"], 5);
  EXPECT_EQ(product["operations"], 2.0 * (3 * 6 + 2 * 1) * kK * kN);
  EXPECT_EQ(product["provider"], "cpu");
  EXPECT_EQ(product["kernel"].get<std::string>().rfind("gemm_f32_f32_f32_", 0), 0u) << product;
  EXPECT_EQ(product["peak"].get<std::string>().rfind("fma ", 0), 0u) << product;
  EXPECT_GT(product["seconds"], 0);
  // Weights as they were packed, and nothing of the tensor that they come from.
  const Result<std::string> compiled = session->Facts("compiled");
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const double packed = Json::parse(*compiled)["compiled"]["packed_bytes"];
  EXPECT_GE(packed, 4.0 * kK * kN);
  EXPECT_EQ(product["bytes"], 5 * packed + 4.0 * (3 * 6 + 2 * 1) * (kK + kN));
  const Json& softmax = NodeNamed(doc, "y");
  EXPECT_EQ(softmax["runs"], 5);
  EXPECT_EQ(softmax["operations"], 0);
  EXPECT_FALSE(softmax.contains("peak"));
  EXPECT_EQ(softmax["bytes"], 4.0 * 2 * (3 * 6 + 2 * 1) * kN);
  ASSERT_EQ(doc["profile"]["clusters"].size(), 1u);
  const Json& cluster = doc["profile"]["clusters"][0];
  EXPECT_EQ(cluster["runs"], 5);
  EXPECT_GE(cluster["seconds"].get<double>(), product["seconds"].get<double>() + softmax["seconds"].get<double>());
}

TEST(Profile, OnlyWhereItIsAskedFor) {
  const std::unique_ptr<Session> session = MakeSession(Dense());
  ASSERT_TRUE(session);
  RunTimes(*session, {DrawFloats(Shape{2, kK}, 2)}, 1);
  const Result<std::string> profile = session->Facts("profile");
  EXPECT_EQ(profile.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(profile.status().message(), HasSubstr("session option profile"));
  EXPECT_FALSE(Json::parse(session->Facts("all").value()).contains("profile"));
  const std::unique_ptr<Session> with = MakeSession(Dense(), Profiled());
  RunTimes(*with, {DrawFloats(Shape{2, kK}, 2)}, 1);
  EXPECT_TRUE(Json::parse(with->Facts("all").value())["profile"].is_object());
}

TEST(Profile, RunsAtOnceAreAllCounted) {
  const std::unique_ptr<Session> session = MakeSession(Dense(), Profiled(2));
  ASSERT_TRUE(session);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      RunTimes(*session, {DrawFloats(Shape{1 + t % 2, kK}, 2)}, 50);
      EXPECT_TRUE(session->Facts("profile").ok());
    });
  }
  for (std::thread& t : threads) t.join();
  const Json doc = ProfileOf(*session);
  EXPECT_EQ(NodeNamed(doc, "product")["runs"], 200);
  EXPECT_EQ(NodeNamed(doc, "product")["operations"], 2.0 * (100 * 1 + 100 * 2) * kK * kN);
  EXPECT_EQ(NodeNamed(doc, "y")["runs"], 200);
}

// The nodes behind NonZero are planned anew by each run; Hardmax runs on the reference provider.
TEST(Profile, EveryProviderTells) {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), 3});
  GraphValue* at = g.Op("NonZero", {g.Op("Relu", {x}, "relu")}, "at");
  GraphValue* found = g.Op("GatherND", {x, g.Op("Transpose", {at}, "turned")}, "found");
  GraphValue* y = g.Op("Add", {found, found}, "y");
  const std::unique_ptr<Session> session =
      MakeSession(g.Finish({y, g.Op("RandomUniformLike", {x}, "hard")}), Profiled());
  ASSERT_TRUE(session);
  Tensor values = Zeros(Shape{4, 3});
  for (const int i : {1, 2, 7, 8, 11}) values.data<float>()[i] = 1;
  RunTimes(*session, {values}, 3);
  const Json doc = ProfileOf(*session);
  for (const char* name : {"relu", "at", "found", "y", "hard"}) EXPECT_EQ(NodeNamed(doc, name)["runs"], 3) << name;
  EXPECT_EQ(NodeNamed(doc, "hard")["provider"], "reference");
  EXPECT_EQ(NodeNamed(doc, "hard")["bytes"], 3 * 2 * 12 * 4.0);
  EXPECT_EQ(NodeNamed(doc, "at")["bytes"], 3 * (12 * 4.0 + 2 * 5 * 8.0)) << "five indices of two dimensions";
  EXPECT_EQ(NodeNamed(doc, "y")["bytes"], 3 * 3 * 5 * 4.0) << "the same operand twice and the result";
}

TEST(Profile, NodesOfASubgraphCountTheirIterations) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(R"(graph @loop opset("": 17) {
    input %x: f32[n]
    input %count: i64[]
    const %go = bool[] {true}
    %y = Loop(%count, %go, %x) {
      body = graph { input %i: i64[] input %c: bool[] input %v: f32[n] %w = Neg(%v) return %c, %w }
    }
    return %y
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const std::unique_ptr<Session> session = MakeSession(std::move(graph).value(), Profiled());
  ASSERT_TRUE(session);
  RunTimes(*session, {DrawFloats(Shape{8}, 1), Tensor::Scalar<int64_t>(7)}, 2);
  const Json doc = ProfileOf(*session);
  EXPECT_EQ(NodeNamed(doc, "y")["runs"], 2);
  ASSERT_EQ(doc["subgraphs"].size(), 1u);
  EXPECT_EQ(NodeNamed(doc["subgraphs"][0], "w")["runs"], 14);
}

// A plan for the capacity is bound again to the length of each run, whose work counts.
TEST(Profile, AGrowingStateCountsWhatItHas) {
  GraphMaker g;
  GraphValue* past = g.In("past", DType::kF32, {Dim::Symbol("t"), kK});
  GraphValue* all = g.Op("Concat", {past, g.In("x", DType::kF32, {1, kK})}, "all", {{"axis", int64_t{0}}});
  GraphValue* y = g.Op("MatMul", {all, g.Const("w", DrawFloats(Shape{kK, kN}, 1))}, "y");
  const std::unique_ptr<Session> session = MakeSession(g.Finish({all, y}), Profiled());
  ASSERT_TRUE(session);
  Result<SessionState> state = session->CreateState(
      {{.input = "past", .output = "all", .axis = 0, .buffer = Zeros(Shape{100, kK}), .length = 0}});
  ASSERT_TRUE(state.ok()) << state.status().message();
  int64_t rows = 0;
  for (int64_t step = 1; step <= 5; ++step) {
    std::vector<Value> in = {Value(), DrawFloats(Shape{1, kK}, 3)}, out(2);
    const Status status = session->RunWithState(*state, in, out);
    ASSERT_TRUE(status.ok()) << status.message();
    rows += step;
  }
  const Json product = NodeNamed(ProfileOf(*session), "y");
  EXPECT_EQ(product["runs"], 5);
  EXPECT_EQ(product["operations"], 2.0 * static_cast<double>(rows * kK * kN));
}

}  // namespace
}  // namespace quern
