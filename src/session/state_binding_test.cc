// Which outputs may continue which inputs, and how: appended rows, other growth, state that keeps its shape.
#include <gmock/gmock.h>

#include "parallel/hostile_executor.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> Floats(const Value& v) {
  const Tensor t = v.tensor().Contiguous().value();
  return {t.values<float>().begin(), t.values<float>().end()};
}
Tensor Row(float value) {
  const std::vector<float> two = {value, value};
  return Tensor::FromValues<float>(Shape{1, 2}, two);
}

// A graph with the inputs past [p, 2] and new [1, 2].
struct Cache : GraphMaker {
  GraphValue* past = In("past", DType::kF32, {Dim::Symbol("p"), 2});
  GraphValue* fresh = In("new", DType::kF32, {1, 2});
  GraphValue* Join(GraphValue* a, GraphValue* b) { return Op("Concat", {a, b}, "all", {{"axis", int64_t{0}}}); }
};

class StateBinding : public testing::TestWithParam<const char*> {
 protected:
  // On the provider under test.
  static std::unique_ptr<Session> Make(std::unique_ptr<Graph> graph) {
    SessionOptions options;
    options.providers = {GetParam()};
    return MakeSession(std::move(graph), options);
  }
  static SessionState Bind(const Session& session, StateSpec spec) {
    Result<SessionState> state = session.CreateState({std::move(spec)});
    EXPECT_TRUE(state.ok()) << state.status().message();
    return state.ok() ? std::move(state).value() : SessionState{};
  }
};

TEST_P(StateBinding, AnOutputThatPutsNewRowsFirst) {
  Cache g;
  GraphValue* all = g.Join(g.fresh, g.past);
  const std::unique_ptr<Session> session = Make(g.Finish({all}));
  ASSERT_NE(session, nullptr);
  const Tensor buffer = Zeros(Shape{8, 2});
  SessionState state = Bind(*session, {.input = "past", .output = "all", .axis = 0, .buffer = buffer});
  for (int i = 1; i <= 4; ++i) {
    std::vector<Value> inputs = {Value(), Row(static_cast<float>(i))}, outputs(1);
    const Status status = session->RunWithState(state, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(state.bindings[0].spec.length, 4);
  EXPECT_THAT(Floats(state.bindings[0].value()), ElementsAre(4, 4, 3, 3, 2, 2, 1, 1));
  EXPECT_THAT(Floats(buffer), ElementsAre(4, 4, 3, 3, 2, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_P(StateBinding, AnOutputThatChangesThePastWhileOthersReadIt) {
  Cache g;
  GraphValue* twice = g.Op("Mul", {g.past, g.Const("two", Row(2))}, "twice");
  GraphValue* all = g.Join(twice, g.fresh);
  GraphValue* sum = g.Op("ReduceSum", {g.past}, "sum", {{"keepdims", int64_t{0}}});
  const std::unique_ptr<Session> session = Make(g.Finish({all, sum}));
  ASSERT_NE(session, nullptr);
  SessionState state = Bind(*session, {.input = "past", .output = "all", .axis = 0, .buffer = Zeros(Shape{8, 2})});
  double before = 0;
  for (int i = 0; i < 5; ++i) {
    std::vector<Value> inputs = {Value(), Row(1)}, outputs(2);
    ASSERT_TRUE(session->RunWithState(state, inputs, outputs).ok());
    ExpectNear(outputs[1], {before});
    before = 2 * before + 2;
  }
  EXPECT_THAT(Floats(state.bindings[0].value()), ElementsAre(16, 16, 8, 8, 4, 4, 2, 2, 1, 1));
}

TEST_P(StateBinding, TheCachesOfAttention) {
  GraphMaker g;
  const Dims row = {1, 1, 1, 2}, past = {1, 1, Dim::Symbol("p"), 2};
  GraphValue* q = g.In("q", DType::kF32, row);
  GraphValue* past_key = g.In("past_key", DType::kF32, past);
  GraphValue* past_value = g.In("past_value", DType::kF32, past);
  std::unique_ptr<Graph> graph = g.Finish({});
  graph->opset_imports[""] = 23;
  Node* attention = graph->AddNode({.name = "attention",
                                    .op_type = "Attention",
                                    .inputs = {q, q, q, nullptr, past_key, past_value},
                                    .outputs = {"y", "key", "value"}});
  for (int i = 0; i < 3; ++i) graph->AddOutput(attention->output(i));
  const std::unique_ptr<Session> session = Make(std::move(graph));
  ASSERT_NE(session, nullptr);
  const Tensor keys = Zeros(Shape{1, 1, 4, 2}), values = Zeros(Shape{1, 1, 4, 2});
  Result<SessionState> state =
      session->CreateState({{.input = "past_key", .output = "key", .axis = 2, .buffer = keys},
                            {.input = "past_value", .output = "value", .axis = 2, .buffer = values}});
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_TRUE(state->bindings[0].appends);
  EXPECT_TRUE(state->bindings[1].appends);
  for (int i = 1; i <= 3; ++i) {
    std::vector<Value> inputs = {Row(static_cast<float>(i)).Reshaped(Shape{1, 1, 1, 2}), Value(), Value()}, outputs(3);
    const Status status = session->RunWithState(*state, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_THAT(Floats(keys), ElementsAre(1, 1, 2, 2, 3, 3, 0, 0));
  EXPECT_THAT(Floats(values), ElementsAre(1, 1, 2, 2, 3, 3, 0, 0));
}

// With several heads and samples the rows of a cache lie apart in the buffer.
TEST_P(StateBinding, TheCachesOfAttentionOverHeads) {
  constexpr int64_t kBatch = 2, kHeads = 3, kRows = 2, kSize = 4, kCapacity = 12;
  const Dims row = {kBatch, kHeads, kRows, kSize}, past = {kBatch, kHeads, Dim::Symbol("p"), kSize};
  GraphMaker g;
  std::vector<GraphValue*> in;
  for (const char* name : {"q", "k", "v"}) in.push_back(g.In(name, DType::kF32, row));
  in.push_back(nullptr);
  for (const char* name : {"past_key", "past_value"}) in.push_back(g.In(name, DType::kF32, past));
  std::unique_ptr<Graph> graph = g.Finish({});
  graph->opset_imports[""] = 23;
  Node* attention = graph->AddNode({.name = "attention",
                                    .op_type = "Attention",
                                    .inputs = in,
                                    .outputs = {"y", "key", "value"},
                                    .attributes = {{"is_causal", int64_t{1}}}});
  for (int i = 0; i < 3; ++i) graph->AddOutput(attention->output(i));
  const std::unique_ptr<Session> session = Make(std::move(graph));
  ASSERT_NE(session, nullptr);
  const Shape capacity{kBatch, kHeads, kCapacity, kSize};
  Result<SessionState> state =
      session->CreateState({{.input = "past_key", .output = "key", .axis = 2, .buffer = Zeros(capacity)},
                            {.input = "past_value", .output = "value", .axis = 2, .buffer = Zeros(capacity)}});
  ASSERT_TRUE(state.ok()) << state.status().message();
  // Beside it the same steps with caches that are handed from run to run.
  Value key = Zeros(Shape{kBatch, kHeads, 0, kSize}), value = key;
  int drawn = 0;
  for (int step = 0; step < kCapacity / kRows; ++step) {
    std::vector<Value> inputs, outputs(3), handed(3);
    for (int i = 0; i < 3; ++i) {
      const Tensor t = Zeros(Shape{kBatch, kHeads, kRows, kSize});
      for (float& x : t.values<float>()) x = static_cast<float>(++drawn * 37 % 19 - 9) * 0.1f;
      inputs.emplace_back(t);
    }
    inputs.resize(5);
    const Status status = session->RunWithState(*state, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    inputs[3] = key;
    inputs[4] = value;
    const Status stateless = session->Run(inputs, handed);
    ASSERT_TRUE(stateless.ok()) << stateless.message();
    EXPECT_EQ(Floats(outputs[0]), Floats(handed[0]));
    key = handed[1];
    value = handed[2];
    EXPECT_EQ(Floats(state->bindings[0].value()), Floats(key));
    EXPECT_EQ(Floats(state->bindings[1].value()), Floats(value));
  }
}

// next = h + 1, y = -next.
std::unique_ptr<Graph> Counter() {
  GraphMaker g;
  GraphValue* h = g.In("h", DType::kF32, {1, 2});
  GraphValue* next = g.Op("Add", {h, g.Const("one", Row(1))}, "next");
  return g.Finish({next, g.Op("Neg", {next}, "y")});
}

TEST_P(StateBinding, AStateGoesOnWhenItsOutputIsNotWanted) {
  const std::unique_ptr<Session> session = Make(Counter());
  ASSERT_NE(session, nullptr);
  SessionState state = Bind(*session, {.input = "h", .output = "next", .buffer = Zeros(Shape{1, 2})});
  const uint8_t want[] = {0, 1};
  std::vector<Value> inputs(1), outputs(2);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        session->RunWithState(state, inputs, outputs, {.cancel = nullptr, .executor = nullptr, .want = want}).ok());
  }
  EXPECT_FALSE(outputs[0].has_value());
  EXPECT_THAT(Floats(outputs[1]), ElementsAre(-3, -3));
  EXPECT_THAT(Floats(state.bindings[0].value()), ElementsAre(3, 3));
}

INSTANTIATE_TEST_SUITE_P(Providers, StateBinding, testing::Values("cpu", "reference"));

TEST(StateChecks, AWiderExecutorIsRefused) {
  const std::unique_ptr<Session> session = MakeSession(Counter());
  ASSERT_NE(session, nullptr);
  Result<SessionState> state = session->CreateState({{.input = "h", .output = "next", .buffer = Zeros(Shape{1, 2})}});
  ASSERT_TRUE(state.ok());
  HostileExecutor wide(1, 8);
  std::vector<Value> inputs(1), outputs(2);
  const Status status =
      session->RunWithState(*state, inputs, outputs, {.cancel = nullptr, .executor = &wide, .want = {}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the session was made for 1"));
}

TEST(StateChecks, WantNeedsAnEntryPerOutput) {
  const std::unique_ptr<Session> session = MakeSession(Counter());
  ASSERT_NE(session, nullptr);
  const uint8_t want[] = {1};
  std::vector<Value> inputs = {Row(0)}, outputs(2);
  const Status status = session->Run(inputs, outputs, {.cancel = nullptr, .executor = nullptr, .want = want});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST(StateChecks, ErrorsNameTheState) {
  Cache g;
  GraphValue* all = g.Join(g.past, g.fresh);
  GraphValue* other = g.Op("Neg", {all}, "other");
  const std::unique_ptr<Session> session = MakeSession(g.Finish({all, other}));
  ASSERT_NE(session, nullptr);
  const auto message = [&](std::vector<StateSpec> specs) {
    const Result<SessionState> state = session->CreateState(std::move(specs));
    return state.ok() ? std::string("no error") : state.status().message();
  };
  const Tensor buffer = Zeros(Shape{8, 2});
  const StateSpec good = {.input = "past", .output = "all", .axis = 0, .buffer = buffer};
  const auto with = [&](auto change) {
    StateSpec spec = good;
    change(spec);
    return message({spec});
  };
  EXPECT_EQ(message({good}), "no error");
  EXPECT_THAT(with([](StateSpec& s) { s.input = "nothing"; }), HasSubstr("'nothing'"));
  EXPECT_THAT(with([](StateSpec& s) { s.output = "none"; }), HasSubstr("'none'"));
  EXPECT_THAT(with([](StateSpec& s) { s.axis = 2; }), HasSubstr("state 'past': axis 2"));
  EXPECT_THAT(with([](StateSpec& s) { s.axis = -2; }), HasSubstr("state 'past': axis -2"));
  EXPECT_THAT(with([](StateSpec& s) { s.length = 9; }), HasSubstr("capacity 8"));
  EXPECT_THAT(with([](StateSpec& s) { s.buffer = Zeros(Shape{8, 2, 1}); }), HasSubstr("rank 3"));
  EXPECT_THAT(with([](StateSpec& s) { s.buffer = Tensor::Allocate(DType::kF64, Shape{8, 2}).value(); }),
              HasSubstr("f64"));
  EXPECT_THAT(message({good, good}), HasSubstr("state 'past': another state has this input"));
  StateSpec same_output = good;
  same_output.input = "new";
  EXPECT_THAT(message({good, same_output}), HasSubstr("'all'"));
}

}  // namespace
}  // namespace quern
