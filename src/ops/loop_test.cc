// What inference knows of the outputs that a Loop collects.
#include <gtest/gtest.h>

#include <string>

#include "graph/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"

namespace quern {
namespace {

// Collects f32[2] of each iteration; `next` is the condition that the body gives.
std::unique_ptr<Graph> Collecting(const std::string& next, const std::string& go, const std::string& row) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(
      "graph opset(\"\": 17) {\n"
      "  input %x: f32[n,2]\n"
      "  input %given: bool[]\n"
      "  const %zero = i64[] {0}\n"
      "  const %true = bool[] {true}\n"
      "  const %false = bool[] {false}\n"
      "  %shape = Shape(%x)\n"
      "  %trips = Gather(%shape, %zero) {axis = 0}\n"
      "  %all = Loop(%trips, " +
      go +
      ") captures(%x) {\n"
      "    body = graph {\n"
      "      input %i: i64[]\n"
      "      input %on: bool[]\n"
      "      input %v: f32[n,2]\n"
      "      const %yes = bool[] {true}\n"
      "      const %no = bool[] {false}\n"
      "      const %half = i64[1] {1}\n"
      "      const %begin = i64[1] {0}\n"
      "      %row = Gather(%v, %i) {axis = 0}\n"
      "      %column = Slice(%v, %begin, %half, %half)\n"
      "      return " +
      next + ", " + row +
      "\n"
      "    }\n"
      "  }\n"
      "  return %all\n"
      "}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  for (int round = 0; round < 2; ++round) {  // once for the types within the body
    const Status status = InferShapes(**graph);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return std::move(graph).value();
}

const ValueType& CollectedType(const Graph& graph) { return graph.outputs()[0]->type(); }

TEST(Loop, CollectsAsManyAsItHasTripsWhereNothingEndsIt) {
  for (const char* next : {"%on", "%yes"}) {
    for (const char* go : {"%true", "_"}) {
      const std::unique_ptr<Graph> graph = Collecting(next, go, "%row");
      EXPECT_EQ(TypeToString(CollectedType(*graph)), "f32[n,2]") << next << " " << go;
      for (const int64_t n : {0, 3}) {
        const std::vector<Value> in = {Tensor::Allocate(DType::kF32, Shape{n, 2}).value(), Tensor::Scalar(false)};
        const Result<std::vector<Value>> out = EvaluateGraph(*graph, in);
        ASSERT_TRUE(out.ok()) << out.status().message();
        EXPECT_EQ((*out)[0].tensor().shape(), (Shape{n, 2}));
      }
    }
  }
}

TEST(Loop, CollectsAnUnknownNumberElse) {
  const auto unknown = [](const Graph& graph) { return CollectedType(graph).shape->front().has_unknown(); };
  EXPECT_TRUE(unknown(*Collecting("%no", "%true", "%row")));
  EXPECT_TRUE(unknown(*Collecting("%on", "%given", "%row")));
  EXPECT_TRUE(unknown(*Collecting("%yes", "%false", "%row")));
  // Without an iteration nobody knows the column's extent.
  EXPECT_TRUE(unknown(*Collecting("%yes", "%true", "%column")));
}

}  // namespace
}  // namespace quern
