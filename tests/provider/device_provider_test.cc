// A session over a provider that came as a shared library: results, copies at its borders only, nothing left behind.
#include "device_provider.h"
#include "beside.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "quern/quern.hpp"

namespace {

using Json = nlohmann::json;
using quern::Model;
using quern::Session;
using quern::SessionOptions;
using quern::Value;
using testing::HasSubstr;

const std::string kLibrary = BesideThisProgram("libdevice_provider.so");

// The library, held open so that its counters outlive the sessions.
void* Symbol(const char* name) {
  static void* const library = dlopen(kLibrary.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  void* symbol = library ? dlsym(library, name) : nullptr;
  EXPECT_NE(symbol, nullptr) << name;
  return symbol;
}
device_provider_counters Read() {
  device_provider_counters c{};
  reinterpret_cast<device_provider_read_fn>(Symbol("device_provider_read"))(&c);
  return c;
}

using Matrix = std::vector<float>;  // row-major

Matrix Draw(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix m(count);
  for (float& v : m) v = normal(random);
  return m;
}

// Relu, MatMul + Add twice, Relu; 5 -> 7 -> 3 columns.
constexpr int64_t kK = 5, kHidden = 7, kN = 3;
struct Weights {
  Matrix w1 = Draw(kK * kHidden, 1), b1 = Draw(kHidden, 2), w2 = Draw(kHidden * kN, 3), b2 = Draw(kN, 4);
};

Matrix Dense(const Matrix& x, const Matrix& w, const Matrix& b, int64_t rows) {
  const int64_t n = static_cast<int64_t>(b.size()), k = static_cast<int64_t>(w.size()) / n;
  Matrix y(static_cast<size_t>(rows * n));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      double sum = b[c];
      for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(x[r * k + i]) * w[i * n + c];
      y[r * n + c] = static_cast<float>(sum);
    }
  }
  return y;
}
Matrix Positive(Matrix m) {
  for (float& v : m) v = std::max(v, 0.0f);
  return m;
}

// `between`: a Relu between the two products, which the device does not compute.
Model Network(const Weights& w, bool between) {
  Model m = Model::Create("two_products");
  m.Import("", 17).Input("x", QUERN_F32, {-1, kK}, {"rows", ""});
  m.Constant("w1", Value::Tensor<float>({kK, kHidden}, w.w1)).Constant("b1", Value::Tensor<float>({kHidden}, w.b1));
  m.Constant("w2", Value::Tensor<float>({kHidden, kN}, w.w2)).Constant("b2", Value::Tensor<float>({kN}, w.b2));
  m.Node("Relu", {"x"}, {"r"}, {}, "first_relu");
  m.Node("MatMul", {"r", "w1"}, {"p1"}, {}, "product_1").Node("Add", {"p1", "b1"}, {"s1"}, {}, "sum_1");
  if (between) m.Node("Relu", {"s1"}, {"h"}, {}, "middle_relu");
  m.Node("MatMul", {between ? "h" : "s1", "w2"}, {"p2"}, {}, "product_2");
  m.Node("Add", {"b2", "p2"}, {"s2"}, {}, "sum_2").Node("Relu", {"s2"}, {"y"}, {}, "last_relu").Output("y");
  return m;
}
Matrix Expected(const Weights& w, bool between, const Matrix& x, int64_t rows) {
  Matrix h = Dense(Positive(x), w.w1, w.b1, rows);
  if (between) h = Positive(h);
  return Positive(Dense(h, w.w2, w.b2, rows));
}

SessionOptions OnDevice() {
  SessionOptions options;
  options.threads = 2;
  options.providers = {kLibrary, "cpu"};
  return options;
}

void ExpectNear(const Value& actual, const Matrix& expected) {
  ASSERT_EQ(actual.num_elements(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual.data<float>()[i], expected[i], 1e-4) << i;
}

class DeviceProvider : public testing::Test {
 protected:
  void SetUp() override { before_ = Read(); }
  // Nothing may be alive once the sessions are gone.
  void TearDown() override {
    const device_provider_counters after = Read();
    EXPECT_EQ(after.instances, 0);
    EXPECT_EQ(after.executables, 0);
    EXPECT_EQ(after.plans, 0);
    EXPECT_EQ(after.tickets, 0);
    EXPECT_EQ(after.buffers, 0);
  }
  int64_t CopiesIn() const { return Read().copies_in - before_.copies_in; }
  int64_t CopiesOut() const { return Read().copies_out - before_.copies_out; }
  int64_t Runs() const { return Read().runs - before_.runs; }

  const Weights weights_;
  device_provider_counters before_{};
};

TEST_F(DeviceProvider, CopiesAtItsBordersOnly) {
  Session session(Network(weights_, /*between=*/false), OnDevice());
  for (int run = 1; run <= 3; ++run) {
    const int64_t rows = 2 + run;
    const Matrix x = Draw(static_cast<size_t>(rows * kK), 10 + static_cast<unsigned>(run));
    const std::vector<Value> y = session.Run({Value::Tensor<float>({rows, kK}, x)});
    ExpectNear(y[0], Expected(weights_, false, x, rows));
    EXPECT_EQ(CopiesIn(), run);
    EXPECT_EQ(CopiesOut(), run);
    EXPECT_EQ(Runs(), run) << "both products are one cluster";
  }
}

TEST_F(DeviceProvider, NodesOfOthersInBetweenCostACopyEachWay) {
  Session session(Network(weights_, /*between=*/true), OnDevice());
  const Matrix x = Draw(4 * kK, 20);
  ExpectNear(session.Run({Value::Tensor<float>({4, kK}, x)})[0], Expected(weights_, true, x, 4));
  EXPECT_EQ(CopiesIn(), 2);
  EXPECT_EQ(CopiesOut(), 2);
}

TEST_F(DeviceProvider, FactsSayWhoRunsWhatAndWhy) {
  const Session session(Network(weights_, /*between=*/false), OnDevice());
  const Json facts = Json::parse(session.Facts("partition"))["partition"];
  ASSERT_EQ(facts["nodes"].size(), 6u);
  for (const Json& node : facts["nodes"]) {
    const bool relu = node["op"] == "Relu";
    EXPECT_EQ(node["provider"], relu ? "cpu" : "device") << node;
    if (!relu) continue;
    ASSERT_FALSE(node["rejections"].empty());
    EXPECT_EQ(node["rejections"][0]["provider"], "device");
    EXPECT_EQ(node["rejections"][0]["reason"], "the device computes MatMul and Add only");
  }
  ASSERT_EQ(facts["clusters"].size(), 3u);
  EXPECT_EQ(facts["clusters"][1]["provider"], "device");
  EXPECT_EQ(facts["clusters"][1]["nodes"], 4);
}

TEST_F(DeviceProvider, AnAddWithoutAProductIsTakenAlone) {
  Model m = Model::Create("sum");
  m.Import("", 17).Input("x", QUERN_F32, {2, 3}).Constant("b", Value::Tensor<float>({3}, {1, 2, 3}));
  m.Node("Add", {"x", "b"}, {"y"}, {}, "sum").Output("y");
  Session session(m, OnDevice());
  ExpectNear(session.Run({Value::Tensor<float>({2, 3}, {1, 1, 1, 2, 2, 2})})[0], {2, 3, 4, 3, 4, 5});
  EXPECT_EQ(Runs(), 1);
}

TEST_F(DeviceProvider, ResultsReachMemoryOfTheCallerWithStrides) {
  Model m = Model::Create("sum");
  m.Import("", 17).Input("x", QUERN_F32, {2, 3}).Constant("b", Value::Tensor<float>({3}, {1, 2, 3}));
  m.Node("Add", {"x", "b"}, {"y"}, {}, "sum").Output("y");
  Session session(m, OnDevice());
  float x[6] = {1, 4, 2, 5, 3, 6};  // columns
  std::vector<float> y(12, -1);
  std::vector<Value> outputs = {Value::Wrap(QUERN_F32, {2, 3}, {6, 2}, y.data(), y.size() * sizeof(float))};
  session.RunInto({Value::Wrap(QUERN_F32, {2, 3}, {1, 2}, x, sizeof x)}, outputs);
  EXPECT_THAT(y, testing::ElementsAre(2, -1, 4, -1, 6, -1, 5, -1, 7, -1, 9, -1));
}

TEST_F(DeviceProvider, ItsMemoryIsClosedToTheHost) {
  Session session(Network(weights_, /*between=*/false), OnDevice());
  session.Run({Value::Tensor<float>({1, kK}, Draw(kK, 30))});
  const void* buffer = reinterpret_cast<device_provider_any_buffer_fn>(Symbol("device_provider_any_buffer"))();
  ASSERT_NE(buffer, nullptr);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_EQ(write(pipe_ends[1], buffer, 1), -1) << "the kernel could read it, so the host can";
  EXPECT_EQ(errno, EFAULT);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(DeviceProvider, ServesSeveralThreadsAtOnce) {
  Session session(Network(weights_, /*between=*/true), OnDevice());
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned run = 0; run < 20; ++run) {
        const int64_t rows = 1 + (t + run) % 3;
        const Matrix x = Draw(static_cast<size_t>(rows * kK), 100 * t + run);
        ExpectNear(session.Run({Value::Tensor<float>({rows, kK}, x)})[0], Expected(weights_, true, x, rows));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(CopiesIn(), 160);
  EXPECT_EQ(CopiesOut(), 160);
}

TEST_F(DeviceProvider, AFailureAfterRunReachesTheCaller) {
  Session session(Network(weights_, /*between=*/false), OnDevice());
  const Matrix x = Draw(2 * kK, 40);
  reinterpret_cast<device_provider_fail_next_fn>(Symbol("device_provider_fail_next"))();
  try {
    session.Run({Value::Tensor<float>({2, kK}, x)});
    ADD_FAILURE() << "the run succeeded";
  } catch (const quern::Error& e) {
    EXPECT_EQ(e.status(), QUERN_INTERNAL);
    EXPECT_THAT(e.what(), HasSubstr("the device was lost"));
  }
  EXPECT_EQ(Read().tickets, 0);
  ExpectNear(session.Run({Value::Tensor<float>({2, kK}, x)})[0], Expected(weights_, false, x, 2));
}

TEST(ExternalProvider, WhatIsNoProviderIsRefusedByName) {
  SessionOptions options;
  options.providers = {"./no_such_provider.so"};
  Model m = Model::Create("identity");
  m.Import("", 17).Input("x", QUERN_F32, {1}).Node("Neg", {"x"}, {"y"}).Output("y");
  try {
    const Session session(m, options);
    ADD_FAILURE() << "the session was made";
  } catch (const quern::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("no_such_provider.so"));
  }
}

}  // namespace
