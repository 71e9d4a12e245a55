// Inputs whose extents share a name and differ: as if the model did not name them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Session> Open(const std::string& lines) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 17) {\n" + lines + "  return %y\n}\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? MakeSession(std::move(graph).value()) : nullptr;
}

Result<Tensor> RunOn(Session& session, const std::vector<Value>& inputs) {
  Value outputs[1];
  QUERN_RETURN_IF_ERROR(session.Run(inputs, outputs));
  return outputs[0].tensor();
}

// a + b of two rows each, either of which may have one element.
void ExpectSum(Session& session, int64_t na, int64_t nb) {
  const Tensor a = DrawFloats(Shape{na}, 1), b = DrawFloats(Shape{nb}, 2);
  const Result<Tensor> y = RunOn(session, {a, b});
  ASSERT_TRUE(y.ok()) << y.status().message();
  std::vector<double> sums;
  for (int64_t i = 0; i < std::max(na, nb); ++i) {
    sums.push_back(a.values<float>()[na == 1 ? 0 : i] + b.values<float>()[nb == 1 ? 0 : i]);
  }
  EXPECT_EQ(y->shape(), Shape{std::max(na, nb)});
  ExpectNear(Value(*y), sums, 1e-6);
}

constexpr char kSum[] = "  input %a: f32[N]\n  input %b: f32[N]\n  %y = Add(%a, %b)\n";

TEST(LooseExtents, BroadcastWhereTheNameSaysThatTheyDoNot) {
  const auto session = Open(kSum);
  ExpectSum(*session, 5, 5);
  ExpectSum(*session, 5, 1);
  ExpectSum(*session, 1, 7);
  ExpectSum(*session, 6, 6);
}

TEST(LooseExtents, ManyThreads) {
  const auto session = Open(kSum);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t n = 2; n < 9; ++n) ExpectSum(*session, n, (n + t) % 2 == 0 ? n : 1);
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(LooseExtents, OperatorsThatNeedThemEqualSaySo) {
  const auto session = Open(kSum);
  const Result<Tensor> y = RunOn(*session, {DrawFloats(Shape{5}, 1), DrawFloats(Shape{4}, 2)});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(y.status().message(), HasSubstr("Add"));
  ExpectSum(*session, 3, 3);
}

// By its name, the Reshape changes nothing and goes; without, its sizes are those of another tensor.
TEST(LooseExtents, WhatPassesConcludeFromNames) {
  const auto session = Open(
      "  input %a: f32[N,4]\n  input %b: f32[N]\n  const %four = i64[1] {4}\n  %s = Shape(%b)\n"
      "  %to = Concat(%s, %four) {axis = 0}\n  %r = Reshape(%a, %to)\n  %y = Relu(%r)\n");
  const Tensor a = DrawFloats(Shape{3, 4}, 1);
  const Result<Tensor> fits = RunOn(*session, {a, Zeros(Shape{3})});
  ASSERT_TRUE(fits.ok()) << fits.status().message();
  EXPECT_EQ(fits->shape(), (Shape{3, 4}));
  const Result<Tensor> y = RunOn(*session, {a, Zeros(Shape{5})});
  ASSERT_FALSE(y.ok());
  EXPECT_THAT(y.status().message(), HasSubstr("Reshape"));
}

TEST(LooseExtents, OneInputNamesTwoOfItsExtentsAlike) {
  const auto session = Open("  input %x: f32[N,N]\n  %y = Transpose(%x) {perm = [1, 0]}\n");
  const Result<Tensor> y = RunOn(*session, {DrawFloats(Shape{2, 3}, 1)});
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(y->shape(), (Shape{3, 2}));
}

// The first run contradicts one name, the second another one.
TEST(LooseExtents, NamesThatAreContradictedOneAfterTheOther) {
  const auto session = Open("  input %a: f32[M,N]\n  input %b: f32[M,N]\n  %p = Add(%a, %b)\n  %y = Relu(%p)\n");
  for (const auto& [a, b, sum] : {std::array<Shape, 3>{Shape{2, 3}, Shape{1, 3}, Shape{2, 3}},
                                  {Shape{2, 3}, Shape{2, 1}, Shape{2, 3}},
                                  {Shape{1, 3}, Shape{2, 1}, Shape{2, 3}},
                                  {Shape{4, 5}, Shape{4, 5}, Shape{4, 5}}}) {
    const Result<Tensor> y = RunOn(*session, {DrawFloats(a, 1), DrawFloats(b, 2)});
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_EQ(y->shape(), sum);
  }
}

// The sum of two other extents, as exporters name a mask's; here it broadcasts as well.
TEST(LooseExtents, NamesThatAreFormulas) {
  const auto session = Open(
      "  input %past: f32[p,4]\n  input %x: f32[n,4]\n  input %mask: f32[\"p + n\",4]\n"
      "  %all = Concat(%past, %x) {axis = 0}\n  %y = Add(%all, %mask)\n");
  for (const int64_t rows : {5, 1, 5}) {
    const Tensor past = DrawFloats(Shape{3, 4}, 1), x = DrawFloats(Shape{2, 4}, 2),
                 mask = DrawFloats(Shape{rows, 4}, 3);
    const Result<Tensor> y = RunOn(*session, {past, x, mask});
    ASSERT_TRUE(y.ok()) << y.status().message();
    std::vector<double> sums;
    for (int64_t i = 0; i < 20; ++i) {
      const float a = i < 12 ? past.values<float>()[i] : x.values<float>()[i - 12];
      sums.push_back(a + mask.values<float>()[rows == 1 ? i % 4 : i]);
    }
    ExpectNear(Value(*y), sums, 1e-6);
  }
  EXPECT_FALSE(RunOn(*session, {Zeros(Shape{3, 4}), Zeros(Shape{2, 4}), Zeros(Shape{4, 4})}).ok());
}

// Nor is a name contradicted that says "one more": plans made afterwards are of the same executable.
TEST(LooseExtents, ANumberThatIsAddedIsNotBelieved) {
  const auto session =
      Open("  input %x: f32[p,4]\n  input %mask: f32[\"p + 1\",4]\n  %y = Concat(%x, %mask) {axis = 0}\n");
  for (const int64_t rows : {4, 7}) {
    const Result<Tensor> y = RunOn(*session, {Zeros(Shape{3, 4}), Zeros(Shape{rows, 4})});
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_EQ(y->shape(), (Shape{3 + rows, 4}));
  }
  EXPECT_NE(session->Text("neutral").value().find("mask: f32[\"p + 1\""), std::string::npos);
}

// With the formula, passes know that the Reshape changes nothing.
TEST(LooseExtents, WhatPassesConcludeFromFormulas) {
  const std::string text =
      "graph opset(\"\": 17) {\n  input %past: f32[p,4]\n  input %x: f32[n,4]\n  input %mask: f32[\"p + n\"]\n"
      "  const %four = i64[1] {4}\n  %all = Concat(%past, %x) {axis = 0}\n  %s = Shape(%mask)\n"
      "  %to = Concat(%s, %four) {axis = 0}\n  %y = Reshape(%all, %to)\n  return %y\n}\n";
  const auto session = MakeSession(ParseGraph(text).value());
  EXPECT_EQ(session->Facts("compiled").value().find("Reshape"), std::string::npos);
  EXPECT_TRUE(RunOn(*session, {Zeros(Shape{3, 4}), Zeros(Shape{2, 4}), Zeros(Shape{5})}).ok());
  const Result<Tensor> y = RunOn(*session, {Zeros(Shape{3, 4}), Zeros(Shape{2, 4}), Zeros(Shape{6})});
  ASSERT_FALSE(y.ok());
  EXPECT_THAT(y.status().message(), HasSubstr("Reshape"));
}

// As exporters merge a decoder's first step, whose past is empty, with the later ones, in which the past has the
// encoder's length already.
TEST(LooseExtents, DecodersMergedForTheirFirstStep) {
  const auto session = Open(
      "  input %past: f32[S,4]\n  input %encoded: f32[S,4]\n  input %use_past: bool[]\n"
      "  %y = If(%use_past) captures(%past, %encoded) {\n"
      "    else_branch = graph {\n"
      "      input %past: f32[S,4]\n      input %encoded: f32[S,4]\n"
      "      %e = Relu(%encoded)\n      return %e\n    },\n"
      "    then_branch = graph {\n"
      "      input %past: f32[S,4]\n      input %encoded: f32[S,4]\n"
      "      %p = Add(%past, %encoded)\n      return %p\n    }\n  }\n");
  const bool no[] = {false}, yes[] = {true};
  const Tensor encoded = DrawFloats(Shape{3, 4}, 1), past = DrawFloats(Shape{3, 4}, 2);
  const Result<Tensor> first = RunOn(*session, {Zeros(Shape{0, 4}), encoded, Tensor::FromValues<bool>(Shape{}, no)});
  ASSERT_TRUE(first.ok()) << first.status().message();
  const Result<Tensor> later = RunOn(*session, {past, encoded, Tensor::FromValues<bool>(Shape{}, yes)});
  ASSERT_TRUE(later.ok()) << later.status().message();
  std::vector<double> relu, sums;
  for (size_t i = 0; i < 12; ++i) {
    const float e = encoded.values<float>()[i];
    relu.push_back(std::max(e, 0.0f));
    sums.push_back(past.values<float>()[i] + e);
  }
  ExpectNear(Value(*first), relu, 0);
  ExpectNear(Value(*later), sums, 1e-6);
}

}  // namespace
}  // namespace quern
