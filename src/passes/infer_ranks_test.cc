// Ranks that readers demand: what the pass gives, what it leaves open, and that it comes to an end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "ops/infer.h"
#include "passes/passes.h"

namespace quern {
namespace {

// The lines of a graph whose %i comes from an If of branches of rank 1 and 2.
std::string OfBranches(const std::string& readers) {
  return "graph opset(\"\": 17) {\n  input %c: bool[]\n  input %x: f32[n,3]\n"
         "  const %w = f32[1,8,3] splat 0.5\n  const %r = f32[1,8,2] splat 0.5\n  const %zero = i64[1] {0}\n"
         "  const %kernel = f32[4,3,1] splat 0.5\n  const %shape = i64[1] {-1}\n"
         "  %i = If(%c) captures(%x, %shape) {\n"
         "    then_branch = graph @a {\n      input %x: f32[n,3]\n      input %shape: i64[1]\n"
         "      %o = Identity(%x)\n      return %o\n    },\n"
         "    else_branch = graph @b {\n      input %x: f32[n,3]\n      input %shape: i64[1]\n"
         "      %o = Reshape(%x, %shape)\n      return %o\n    }\n  }\n" +
         readers + "}\n";
}

// The graph after inference and the pass, and how much the pass changed then and when it ran again.
struct Ranked {
  std::string text;
  int first = 0, second = 0;
};
Ranked Rank(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  EXPECT_TRUE(InferShapes(**graph).ok());
  const Pass* pass = FindNeutralPass("infer_ranks");
  Ranked r;
  r.first = pass->run(**graph, nullptr).value();
  r.second = pass->run(**graph, nullptr).value();
  r.text = PrintGraph(**graph);
  return r;
}

TEST(InferRanks, OfALayerBehindAnUnsqueeze) {
  const Ranked r =
      Rank(OfBranches("  %u = Unsqueeze(%i, %zero)\n  %y, _ = LSTM(%u, %w, %r) {hidden_size = 2}\n  return %y\n"));
  EXPECT_THAT(r.text, testing::ContainsRegex("%i: f32\\[\\?[0-9]+,\\?[0-9]+\\] = If"));
  EXPECT_THAT(r.text, testing::ContainsRegex("%u: f32\\[1,\\?[0-9]+,\\?[0-9]+\\] = Unsqueeze"));
  EXPECT_GT(r.first, 0);
  EXPECT_EQ(r.second, 0);
}

TEST(InferRanks, OfAConvolutionBehindElementwiseOperators) {
  const Ranked r = Rank(OfBranches(
      "  %u = Unsqueeze(%i, %zero)\n  %a = Relu(%u)\n  %b = Tanh(%a)\n  %y = Conv(%b, %kernel)\n  return %y\n"));
  EXPECT_THAT(r.text, testing::ContainsRegex("%i: f32\\[\\?[0-9]+,\\?[0-9]+\\] = If"));
  EXPECT_THAT(r.text, testing::HasSubstr("%b: f32[1,"));
  EXPECT_EQ(r.second, 0);
}

TEST(InferRanks, OfAConcatWithAnother) {
  const Ranked r = Rank(OfBranches("  %y = Concat(%x, %i) {axis = 0}\n  return %y\n"));
  EXPECT_THAT(r.text, testing::ContainsRegex("%i: f32\\[\\?[0-9]+,\\?[0-9]+\\] = If"));
}

TEST(InferRanks, NotOfWhatNoOutputNeeds) {
  const Ranked r = Rank(OfBranches("  %d = Transpose(%i) {perm = [1, 0]}\n  %y = Relu(%i)\n  return %y\n"));
  EXPECT_THAT(r.text, testing::HasSubstr("%y: f32[*] = Relu"));
  EXPECT_EQ(r.first, 0);
}

// A rank that the last of many nodes demands reaches the first in time that grows with their number only.
TEST(InferRanks, ThroughALongChain) {
  constexpr int kNodes = 20000;
  std::string chain = "  %a0 = Unsqueeze(%i, %zero)\n";
  for (int i = 1; i <= kNodes; ++i) {
    chain += "  %a" + std::to_string(i) + " = Relu(%a" + std::to_string(i - 1) + ")\n";
  }
  const Ranked r = Rank(OfBranches(chain + "  %y = Conv(%a" + std::to_string(kNodes) + ", %kernel)\n  return %y\n"));
  EXPECT_THAT(r.text, testing::ContainsRegex("%i: f32\\[\\?[0-9]+,\\?[0-9]+\\] = If"));
}

TEST(InferRanks, StaysOpenWhereNothingDemandsOne) {
  const Ranked r = Rank(OfBranches("  %y = Relu(%i)\n  return %y\n"));
  EXPECT_THAT(r.text, testing::HasSubstr("%y: f32[*] = Relu"));
  EXPECT_EQ(r.first, 0);
}

}  // namespace
}  // namespace quern
