// Graphs whose ranks follow from extents are compiled for the shapes of a run.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <thread>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using Json = nlohmann::ordered_json;

// Relu of x, without its first axis where that is 1.
constexpr char kByExtent[] =
    "graph opset(\"\": 17) {\n"
    "  input %x: f32[N, 4]\n"
    "  const %first = i64[] {0}\n"
    "  const %one = i64[] {1}\n"
    "  const %axes = i64[1] {0}\n"
    "  %s = Shape(%x)\n"
    "  %n = Gather(%s, %first)\n"
    "  %c = Equal(%n, %one)\n"
    "  %r = If(%c) captures(%x, %axes) {\n"
    "    else_branch = graph {\n"
    "      input %x: f32[N, 4]\n"
    "      input %axes: i64[1]\n"
    "      %i = Identity(%x)\n"
    "      return %i\n"
    "    },\n"
    "    then_branch = graph {\n"
    "      input %x: f32[N, 4]\n"
    "      input %axes: i64[1]\n"
    "      %q = Squeeze(%x, %axes)\n"
    "      return %q\n"
    "    }\n"
    "  }\n"
    "  %y = Relu(%r)\n"
    "  return %y\n"
    "}\n";

std::unique_ptr<Session> Open(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? MakeSession(std::move(graph).value()) : nullptr;
}

Tensor RunOn(Session& session, const Shape& shape) {
  const Tensor x = DrawFloats(shape, 7);
  const Value inputs[] = {x};
  Value outputs[1];
  const Status status = session.Run(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  if (!status.ok()) return Zeros(Shape{0});
  std::vector<double> relu;
  for (float v : x.values<float>()) relu.push_back(std::max(v, 0.0f));
  ExpectNear(outputs[0], relu, 0);
  return outputs[0].tensor();
}

Json Facts(const Session& session) { return Json::parse(session.Facts("partition").value()); }

size_t OnReference(const Json& doc) {
  size_t count = 0;
  for (const Json& node : doc["partition"]["nodes"]) count += node["provider"] == "reference";
  return count;
}

TEST(ShapeVariants, SettleWhatFollowsFromShapes) {
  const auto session = Open(kByExtent);
  EXPECT_GT(OnReference(Facts(*session)), 0u);
  EXPECT_EQ(RunOn(*session, {1, 4}).shape(), (Shape{4}));
  Json facts = Facts(*session);
  EXPECT_EQ(OnReference(facts), 0u) << facts.dump(1);
  EXPECT_EQ(facts["compiled_for"][0]["shape"], Json({1, 4}));
  EXPECT_EQ(RunOn(*session, {3, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(OnReference(Facts(*session)), 0u);
  EXPECT_EQ(RunOn(*session, {1, 4}).shape(), (Shape{4}));
  EXPECT_EQ(session->plans_built(), 2);
}

TEST(ShapeVariants, AreFew) {
  const auto session = Open(kByExtent);
  for (int64_t n = 0; n < 8; ++n) EXPECT_EQ(RunOn(*session, {n, 4}).num_elements(), 4 * n);
  EXPECT_FALSE(Facts(*session).contains("compiled_for"));
  EXPECT_GT(OnReference(Facts(*session)), 0u);
  RunOn(*session, {2, 4});
  EXPECT_TRUE(Facts(*session).contains("compiled_for"));
}

TEST(ShapeVariants, AreNotMadeWhereTheyWouldSettleNothing) {
  std::string text = kByExtent;
  // The condition is data now, whatever the shape.
  const std::string from = "%c = Equal(%n, %one)",
                    to = "%e = ReduceMax(%x) {keepdims = 0}\n  %z = Cast(%e) {to = 9}\n  %c = Or(%z, %z)";
  text.replace(text.find(from), from.size(), to);
  const auto session = Open(text);
  EXPECT_EQ(RunOn(*session, {1, 4}).shape(), (Shape{4}));
  EXPECT_FALSE(Facts(*session).contains("compiled_for"));
}

TEST(ShapeVariants, WrongInputsAreErrorsAsEver) {
  const auto session = Open(kByExtent);
  const Value inputs[] = {DrawFloats({2, 5}, 1)};
  Value outputs[1];
  const Status status = session->Run(inputs, outputs);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("input 'x'"), std::string::npos) << status.message();
}

// A model that names no element type takes any: a variant is for one.
TEST(ShapeVariants, AreForOneElementType) {
  std::string text = kByExtent;
  for (size_t at; (at = text.find("%x: f32[N, 4]")) != text.npos;) text.replace(at, 13, "%x");
  text.replace(text.find("Relu"), 4, "Neg");
  const auto session = Open(text);
  const Value floats[] = {DrawFloats({1, 4}, 7)};
  const Value numbers[] = {Tensor::FromValues<int32_t>({1, 4}, std::vector<int32_t>{1, 2, 3, 4})};
  for (int round = 0; round < 2; ++round) {
    for (const auto& inputs : {floats, numbers}) {
      Value outputs[1];
      const Status status = session->Run({inputs, 1}, outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(outputs[0].tensor().dtype(), inputs[0].tensor().dtype());
      EXPECT_EQ(outputs[0].tensor().shape(), (Shape{4}));
    }
  }
}

TEST(ShapeVariants, ServeThreads) {
  const auto session = Open(kByExtent);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 20; ++i) RunOn(*session, {1 + (i + t) % 6, 4});
    });
  }
  for (int i = 0; i < 50; ++i) Facts(*session);
  for (std::thread& t : threads) t.join();
  EXPECT_LE(session->plans_built(), 4 + 2 * 2);  // of variants; of the general executable and of its branch
}

}  // namespace
}  // namespace quern
