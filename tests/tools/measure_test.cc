// What quern bench reports, on numbers that are known.
#include "measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "bench_case.h"

namespace quern_tool {
namespace {

using quern::Model;
using quern::Session;
using quern::Value;
using testing::HasSubstr;

std::vector<double> UpTo(int n) {
  std::vector<double> list(static_cast<std::size_t>(n));
  std::iota(list.begin(), list.end(), 1.0);
  return list;
}

TEST(Percentiles, AreElementsByNearestRank) {
  const std::vector<double> ten = UpTo(10);
  EXPECT_EQ(Percentile(ten, 500), 5);
  EXPECT_EQ(Percentile(ten, 501), 6);
  EXPECT_EQ(Percentile(ten, 900), 9);
  EXPECT_EQ(Percentile(ten, 950), 10);
  EXPECT_EQ(Percentile(ten, 1), 1);
  EXPECT_EQ(Percentile(UpTo(1000), 999), 999);
  EXPECT_EQ(Percentile(UpTo(1001), 999), 1000);
  EXPECT_EQ(Percentile(UpTo(100), 999), 100);
  EXPECT_EQ(Percentile({7}, 500), 7);
}

TEST(Percentiles, OfRunsInAnyOrder) {
  const Latencies l = Summarize({3, 1, 2, 10});
  EXPECT_EQ(l.min, 1);
  EXPECT_EQ(l.max, 10);
  EXPECT_EQ(l.mean, 4);
  EXPECT_EQ(l.p50, 2);
  EXPECT_EQ(l.p90, 10);
  const Latencies one = Summarize({5});
  for (const double x : {one.min, one.mean, one.max, one.p50, one.p90, one.p95, one.p99, one.p999}) EXPECT_EQ(x, 5);
}

Session Negation() {
  Model m = Model::Create("negation");
  m.Import("", 17).Input("x", QUERN_F32, {-1}, {"n"}).Node("Neg", {"x"}, {"y"}).Output("y");
  return Session(m);
}

std::atomic<std::uint64_t> g_counted{0};

TEST(Measure, RunsAsOftenAsAskedWithAnyNumberOfClients) {
  Session session = Negation();
  for (const int clients : {1, 3}) {
    MeasureOptions options;
    options.runs = 7;
    options.clients = clients;
    int warm = 0;
    options.after_warmup = [&] { ++warm; };
    g_counted = 0;
    options.allocations = [] { return g_counted += 14; };  // 14 more by the time that all have run
    const Measurement m = Measure(session, FeedSets{{Value::Tensor<float>({2}, {1, 2})}}, options);
    EXPECT_EQ(m.seconds.size(), 7u);
    EXPECT_EQ(warm, 1);
    EXPECT_EQ(m.allocations_per_run, 2);
    EXPECT_GT(m.first_seconds, 0);
    EXPECT_GE(m.wall_seconds, *std::max_element(m.seconds.begin(), m.seconds.end()));
    EXPECT_GE(m.cpu_seconds, 0);
  }
}

TEST(Measure, RunsForATimeAndAtLeastOnce) {
  Session session = Negation();
  MeasureOptions options;
  options.seconds = 0;
  options.warmup = 0;
  Measurement m = Measure(session, FeedSets{{Value::Tensor<float>({2}, {1, 2})}}, options);
  EXPECT_EQ(m.seconds.size(), 1u);
  EXPECT_EQ(m.first_seconds, m.seconds[0]);
  EXPECT_FALSE(m.allocations_per_run.has_value());
  options.seconds = 0.05;
  options.clients = 2;
  m = Measure(session, FeedSets{{Value::Tensor<float>({2}, {1, 2})}}, options);
  EXPECT_GE(m.wall_seconds, 0.05);
  EXPECT_GE(m.seconds.size(), 2u);
}

TEST(Measure, AFailureOfARunIsThrown) {
  Session session = Negation();
  for (const int warmup : {0, 1, 2}) {
    MeasureOptions options;
    options.warmup = warmup;
    options.clients = 2;
    EXPECT_THROW(Measure(session, FeedSets{{Value::Tensor<double>({2}, {1, 2})}}, options), quern::Error);
  }
}

TEST(Measure, AFailureBetweenWarmUpAndRunsIsThrown) {
  Session session = Negation();
  MeasureOptions options;
  options.clients = 2;
  options.after_warmup = [] { throw std::runtime_error("no profile"); };
  EXPECT_THROW(Measure(session, FeedSets{{Value::Tensor<float>({2}, {1, 2})}}, options), std::runtime_error);
}

// Results whose size changes from run to run cannot be written where the last ones lie.
TEST(Measure, ResultsMayChangeTheirShape) {
  Model m = Model::Create("random");
  m.Import("", 17).Input("x", QUERN_F32, {64});
  m.Node("RandomUniformLike", {"x"}, {"r"}, {quern::Attribute("low", -1.0f)}).Node("Relu", {"r"}, {"p"});
  m.Node("NonZero", {"p"}, {"y"}).Output("y");
  Session session(m);
  MeasureOptions options;
  options.runs = 20;
  EXPECT_EQ(Measure(session, FeedSets{{Value::Tensor<float>({64}, std::vector<float>(64))}}, options).seconds.size(),
            20u);
}

TEST(Memory, IsKnownHere) {
  const Memory memory = ReadMemory();
  EXPECT_GT(memory.now_bytes, 1u << 20);
  EXPECT_GE(memory.peak_bytes, memory.now_bytes);
}

// A float product, one of integers, an addition, a Loop with a body, and a provider that tells nothing of its nodes.
Json Facts(int runs) {
  const auto node = [&](const char* name, const char* op, const char* kernel, double seconds, double operations,
                        double bytes, int times = 1) {
    return Json{{"name", name},
                {"op", op},
                {"domain", ""},
                {"outputs", Json::array({std::string(name) + "_out"})},
                {"kernel", kernel},
                {"runs", runs * times},
                {"seconds", runs * seconds},
                {"operations", runs * operations},
                {"bytes", runs * bytes},
                {"provider", "cpu"},
                {"cluster", 0}};
  };
  Json doc;
  doc["profile"]["clusters"] =
      Json::array({{{"provider", "cpu"}, {"nodes", 5}, {"runs", runs}, {"seconds", runs * 9.0}},
                   {{"provider", "npu"}, {"nodes", 3}, {"runs", runs}, {"seconds", runs * 4.0}}});
  doc["profile"]["nodes"] = {
      node("product", "MatMul", "gemm_f32_f32_f32_8x16x1_avx2", 2, 100e9, 10e9),
      node("", "Conv", "gemm_u8_i8_i32_6x64x4_avx512vnni", 1, 200e9, 1),
      node("sum", "Add", "vector_f32_avx512", 2, 0, 8e9),
      node("small", "Add", "vector_f32_avx512", 1, 0, 1000),
      node("view", "Reshape", "view", 0, 0, 0, 0),
      node("loop", "Loop", "reference", 3, 0, 64e9),
  };
  doc["subgraphs"] = Json::array();
  doc["subgraphs"].push_back({{"name", "loop"}, {"op", "Loop"}, {"attribute", "body"}});
  doc["subgraphs"][0]["profile"]["clusters"] = Json::array({{{"provider", "cpu"}, {"nodes", 1}}});
  doc["subgraphs"][0]["profile"]["nodes"] = Json::array({node("inner", "Neg", "vector_f32_avx512", 2, 0, 40000, 10)});
  return doc;
}

Json Cpu() {
  return {{"caches", {{"l2", {{"bytes", 2000}}}}},
          {"peaks",
           {{{"name", "fma avx2"}, {"unit", "GFLOP/s"}, {"value", 50}},
            {{"name", "fma avx512"}, {"unit", "GFLOP/s"}, {"value", 100}},
            {{"name", "fma16 avx512fp16"}, {"unit", "GFLOP/s"}, {"value", 200}},
            {{"name", "vnni avx512vnni"}, {"unit", "GOP/s"}, {"value", 400}},
            {{"name", "read l2"}, {"unit", "GB/s"}, {"value", 1e-6}},
            {{"name", "read memory"}, {"unit", "GB/s"}, {"value", 8}}}}};
}

TEST(NodeRows, SayWhatBindsEachNode) {
  const std::vector<NodeRow> rows = NodeRows({Facts(2), Facts(6), 4}, {Cpu(), 1});
  std::vector<std::string> names;
  for (const NodeRow& r : rows) names.push_back(r.name);
  ASSERT_EQ(names, (std::vector<std::string>{"product", "=> _out", "sum", "small", "loop", "cluster 1", "inner"}))
      << "a view does not run";
  const NodeRow &product = rows[0], &conv = rows[1], &sum = rows[2], &small = rows[3], &loop = rows[4],
                &cluster = rows[5], &inner = rows[6];
  EXPECT_DOUBLE_EQ(product.seconds, 2);
  EXPECT_DOUBLE_EQ(product.operations_per_second(), 50e9);
  EXPECT_DOUBLE_EQ(product.bytes_per_second(), 5e9);
  // 100e9 / 100e9 = 1 s of arithmetic, 10e9 / 8e9 = 1.25 s of reading.
  EXPECT_EQ(product.limit, "read memory");
  EXPECT_DOUBLE_EQ(product.reached(), 0.625);
  EXPECT_EQ(conv.limit, "vnni avx512vnni");
  EXPECT_DOUBLE_EQ(conv.reached(), 0.5);
  EXPECT_EQ(sum.limit, "read memory");
  EXPECT_DOUBLE_EQ(sum.reached(), 0.5);
  EXPECT_EQ(small.limit, "read l2");
  EXPECT_DOUBLE_EQ(small.reached(), 1);
  EXPECT_EQ(loop.limit, "") << "its nodes have limits";
  EXPECT_EQ(cluster.op, "3 nodes");
  EXPECT_EQ(cluster.provider, "npu");
  EXPECT_DOUBLE_EQ(cluster.seconds, 4);
  EXPECT_EQ(inner.inside, "loop.body");
  EXPECT_DOUBLE_EQ(inner.runs, 10);
  EXPECT_EQ(inner.limit, "read memory") << "4000 bytes each time";
  double total = 0;
  for (const NodeRow& r : rows) total += r.inside.empty() ? r.share : 0;
  EXPECT_DOUBLE_EQ(total, 1);
  EXPECT_DOUBLE_EQ(product.share, 2.0 / 13);
  EXPECT_DOUBLE_EQ(inner.share, 2.0 / 13);
}

TEST(NodeRows, AreSelectedByTimeOrAsTheGraphHasThem) {
  const std::vector<NodeRow> rows = NodeRows({Facts(0), Facts(1), 1}, {Cpu(), 1});
  const auto names = [&](NodeOrder order, std::size_t most) {
    std::string text;
    for (const NodeRow& r : Selected(rows, order, most)) text += r.name + " ";
    return text;
  };
  EXPECT_EQ(names(NodeOrder::kTime, 2), "cluster 1 loop ");
  EXPECT_EQ(names(NodeOrder::kGraph, 3), "product => _out sum ");
  EXPECT_EQ(Selected(rows, NodeOrder::kTime, 0).size(), rows.size());
}

TEST(NodeRows, ThreadsRaiseTheLimit) {
  const std::vector<NodeRow> rows = NodeRows({Facts(0), Facts(1), 1}, {Cpu(), 2});
  EXPECT_DOUBLE_EQ(rows[0].reached(), 0.625 / 2);
  EXPECT_DOUBLE_EQ(rows[1].reached(), 0.25);
}

TEST(NodeRows, TheSessionSaysWhichPeakIsTheKernelsOwn) {
  Json facts = Facts(1);
  facts["profile"]["nodes"][0]["peak"] = "fma avx2";
  const std::vector<NodeRow> rows = NodeRows({Facts(0), facts, 1}, {Cpu(), 1});
  EXPECT_EQ(rows[0].limit, "fma avx2");
  EXPECT_DOUBLE_EQ(rows[0].reached(), 1) << "100e9 / 50e9 = 2 s";
  EXPECT_EQ(rows[1].limit, "vnni avx512vnni");
}

TEST(NodeRows, WithoutAPeakOfTheArithmeticOnlyReadingBinds) {
  Json cpu = Cpu();
  cpu["peaks"].erase(3);
  const std::vector<NodeRow> rows = NodeRows({Facts(0), Facts(1), 1}, {cpu, 1});
  EXPECT_EQ(rows[1].limit, "read l2");
}

}  // namespace
}  // namespace quern_tool
