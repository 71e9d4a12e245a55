// Sequences, optionals and strings across a session: memory that they hold on to, plans for what inputs hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/text.h"
#include "session/session.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using F = std::vector<float>;

std::unique_ptr<Session> Parse(const std::string& text) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? MakeSession(std::move(graph).value()) : nullptr;
}
std::vector<Value> RunOn(Session& session, std::vector<Value> in, size_t outputs = 1) {
  std::vector<Value> out(outputs);
  const Status status = session.Run(in, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}
Tensor Floats(const F& values) {
  return Tensor::FromValues<float>(Shape{static_cast<int64_t>(values.size())}, std::span<const float>(values));
}
F FloatsOf(const Value& v) {
  if (!v.is_tensor()) return {};
  const std::span<float> values = v.tensor().values<float>();
  return {values.begin(), values.end()};
}

// The sequence holds a value of the arena, whose memory later values take.
TEST(Containers, ElementsKeepTheirContent) {
  const auto session = Parse(R"(graph opset("": 17) {
    input %x: f32[256]
    %a = Relu(%x)
    %s = SequenceConstruct(%a)
    %o = Optional(%a)
    %b = Neg(%a)
    %c = Exp(%b)
    %d = Sqrt(%c)
    %e = Neg(%d)
    return %s, %o, %e
  })");
  ASSERT_NE(session, nullptr);
  F x(256), positive(256);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) - 100.0f;
    positive[i] = std::max(x[i], 0.0f);
  }
  const std::vector<Value> y = RunOn(*session, {Floats(x)}, 3);
  ASSERT_EQ(y[0].sequence().size(), 1u);
  EXPECT_EQ(FloatsOf(y[0].sequence()[0]), positive);
  EXPECT_EQ(FloatsOf(y[1].optional_element()), positive);
}

// A plan for elements of one length does not serve another.
TEST(Containers, PlansFollowTheShapesOfElements) {
  const auto session = Parse(R"(graph opset("": 17) {
    input %s: seq<f32[*]>
    const %first = i64[] {0}
    %a = SequenceAt(%s, %first)
    %y = Neg(%a)
    return %y
  })");
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(FloatsOf(RunOn(*session, {Value::Sequence({Floats({1, 2})})})[0]), (F{-1, -2}));
  EXPECT_EQ(FloatsOf(RunOn(*session, {Value::Sequence({Floats({1, 2, 3, 4})})})[0]), (F{-1, -2, -3, -4}));
  EXPECT_EQ(FloatsOf(RunOn(*session, {Value::Sequence({Floats({1}), Floats({1, 2})})})[0]), (F{-1}));
  EXPECT_EQ(FloatsOf(RunOn(*session, {Value::Sequence({Floats({1, 2})})})[0]), (F{-1, -2}));
}

TEST(Containers, PlansFollowTheShapesOfStrings) {
  const auto session = Parse(R"(graph opset("": 20) {
    input %x: string[n]
    %m = RegexFullMatch(%x) {pattern = "a+"}
    %f = Cast(%m) {to = 1}
    %y = Neg(%f)
    return %y
  })");
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(FloatsOf(RunOn(*session, {StringTensor{Shape{2}, {"a", "b"}}})[0]), (F{-1, 0}));
  EXPECT_EQ(FloatsOf(RunOn(*session, {StringTensor{Shape{3}, {"b", "aa", "a"}}})[0]), (F{0, -1, -1}));
}

constexpr char kHas[] = R"(graph opset("": 15) {
  input %o: opt<f32[2]>
  %h = OptionalHasElement(%o)
  return %h
})";

TEST(Containers, AnOptionalInputMayBeAbsent) {
  const auto session = Parse(kHas);
  ASSERT_NE(session, nullptr);
  for (const auto& [input, expected] : {std::pair<Value, bool>{Value::Optional(Floats({1, 2})), true},
                                        {Floats({1, 2}), true},
                                        {Value::Optional(Value()), false},
                                        {Value(), false}}) {
    EXPECT_EQ(*RunOn(*session, {input})[0].tensor().data<bool>(), expected) << ValueKindName(input.kind());
  }
}

}  // namespace
}  // namespace quern
