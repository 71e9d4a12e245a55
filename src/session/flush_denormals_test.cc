// The session options flush_denormals and keep_denormals: on the calling thread and on workers, and what the profile
// says of denormals.
#include <nlohmann/json.hpp>

#include "base/denormals.h"
#include "parallel/hostile_executor.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

constexpr float kSmallestNormal = 0x1p-126f;
constexpr int64_t kRows = 256, kColumns = 1024;  // enough for two threads

// y = x / 3, z = x + x.
std::unique_ptr<Graph> ThirdsAndSums() {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), kColumns});
  Tensor three = Tensor::Allocate(DType::kF32, Shape{}).value();
  three.values<float>()[0] = 3;
  GraphValue* y = g.Op("Div", {x, g.Const("three", std::move(three))}, "y");
  return g.Finish({y, g.Op("Add", {x, x}, "z")});
}

Tensor Filled(float value) {
  Tensor t = Zeros(Shape{kRows, kColumns});
  for (float& v : t.values<float>()) v = value;
  return t;
}

// All elements of the outputs for an input of nothing but `x`, which must be alike.
std::pair<float, float> RunOn(Session& session, float x) {
  std::vector<Value> out(2);
  const Status status = session.Run(std::vector<Value>{Filled(x)}, out);
  EXPECT_TRUE(status.ok()) << status.message();
  std::pair<float, float> found;
  for (size_t i = 0; i < 2; ++i) {
    float& first = i == 0 ? found.first : found.second;
    first = out[i].tensor().data<float>()[0];
    for (const float v : out[i].tensor().values<float>()) {
      if (v != first) ADD_FAILURE() << "output " << i << " holds " << v << " and " << first;
      if (v != first) break;
    }
  }
  return found;
}

class FlushDenormals : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (kFlushBits == 0) GTEST_SKIP() << "this CPU's control word is not known";
  }
  std::unique_ptr<Session> Make(bool flush, bool profile = false) {
    return Prepare(ThirdsAndSums(), flush, false, profile);
  }
  std::unique_ptr<Session> Prepare(std::unique_ptr<Graph> graph, bool flush, bool keep, bool profile = false) {
    SessionOptions options;
    options.threads = GetParam();
    if (options.threads == 0) options.executor = std::make_shared<HostileExecutor>(7);
    options.flush_denormals = flush;
    options.keep_denormals = keep;
    options.profile = profile;
    return MakeSession(std::move(graph), std::move(options));
  }
};

TEST_P(FlushDenormals, MakesThemZeroDuringRunsOnly) {
  const uint64_t control = FloatControl();
  const std::unique_ptr<Session> keeping = Make(false), flushing = Make(true);
  ASSERT_TRUE(keeping && flushing);
  const float third = kSmallestNormal / 3;
  ASSERT_GT(third, 0);
  EXPECT_EQ(RunOn(*keeping, kSmallestNormal), std::pair(third, 2 * kSmallestNormal));
  EXPECT_EQ(RunOn(*flushing, kSmallestNormal), std::pair(0.0f, 2 * kSmallestNormal)) << "results";
  EXPECT_EQ(RunOn(*flushing, third), std::pair(0.0f, 0.0f)) << "operands";
  EXPECT_EQ(RunOn(*keeping, third).second, 2 * third) << "workers that flushed before";
  EXPECT_EQ(RunOn(*flushing, 3), std::pair(1.0f, 6.0f));
  EXPECT_EQ(FloatControl() & kFlushBits, control & kFlushBits);
}

TEST_P(FlushDenormals, TheProfileCountsRunsThatMetAny) {
  if (GetParam() != 1) GTEST_SKIP() << "tasks need not run on the calling thread";
  const auto counts = [&](bool flush) {
    const std::unique_ptr<Session> session = Make(flush, true);
    RunOn(*session, 1.7f * kSmallestNormal);  // a third of it is denormal (and rounded), twice it is not
    RunOn(*session, 1);
    RunOn(*session, 1.7f * kSmallestNormal);
    const Result<std::string> facts = session->Facts("profile");
    EXPECT_TRUE(facts.ok()) << facts.status().message();
    std::map<std::string, int> found;
    const nlohmann::json doc = nlohmann::json::parse(*facts);
    for (const auto& node : doc["profile"]["nodes"]) found[node["name"]] = node["denormal_runs"];
    return found;
  };
  const std::map<std::string, int> kept = counts(false), flushed = counts(true);
  EXPECT_EQ(kept.at("y"), 2);
  EXPECT_EQ(kept.at("z"), 0);
  EXPECT_EQ(flushed.at("y"), 0);
}

// y = x w, z = x + x: `x` and each weight are alike.
std::unique_ptr<Graph> ProductAndSum(DType type, float weight) {
  GraphMaker g;
  GraphValue* x = g.In("x", type, {Dim::Symbol("n"), kColumns});
  Tensor w = Tensor::Allocate(type, Shape{kColumns, 16}).value();
  if (type == DType::kF64) {
    for (double& v : w.values<double>()) v = weight;
  } else {
    for (float& v : w.values<float>()) v = weight;
  }
  GraphValue* y = g.Op("MatMul", {x, g.Const("w", std::move(w))}, "y");
  return g.Finish({y, g.Op("Add", {x, x}, "z")});
}

TEST_P(FlushDenormals, SumsOfProductsTakeThemAsZeroUnlessTheyAreKept) {
  const uint64_t control = FloatControl();
  const float small = 0x1p-140f, half = 0.5f;
  const auto run = [&](bool flush, bool keep) {
    const std::unique_ptr<Session> session = Prepare(ProductAndSum(DType::kF32, half), flush, keep);
    return session ? RunOn(*session, small) : std::pair(NAN, NAN);
  };
  EXPECT_EQ(run(false, false), std::pair(0.0f, 2 * small)) << "the sum of two is no sum of products";
  EXPECT_EQ(run(false, true), std::pair(kColumns * half * small, 2 * small));
  EXPECT_EQ(run(true, false), std::pair(0.0f, 0.0f));
  EXPECT_EQ(FloatControl() & kFlushBits, control & kFlushBits);
}

TEST_P(FlushDenormals, ProductsOfFloat64KeepThem) {
  const std::unique_ptr<Session> session = Prepare(ProductAndSum(DType::kF64, 0.5f), false, false);
  ASSERT_TRUE(session);
  Tensor x = Tensor::Allocate(DType::kF64, Shape{kRows, kColumns}).value();
  for (double& v : x.values<double>()) v = 0x1p-1050;
  std::vector<Value> out(2);
  ASSERT_TRUE(session->Run(std::vector<Value>{std::move(x)}, out).ok());
  for (const double v : out[0].tensor().values<double>()) ASSERT_EQ(v, kColumns * 0x1p-1051);
}

TEST_P(FlushDenormals, TheProfileDoesNotCountWhatProductsFlush) {
  if (GetParam() != 1) GTEST_SKIP() << "tasks need not run on the calling thread";
  for (const bool keep : {false, true}) {
    const std::unique_ptr<Session> session = Prepare(ProductAndSum(DType::kF32, 0.3f), false, keep, true);
    ASSERT_TRUE(session);
    RunOn(*session, 1.7f * kSmallestNormal);
    const nlohmann::json doc = nlohmann::json::parse(session->Facts("profile").value());
    for (const auto& node : doc["profile"]["nodes"]) {
      EXPECT_EQ(node["denormal_runs"], node["name"] == "y" && keep ? 1 : 0) << node["name"];
    }
  }
}

TEST(KeepDenormals, ExcludesFlushing) {
  SessionOptions options;
  options.flush_denormals = options.keep_denormals = true;
  const Result<std::unique_ptr<Session>> session = Session::Create(ThirdsAndSums(), std::move(options));
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(session.status().message().find("exclude each other"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Threads, FlushDenormals, testing::Values(1, 2, 0),
                         [](const auto& info) { return info.param ? std::to_string(info.param) : "Hostile"; });

}  // namespace
}  // namespace quern
