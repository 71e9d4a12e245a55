// Sessions that run branches side by side: which, that the results have the bits of one node after another, and how to
// switch it off.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "parallel/hostile_executor.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using Json = nlohmann::json;

SessionOptions Threads(int threads, bool serial = false) {
  SessionOptions options;
  options.threads = threads;
  options.serial_branches = serial;
  options.cpu = CpuFromSpec("generic").value();
  return options;
}

// By group and worker ("1.2"), the outputs of the steps that run there, after a run.
std::map<std::string, std::set<std::string>> SideBySide(const Session& session) {
  std::map<std::string, std::set<std::string>> places;
  const Json doc = Json::parse(session.Facts("plan").value());
  for (const Json& cluster : doc["plan"]["steps"]) {
    for (const Json& step : cluster["steps"]) {
      if (step.contains("side_by_side")) places[step["side_by_side"]].insert(step["output"]);
    }
  }
  return places;
}

Tensor RunTowers(Session& session, const Tensor& x) {
  std::vector<Value> inputs = {x}, outputs = {Zeros(Shape{x.dim(0), 16, 1, 1})};
  const Status status = session.Run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs[0].tensor();
}

void ExpectSameBits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  EXPECT_EQ(std::memcmp(actual.raw_data(), expected.raw_data(), actual.bytes()), 0);
}

TEST(BranchesOfASession, TowersHaveTheBitsOfOneThread) {
  const std::unique_ptr<Session> one = MakeSession(Towers(), Threads(1));
  const std::unique_ptr<Session> off = MakeSession(Towers(), Threads(2, true));
  const std::unique_ptr<Session> two = MakeSession(Towers(), Threads(2));
  const std::unique_ptr<Session> four = MakeSession(Towers(), Threads(4));
  SessionOptions options = Threads(2);
  options.executor = std::make_shared<HostileExecutor>(5, 3);
  const std::unique_ptr<Session> hostile = MakeSession(Towers(), options);
  for (const int64_t n : {1, 2, 1}) {
    const Tensor x = DrawFloats(Shape{n, 16, 7, 7}, static_cast<unsigned>(n));
    const Tensor expected = RunTowers(*one, x);
    for (Session* session : {off.get(), two.get(), four.get(), hostile.get()}) {
      for (int run = 0; run < 5; ++run) ExpectSameBits(RunTowers(*session, x), expected);
    }
  }
  EXPECT_TRUE(SideBySide(*one).empty());
  EXPECT_TRUE(SideBySide(*off).empty());
  const auto places = SideBySide(*two);
  ASSERT_EQ(places.size(), 4u);  // two groups of two workers
  size_t steps = 0;
  for (const char* group : {"1", "2"}) {
    for (const char* worker : {".1", ".2"}) {
      ASSERT_TRUE(places.contains(std::string(group) + worker));
      steps += places.at(std::string(group) + worker).size();
    }
  }
  EXPECT_GE(steps, 12u);  // of 16
  // The nodes of a tower stay together.
  for (const auto& [place, outputs] : places) {
    for (const std::string tower : {"m0a", "m0b", "m0c", "m1a", "m1b", "m1c"}) {
      size_t members = 0;
      for (const std::string& name : outputs) members += name.starts_with(tower);
      EXPECT_TRUE(members == 0 || members == 2) << tower << " in " << place;
    }
  }
}

TEST(BranchesOfASession, TwoChainsOfProducts) {
  const auto graph = [] {
    GraphMaker g;
    GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("n"), 64});
    std::vector<GraphValue*> ends;
    for (const std::string branch : {"a", "b"}) {
      GraphValue* last = x;
      for (int i = 0; i < 8; ++i) {
        const std::string name = branch + std::to_string(i);
        GraphValue* w = g.Const(name + "_w", DrawFloats(Shape{64, 64}, static_cast<unsigned>(i) + branch[0]));
        last = g.Op("Tanh", {g.Op("MatMul", {last, w}, name + "_p")}, name);
      }
      ends.push_back(last);
    }
    return g.Finish({g.Op("Sub", ends, "y")});
  };
  const std::unique_ptr<Session> one = MakeSession(graph(), Threads(1));
  const std::unique_ptr<Session> two = MakeSession(graph(), Threads(2));
  const auto run = [](Session& session, int64_t n) {
    std::vector<Value> inputs = {DrawFloats(Shape{n, 64}, 3)}, outputs(1);
    EXPECT_TRUE(session.Run(inputs, outputs).ok());
    return outputs[0].tensor();
  };
  for (const int64_t n : {24, 1, 24}) ExpectSameBits(run(*two, n), run(*one, n));
  const auto places = SideBySide(*two);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places.begin()->second.size(), places.rbegin()->second.size());
  // One row is too little to gain anything by.
  run(*two, 1);
  EXPECT_TRUE(SideBySide(*two).empty());
}

TEST(BranchesOfASession, ManyClientsAtOnce) {
  const std::unique_ptr<Session> one = MakeSession(Towers(1), Threads(1));
  const std::unique_ptr<Session> two = MakeSession(Towers(1), Threads(2));
  const Tensor x = DrawFloats(Shape{1, 16, 7, 7}, 4);
  const Tensor expected = RunTowers(*one, x);
  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c) {
    clients.emplace_back([&] {
      for (int run = 0; run < 10; ++run) ExpectSameBits(RunTowers(*two, x), expected);
    });
  }
  for (std::thread& c : clients) c.join();
}

TEST(BranchesOfASession, ProfilesCountEveryNode) {
  SessionOptions options = Threads(2);
  options.profile = true;
  const std::unique_ptr<Session> session = MakeSession(Towers(1), options);
  const Tensor x = DrawFloats(Shape{1, 16, 7, 7}, 4);
  for (int run = 0; run < 3; ++run) RunTowers(*session, x);
  ASSERT_FALSE(SideBySide(*session).empty());
  const Json doc = Json::parse(session->Facts("profile").value());
  int convolutions = 0;
  for (const Json& node : doc["profile"]["nodes"]) {
    if (node["op"] != "Conv") continue;
    ++convolutions;
    EXPECT_EQ(node["runs"], 3) << node;
    EXPECT_GT(node["seconds"].get<double>(), 0) << node;
  }
  EXPECT_EQ(convolutions, 8);
}

TEST(BranchesOfASession, TheEnvironmentSwitchesThemOff) {
  const Tensor x = DrawFloats(Shape{1, 16, 7, 7}, 4);
  for (const char* text : {"1", "0"}) {
    ASSERT_EQ(setenv("QUERN_SERIAL_BRANCHES", text, 1), 0);
    const std::unique_ptr<Session> session = MakeSession(Towers(1), Threads(2));
    unsetenv("QUERN_SERIAL_BRANCHES");
    RunTowers(*session, x);
    EXPECT_EQ(SideBySide(*session).empty(), *text == '1');
  }
}

}  // namespace
}  // namespace quern
