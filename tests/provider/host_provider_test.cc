// What a session promises a provider about the host's memory: how long it stays, whose it is, when it is shared.
#include "host_provider.h"
#include "beside.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quern/quern.hpp"

namespace {

using quern::Model;
using quern::Session;
using quern::SessionOptions;
using quern::Value;

const std::string kLibrary = BesideThisProgram("libhost_provider.so");

template <typename F>
F Symbol(const char* name) {
  static void* const library = dlopen(kLibrary.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  void* symbol = library ? dlsym(library, name) : nullptr;
  EXPECT_NE(symbol, nullptr) << name;
  return reinterpret_cast<F>(symbol);
}

class HostProvider : public testing::Test {
 protected:
  void SetUp() override { before_ = Read(); }
  void TearDown() override {
    EXPECT_EQ(Read().buffers, 0);
    EXPECT_EQ(Read().weights, 0);
  }
  static host_provider_counters Read() {
    host_provider_counters c{};
    Symbol<host_provider_read_fn>("host_provider_read")(&c);
    return c;
  }
  static Session Make(const char* text, const host_provider_modes& modes) {
    Symbol<host_provider_set_modes_fn>("host_provider_set_modes")(&modes);
    SessionOptions options;
    options.threads = 1;
    options.providers = {kLibrary, "cpu"};
    return Session(Model::Parse(text), options);
  }
  // Runs on {10, 20, 30, 40}; the first output.
  static std::vector<float> Run(Session& session) {
    const std::vector<Value> out = session.Run({Value::Tensor<float>({1, 4}, {10, 20, 30, 40})});
    return {out[0].data<float>(), out[0].data<float>() + 4};
  }
  int64_t Runs() const { return Read().runs - before_.runs; }
  int64_t InPlaceRuns() const { return Read().in_place_runs - before_.in_place_runs; }
  int64_t ForeignRuns() const { return Read().foreign_runs - before_.foreign_runs; }

  host_provider_counters before_{};
};

// The product is not read before the end; meanwhile others need memory.
TEST_F(HostProvider, OperandsAndWorkspaceStayUntilALateRunIsWaitedFor) {
  Session session = Make(R"(graph @late opset("": 17) {
    input %x: f32[1,4]
    const %one = f32[4] {1.0, 1.0, 1.0, 1.0}
    const %w = f32[4] {1.0, 2.0, 3.0, 4.0}
    %a = Add(%x, %one)
    %b = Mul(%a, %w)
    %h = Affine(%x)
    %k = Add(%h, %one)
    %g = Affine(%k)
    %m = Add(%g, %one)
    %z = Affine(%m)
    return %b, %z
  })",
                         {.late = 1, .own_memory = 0, .in_place = 0});
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Run(session), testing::ElementsAre(11, 42, 93, 164));
  EXPECT_EQ(Runs(), 2);
}

// An output that this run does not want is written all the same.
TEST_F(HostProvider, ALateOutputThatIsNotWantedHasItsMemory) {
  Session session = Make(R"(graph @unread opset("": 17) {
    input %x: f32[1,4]
    const %one = f32[4] {1.0, 1.0, 1.0, 1.0}
    const %w = f32[4] {1.0, 2.0, 3.0, 4.0}
    %a = Add(%x, %one)
    %b = Mul(%a, %w)
    %h = Affine(%x)
    %k = Add(%h, %one)
    return %k, %b
  })",
                         {.late = 1, .own_memory = 0, .in_place = 0});
  const uint8_t want[] = {1, 0};
  quern_run_options options;
  quern_run_options_init(&options);
  options.want = want;
  const std::vector<Value> out = session.Run({Value::Tensor<float>({1, 4}, {10, 20, 30, 40})}, &options);
  EXPECT_THAT(std::vector<float>(out[0].data<float>(), out[0].data<float>() + 4), testing::ElementsAre(11, 21, 31, 41));
  EXPECT_EQ(Runs(), 1);
}

constexpr char kBetween[] = R"(graph @between opset("": 17) {
  input %x: f32[1,4]
  const %w = f32[4] {1.0, 2.0, 3.0, 4.0}
  %a = Neg(%x)
  %b = Mul(%a, %w)
  %c = Neg(%b)
  return %c
})";

TEST_F(HostProvider, AResultTakesTheMemoryOfAnOperandThatNobodyElseNeeds) {
  for (int late : {0, 1}) {
    Session session = Make(kBetween, {.late = late, .own_memory = 0, .in_place = 1});
    EXPECT_THAT(Run(session), testing::ElementsAre(10, 40, 90, 160));
  }
  EXPECT_EQ(InPlaceRuns(), 2);
}

TEST_F(HostProvider, AnOperandThatOthersNeedIsLeftAlone) {
  // Read later, twice by products at once, an input of the graph.
  for (const char* text : {R"(graph @later opset("": 17) {
    input %x: f32[1,4]
    const %w = f32[4] {1.0, 2.0, 3.0, 4.0}
    %a = Neg(%x)
    %b = Mul(%a, %w)
    %c = Add(%a, %b)
    return %c
  })",
                           R"(graph @twice opset("": 17) {
    input %x: f32[1,4]
    const %w = f32[4] {2.0, 2.0, 2.0, 2.0}
    const %v = f32[4] {0.0, 1.0, 2.0, 3.0}
    %a = Neg(%x)
    %b = Mul(%a, %w)
    %d = Mul(%a, %v)
    %c = Add(%d, %b)
    return %c
  })",
                           R"(graph @input opset("": 17) {
    input %x: f32[1,4]
    const %w = f32[4] {-2.0, -3.0, -4.0, -5.0}
    %b = Mul(%x, %w)
    %c = Identity(%b)
    return %c
  })"}) {
    Session session = Make(text, {.late = 0, .own_memory = 0, .in_place = 1});
    EXPECT_THAT(Run(session), testing::ElementsAre(-20, -60, -120, -200)) << text;
  }
  EXPECT_EQ(InPlaceRuns(), 0);
}

TEST_F(HostProvider, MemoryThatTheHostCanTouchIsUsedWithoutCopies) {
  for (int late : {0, 1}) {
    Session session = Make(kBetween, {.late = late, .own_memory = 1, .in_place = 1});
    for (int i = 0; i < 2; ++i) EXPECT_THAT(Run(session), testing::ElementsAre(10, 40, 90, 160));
    EXPECT_EQ(Read().buffers, 2) << "operand and result";
    EXPECT_NE(session.Facts("plan").find("provider memory"), std::string::npos);
  }
  EXPECT_EQ(Runs(), 4);
  EXPECT_EQ(ForeignRuns(), 0);
}

TEST_F(HostProvider, InputsAndOutputsOfTheGraphAreCopiedToItsMemory) {
  Session session = Make(R"(graph @border opset("": 17) {
    input %x: f32[1,4]
    const %w = f32[4] {1.0, 2.0, 3.0, 4.0}
    %b = Mul(%x, %w)
    return %b
  })",
                         {.late = 1, .own_memory = 1, .in_place = 0});
  EXPECT_THAT(Run(session), testing::ElementsAre(10, 40, 90, 160));
  std::vector<float> memory(4);
  std::vector<Value> out = {Value::Wrap({1, 4}, memory.data())};
  session.RunInto({Value::Tensor<float>({1, 4}, {1, 1, 1, 1})}, out);
  EXPECT_THAT(memory, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(ForeignRuns(), 0);
}

TEST_F(HostProvider, WeightsStayWhereTheModelHasThem) {
  std::vector<float> weights = {1, 2, 3, 4};
  Model m = Model::Create("weights");
  m.Import("", 17).Input("x", QUERN_F32, {1, 4}).Constant("w", Value::Wrap({4}, weights.data()));
  m.Node("Mul", {"x", "w"}, {"y"}).Output("y");
  const host_provider_modes modes{};
  Symbol<host_provider_set_modes_fn>("host_provider_set_modes")(&modes);
  SessionOptions options;
  options.providers = {kLibrary, "cpu"};
  Session session(m, options);
  EXPECT_EQ(Read().weights, 1);
  weights = {5, 6, 7, 8};  // not a copy: the caller's memory itself
  EXPECT_THAT(Run(session), testing::ElementsAre(50, 120, 210, 320));
}

}  // namespace
