// Bound state: cached attention over a growing past, and recurrent state of fixed shape.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "session/test_graphs.h"

namespace quern {
namespace {

using testing::HasSubstr;

constexpr int64_t kB = 1, kH = 2, kD = 4, kCapacity = 208;
constexpr float kCanary = -77;

// y = softmax(q K^T / 2 + mask) V with K = Concat(past_k, k), V = Concat(past_v, v), all [B, H, T, D].
std::unique_ptr<Graph> Attention(bool with_mask) {
  GraphMaker g;
  const Dims row = {kB, kH, Dim::Symbol("new"), kD}, past = {kB, kH, Dim::Symbol("past"), kD};
  GraphValue* q = g.In("q", DType::kF32, row);
  GraphValue* k = g.In("k", DType::kF32, row);
  GraphValue* v = g.In("v", DType::kF32, row);
  GraphValue* past_k = g.In("past_k", DType::kF32, past);
  GraphValue* past_v = g.In("past_v", DType::kF32, past);
  GraphValue* mask = with_mask ? g.In("mask", DType::kF32, {kB, 1, Dim::Symbol("new"), Dim::Symbol("total")}) : nullptr;
  GraphValue* all_k = g.Op("Concat", {past_k, k}, "all_k", {{"axis", int64_t{2}}});
  GraphValue* all_v = g.Op("Concat", {past_v, v}, "all_v", {{"axis", int64_t{2}}});
  GraphValue* turned = g.Op("Transpose", {all_k}, "turned", {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  GraphValue* scores = g.Op("MatMul", {q, turned}, "scores");
  scores = g.Op("Mul", {scores, g.Const("half", Tensor::Scalar<float>(0.5f))}, "scaled");
  if (mask) scores = g.Op("Add", {scores, mask}, "masked");
  GraphValue* p = g.Op("Softmax", {scores}, "p", {{"axis", int64_t{-1}}});
  return g.Finish({g.Op("MatMul", {p, all_v}, "y"), all_k, all_v});
}

// Keys or values so far, [T][H][D] in the order in which they came.
using Rows = std::vector<std::vector<float>>;

std::vector<double> Oracle(const Tensor& q, const Rows& k, const Rows& v, const std::vector<float>& mask) {
  std::vector<double> y;
  for (int64_t h = 0; h < kH; ++h) {
    std::vector<double> weight(k.size());
    double sum = 0;
    for (size_t t = 0; t < k.size(); ++t) {
      double dot = 0;
      for (int64_t d = 0; d < kD; ++d) dot += static_cast<double>(q.data<float>()[h * kD + d]) * k[t][h * kD + d];
      weight[t] = std::exp(0.5 * dot + (mask.empty() ? 0 : mask[t]));
      sum += weight[t];
    }
    for (int64_t d = 0; d < kD; ++d) {
      double value = 0;
      for (size_t t = 0; t < k.size(); ++t) value += weight[t] / sum * v[t][h * kD + d];
      y.push_back(value);
    }
  }
  return y;
}

Tensor Canaries() {
  Tensor t = Tensor::Allocate(DType::kF32, Shape{kB, kH, kCapacity, kD}).value();
  for (float& f : t.values<float>()) f = kCanary;
  return t;
}

// Every element of the buffer is the row that came, or a canary beyond them.
void ExpectHolds(const Tensor& buffer, const Rows& rows) {
  for (int64_t h = 0; h < kH; ++h) {
    for (int64_t t = 0; t < kCapacity; ++t) {
      for (int64_t d = 0; d < kD; ++d) {
        const float expected = t < static_cast<int64_t>(rows.size()) ? rows[t][h * kD + d] : kCanary;
        ASSERT_EQ(buffer.data<float>()[(h * kCapacity + t) * kD + d], expected) << "head " << h << " row " << t;
      }
    }
  }
}

class CachedAttention : public testing::TestWithParam<bool> {};

TEST_P(CachedAttention, GrowsTwoHundredStepsInPlace) {
  const bool with_mask = GetParam();
  const std::unique_ptr<Session> session = MakeSession(Attention(with_mask));
  ASSERT_NE(session, nullptr);
  const Tensor keys = Canaries(), values = Canaries();
  Result<SessionState> state =
      session->CreateState({{.input = "past_k", .output = "all_k", .axis = 2, .buffer = keys, .length = 0},
                            {.input = "past_v", .output = "all_v", .axis = 2, .buffer = values, .length = 0}});
  ASSERT_TRUE(state.ok()) << state.status().message();
  Rows k_rows, v_rows;
  for (unsigned step = 0; step < 200; ++step) {
    SCOPED_TRACE(step);
    const Shape row{kB, kH, 1, kD};
    const Tensor q = DrawFloats(row, 3 * step), k = DrawFloats(row, 3 * step + 1), v = DrawFloats(row, 3 * step + 2);
    k_rows.emplace_back(k.values<float>().begin(), k.values<float>().end());
    v_rows.emplace_back(v.values<float>().begin(), v.values<float>().end());
    std::vector<Value> inputs = {q, k, v, Value(), Value()}, outputs(3);
    std::vector<float> mask;
    if (with_mask) {
      const Tensor m = DrawFloats(Shape{kB, 1, 1, static_cast<int64_t>(step) + 1}, 1000 + step);
      mask.assign(m.values<float>().begin(), m.values<float>().end());
      inputs.emplace_back(m);
    }
    const Status status = session->RunWithState(*state, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(state->bindings[0].spec.length, step + 1);
    if (step % 7 == 0 || step > 195) {
      ExpectNear(outputs[0], Oracle(q, k_rows, v_rows, mask), 1e-5);
      ExpectHolds(keys, k_rows);
      ExpectHolds(values, v_rows);
    }
  }
  EXPECT_LE(session->plans_built(), 2);
}

INSTANTIATE_TEST_SUITE_P(Mask, CachedAttention, testing::Bool());

// The pages of the past rows are closed to writing during the step.
TEST(SessionState, AStepWritesItsNewRowsOnly) {
  GraphMaker g;
  const auto row = static_cast<int64_t>(sysconf(_SC_PAGESIZE) / sizeof(float));  // a row is a page
  GraphValue* past = g.In("past", DType::kF32, {Dim::Symbol("p"), row});
  GraphValue* fresh = g.In("new", DType::kF32, {Dim::Symbol("n"), row});
  GraphValue* all = g.Op("Concat", {past, fresh}, "all", {{"axis", int64_t{-2}}});
  const std::unique_ptr<Session> session =
      MakeSession(g.Finish({all, g.Op("ReduceSum", {past}, "sum", {{"keepdims", int64_t{0}}})}));
  ASSERT_NE(session, nullptr);
  constexpr int64_t kRows = 8, kFilled = 5;
  const size_t page = static_cast<size_t>(row) * sizeof(float);
  void* memory = mmap(nullptr, kRows * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const rows = static_cast<float*>(memory);
  for (int64_t i = 0; i < kFilled * row; ++i) rows[i] = 1;
  const Tensor buffer = Tensor::Wrap(DType::kF32, Shape{kRows, row}, memory);
  Result<SessionState> state =
      session->CreateState({{.input = "past", .output = "all", .axis = 0, .buffer = buffer, .length = kFilled}});
  ASSERT_TRUE(state.ok()) << state.status().message();
  ASSERT_EQ(mprotect(memory, kFilled * page, PROT_READ), 0);
  const Tensor two = DrawFloats(Shape{2, row}, 3);
  std::vector<Value> inputs = {Value(), two}, outputs(2);
  const Status status = session->RunWithState(*state, inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(state->bindings[0].spec.length, 7);
  ExpectNear(outputs[1], {static_cast<double>(kFilled * row)});
  for (int64_t i = 0; i < 2 * row; ++i) ASSERT_EQ(rows[kFilled * row + i], two.data<float>()[i]);
  for (int64_t i = 7 * row; i < kRows * row; ++i) ASSERT_EQ(rows[i], 0);
  munmap(memory, kRows * page);
}

TEST(SessionState, BeyondTheCapacityNothingChanges) {
  const std::unique_ptr<Session> session = MakeSession(Attention(false));
  ASSERT_NE(session, nullptr);
  const Tensor keys = Canaries(), values = Canaries();
  Result<SessionState> state =
      session->CreateState({{.input = "past_k", .output = "all_k", .axis = 2, .buffer = keys, .length = kCapacity},
                            {.input = "past_v", .output = "all_v", .axis = 2, .buffer = values, .length = kCapacity}});
  ASSERT_TRUE(state.ok());
  const Tensor row = DrawFloats(Shape{kB, kH, 1, kD}, 1);
  std::vector<Value> inputs = {row, row, row, Value(), Value()}, outputs(3);
  const Status status = session->RunWithState(*state, inputs, outputs);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("past_k"));
  EXPECT_THAT(status.message(), HasSubstr("208"));
  EXPECT_EQ(state->bindings[0].spec.length, kCapacity);
  EXPECT_EQ(state->bindings[1].spec.length, kCapacity);
  ExpectHolds(keys, {});
  ExpectHolds(values, {});
}

// h' = tanh(x + W h): the state keeps its shape.
TEST(SessionState, RecurrentStateKeepsItsShape) {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {1, 3});
  GraphValue* h = g.In("h", DType::kF32, {1, 3});
  const Tensor w = DrawFloats(Shape{3, 3}, 5);
  GraphValue* wh = g.Op("MatMul", {h, g.Const("w", w)}, "wh");
  GraphValue* next = g.Op("Tanh", {g.Op("Add", {x, wh}, "sum")}, "next");
  const std::unique_ptr<Session> session = MakeSession(g.Finish({next, g.Op("Neg", {next}, "y")}));
  ASSERT_NE(session, nullptr);
  const Tensor buffer = Zeros(Shape{1, 3});
  Result<SessionState> state = session->CreateState({{.input = "h", .output = "next", .axis = -1, .buffer = buffer}});
  ASSERT_TRUE(state.ok());
  std::vector<double> expected(3, 0.0);
  for (unsigned step = 0; step < 20; ++step) {
    const Tensor in = DrawFloats(Shape{1, 3}, 50 + step);
    std::vector<double> sum(3);
    for (int j = 0; j < 3; ++j) {
      sum[j] = in.data<float>()[j];
      for (int i = 0; i < 3; ++i) sum[j] += expected[i] * w.data<float>()[i * 3 + j];
    }
    for (int j = 0; j < 3; ++j) expected[j] = std::tanh(sum[j]);
    std::vector<Value> inputs = {in, Value()}, outputs(2);
    const Status status = session->RunWithState(*state, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectNear(state->bindings[0].value(), expected, 1e-4);
    ExpectNear(outputs[1], {-expected[0], -expected[1], -expected[2]}, 1e-4);
  }
  EXPECT_EQ(session->plans_built(), 1);
}

// At three rows the extent of `x` looks like that of the state; planned with it, the graph would not fit together.
TEST(SessionState, AnExtentThatHasTheStatesLengthByChance) {
  GraphMaker g;
  GraphValue* past = g.In("past", DType::kF32, {Dim::Symbol("p"), 2});
  GraphValue* row = g.In("row", DType::kF32, {1, 2});
  GraphValue* x = g.In("x", DType::kF32, {Dim::Symbol("m")});
  const std::vector<float> three = {1, 2, 3};
  GraphValue* y = g.Op("Add", {x, g.Const("three", Tensor::FromValues<float>(Shape{3}, three))}, "y");
  GraphValue* all = g.Op("Concat", {past, row}, "all", {{"axis", int64_t{0}}});
  const std::unique_ptr<Session> session = MakeSession(g.Finish({y, all}));
  ASSERT_NE(session, nullptr);
  const Tensor buffer = Zeros(Shape{8, 2});
  Result<SessionState> state = session->CreateState({{.input = "past", .output = "all", .axis = 0, .buffer = buffer}});
  ASSERT_TRUE(state.ok());
  for (unsigned step = 0; step < 8; ++step) {
    const Tensor in = DrawFloats(Shape{1, 2}, step);
    std::vector<Value> inputs = {Value(), in, Tensor::FromValues<float>(Shape{3}, three)}, outputs(2);
    const Status status = session->RunWithState(*state, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectNear(outputs[0], {2, 4, 6});
    EXPECT_EQ(buffer.data<float>()[step * 2], in.data<float>()[0]);
    EXPECT_EQ(buffer.data<float>()[step * 2 + 1], in.data<float>()[1]);
  }
}

}  // namespace
}  // namespace quern
