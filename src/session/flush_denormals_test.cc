// The session option flush_denormals: on the calling thread and on workers, and what the profile says of denormals.
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
    SessionOptions options;
    options.threads = GetParam();
    if (options.threads == 0) options.executor = std::make_shared<HostileExecutor>(7);
    options.flush_denormals = flush;
    options.profile = profile;
    return MakeSession(ThirdsAndSums(), std::move(options));
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

INSTANTIATE_TEST_SUITE_P(Threads, FlushDenormals, testing::Values(1, 2, 0),
                         [](const auto& info) { return info.param ? std::to_string(info.param) : "Hostile"; });

}  // namespace
}  // namespace quern
