// Steps whose shapes come with the run are planned once for each of them.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

// Sums of squares of the first lengths[i] elements of x, one for each step of a loop. Where a slice ends comes with the
// run, so nothing is known of what follows it.
constexpr char kSums[] =
    "graph opset(\"\": 17) {\n"
    "  input %x: f32[n]\n"
    "  input %lengths: i64[k]\n"
    "  input %steps: i64[]\n"
    "  input %go: bool[]\n"
    "  %sums: f32[k] = Loop(%steps, %go) captures(%x, %lengths) {\n"
    "    body = graph {\n"
    "      input %i: i64[]\n"
    "      input %on: bool[]\n"
    "      input %x: f32[n]\n"
    "      input %lengths: i64[k]\n"
    "      const %zero = i64[1] {0}\n"
    "      %length = Gather(%lengths, %i) {axis = 0}\n"
    "      %end = Unsqueeze(%length, %zero)\n"
    "      %part = Slice(%x, %zero, %end)\n"
    "      %square = Mul(%part, %part)\n"
    "      %sum = ReduceSum(%square) {keepdims = 0}\n"
    "      return %on, %sum\n"
    "    }\n"
    "  }\n"
    "  return %sums\n"
    "}\n";

void ExpectSums(Session& session, const std::vector<int64_t>& lengths) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7};
  const auto count = static_cast<int64_t>(lengths.size());
  std::vector<Value> y(1);
  const Status status = session.Run(
      std::vector<Value>{Tensor::FromValues<float>(Shape{7}, x), Tensor::FromValues<int64_t>(Shape{count}, lengths),
                         Tensor::Scalar(count), Tensor::Scalar(true)},
      y);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(y[0].tensor().shape(), Shape{count});
  for (size_t i = 0; i < lengths.size(); ++i) {
    float sum = 0;
    for (int64_t k = 0; k < lengths[i]; ++k) sum += x[static_cast<size_t>(k)] * x[static_cast<size_t>(k)];
    EXPECT_EQ(y[0].tensor().data<float>()[i], sum) << "step " << i;
  }
}

TEST(DynamicPlans, ServeStepsOfTheSameShapes) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph(kSums);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const std::unique_ptr<Session> session = MakeSession(std::move(graph).value());
  ASSERT_TRUE(session);
  ExpectSums(*session, {3, 3});
  const int64_t before = session->plans_built();
  ExpectSums(*session, {3, 3});  // in the same session plan
  EXPECT_EQ(session->plans_built(), before);
  ExpectSums(*session, {3, 5});
  EXPECT_EQ(session->plans_built(), before + 1);
  ExpectSums(*session, {3, 5, 5, 0, 0, 7, 3});
  const int64_t all = session->plans_built();
  ExpectSums(*session, {7, 0, 0, 3, 5, 7, 5});  // whatever comes between them
  EXPECT_EQ(session->plans_built(), all);
}

// Lengths that come round and round, more than plans are kept, find some of them.
TEST(DynamicPlans, RoundAndRound) {
  SessionOptions options;
  options.plan_cache_size = 1;  // four of steps
  const std::unique_ptr<Session> session = MakeSession(ParseGraph(kSums).value(), options);
  ASSERT_TRUE(session);
  const std::vector<int64_t> lengths = {0, 1, 2, 3, 4};
  ExpectSums(*session, lengths);
  const int64_t before = session->plans_built();
  for (int i = 0; i < 10; ++i) ExpectSums(*session, lengths);
  EXPECT_LT(session->plans_built(), before + 45);  // of 50
}

TEST(DynamicPlans, FourTimesAsManyAsTheSessionKeeps) {
  SessionOptions options;
  options.plan_cache_size = 1;
  const std::unique_ptr<Session> session = MakeSession(ParseGraph(kSums).value(), options);
  ASSERT_TRUE(session);
  ExpectSums(*session, {1, 2, 3, 4});
  const int64_t before = session->plans_built();
  ExpectSums(*session, {4, 3, 2, 1});
  EXPECT_EQ(session->plans_built(), before);
  ExpectSums(*session, {5, 1, 1, 1});  // in the place of that for 3 or 4
  EXPECT_EQ(session->plans_built(), before + 1);
  ExpectSums(*session, {2, 4, 3, 2});
  EXPECT_GT(session->plans_built(), before + 1);
}

// Exporters declare what the first iteration has, of the state and of what is computed from it.
TEST(DynamicPlans, LoopsOutgrowWhatIsDeclared) {
  constexpr char kGrowing[] =
      "graph opset(\"\": 17) {\n"
      "  input %start: f32[0,2]\n"
      "  input %row: f32[1,2]\n"
      "  input %steps: i64[]\n"
      "  input %go: bool[]\n"
      "  %all: f32[n,2] = Loop(%steps, %go, %start) captures(%row) {\n"
      "    body = graph {\n"
      "      input %i: i64[]\n"
      "      input %on: bool[]\n"
      "      input %state: f32[0,2]\n"
      "      input %row: f32[1,2]\n"
      "      const %zero = i64[] {0}\n"
      "      %next: f32[1,2] = Concat(%state, %row) {axis = 0}\n"
      "      %shape: i64[2] = Shape(%next)\n"
      "      %count: i64[] = Gather(%shape, %zero) {axis = 0}\n"
      "      %number: f32[] = Cast(%count) {to = 1}\n"
      "      %scaled: f32[1,2] = Mul(%next, %number)\n"
      "      return %on, %scaled\n"
      "    }\n"
      "  }\n"
      "  return %all\n"
      "}\n";
  for (const char* provider : {"cpu", "reference"}) {
    Result<std::unique_ptr<Graph>> graph = ParseGraph(kGrowing);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    SessionOptions options;
    options.providers = {provider};
    const std::unique_ptr<Session> session = MakeSession(std::move(graph).value(), options);
    ASSERT_TRUE(session) << provider;
    std::vector<Value> y(1);
    const std::vector<float> row = {1, 10};
    const Status status =
        session->Run(std::vector<Value>{Zeros(Shape{0, 2}), Tensor::FromValues<float>(Shape{1, 2}, row),
                                        Tensor::Scalar(int64_t{3}), Tensor::Scalar(true)},
                     y);
    ASSERT_TRUE(status.ok()) << provider << ": " << status.message();
    ASSERT_EQ(y[0].tensor().shape(), (Shape{3, 2}));
    const std::span<float> values = y[0].tensor().values<float>();
    // Rows were scaled by 1, 2 and 3, from the one on that brought them.
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{6, 60, 6, 60, 3, 30})) << provider;
  }
}

}  // namespace
}  // namespace quern
