#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

template <typename T>
Tensor Drawn(const Shape& shape, unsigned seed, int low, int high) {
  const Tensor t = Tensor::Allocate(DTypeOf<T>::value, shape).value();
  std::mt19937 random(seed);
  for (T& v : t.values<T>()) v = static_cast<T>(low + static_cast<int>(random() % static_cast<unsigned>(high - low)));
  return t;
}

// How many nodes of the operator the pass makes of one that has the optional inputs named, after a look at its results.
int CountAfter(const char* op_type, bool segments, bool mask, const char* length) {
  const std::string ids = std::string("i32[2,") + length + "]\n";
  const std::string text = "graph opset(\"\": 17, \"com.microsoft\": 1) {\n  input %w: " + ids + "  input %g: " + ids +
                           "  input %m: " + ids +
                           "  input %t: u8[9,6]\n  input %p: u8[7,6]\n  input %e: u8[2,6]\n  input %v: u8[6]\n"
                           "  const %s = f32[] {0.03}\n  const %z = u8[] {120}\n"
                           "  %y, %c = com.microsoft::QEmbedLayerNormalization(%w, " +
                           (segments ? "%g" : "_") + ", %t, %p, " + (segments ? "%e" : "_") + ", %v, %v, " +
                           (mask ? "%m" : "_") + ", %s, %s, " + (segments ? "%s" : "_") + ", %s, %s, %z, %z, " +
                           (segments ? "%z" : "_") + ", %z, %z)\n  return %y, %c\n}\n";
  const std::unique_ptr<Graph> before = Parse(text), after = Parse(text);
  EXPECT_TRUE(InferShapes(*before).ok() && InferShapes(*after).ok());
  const auto reports = RunPasses(*after, {{FindNeutralPass("split_quantized_embedding")}}, {});
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  const std::vector<Value> inputs = {Drawn<int32_t>(Shape{2, 5}, 1, 0, 9),   Drawn<int32_t>(Shape{2, 5}, 2, 0, 2),
                                     Drawn<int32_t>(Shape{2, 5}, 3, 0, 2),   Drawn<uint8_t>(Shape{9, 6}, 4, 0, 256),
                                     Drawn<uint8_t>(Shape{7, 6}, 5, 0, 256), Drawn<uint8_t>(Shape{2, 6}, 6, 0, 256),
                                     Drawn<uint8_t>(Shape{6}, 7, 0, 256)};
  const auto expected = EvaluateGraph(*before, inputs), actual = EvaluateGraph(*after, inputs);
  EXPECT_TRUE(expected.ok() && actual.ok());
  const Tensor &e = (*expected)[0].tensor(), &a = (*actual)[0].tensor();
  EXPECT_EQ(a.shape(), e.shape());
  for (int64_t i = 0; i < e.num_elements(); ++i) EXPECT_NEAR(a.data<float>()[i], e.data<float>()[i], 1e-4);
  for (int n = 0; n < 2; ++n) {
    EXPECT_EQ((*actual)[1].tensor().data<int32_t>()[n], (*expected)[1].tensor().data<int32_t>()[n]);
  }
  int count = 0;
  for (const Node* n : after->nodes()) count += n->Is(op_type);
  return count;
}

TEST(SplitQuantizedEmbedding, ReadsRowsOfBytes) {
  EXPECT_EQ(CountAfter("Gather", true, true, "5"), 2);
  EXPECT_EQ(CountAfter("Gather", false, false, "5"), 1);
  EXPECT_EQ(CountAfter("Shape", true, false, "5"), 0);
  EXPECT_EQ(CountAfter("Shape", false, true, "n"), 1);
  EXPECT_EQ(CountAfter("LayerNormalization", true, true, "n"), 1);
}

TEST(SplitQuantizedEmbedding, NotWhereOneRowOfPositionsWouldBroadcast) {
  const std::unique_ptr<Graph> graph = Parse(
      "graph opset(\"\": 17, \"com.microsoft\": 1) {\n  input %w: i32[2,n]\n  input %t: u8[9,6]\n  input %p: u8[1,6]\n"
      "  input %v: u8[6]\n  const %s = f32[] {0.03}\n  const %z = u8[] {120}\n"
      "  %y = com.microsoft::QEmbedLayerNormalization(%w, _, %t, %p, _, %v, %v, _, %s, %s, _, %s, %s, %z, %z, _, %z, "
      "%z)\n"
      "  return %y\n}\n");
  ASSERT_TRUE(InferShapes(*graph).ok());
  ASSERT_TRUE(RunPasses(*graph, {{FindNeutralPass("split_quantized_embedding")}}, {}).ok());
  EXPECT_EQ(graph->num_nodes(), 1);
}

}  // namespace
}  // namespace quern
