#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

const std::string kTable = "  const %w = i8[3,4] {-100, 1, 2, 3, 4, 50, 6, 7, 8, 9, 10, 120}\n";

// The operators of the lines, after and before which their result %y of the i64 input %i is the same.
std::string Operators(const std::string& lines, const std::vector<int64_t>& ids, const char* opset = "21") {
  const std::string type = ids.size() == 1 ? "i64[]" : "i64[1," + std::to_string(ids.size()) + "]";
  const std::string text =
      std::string("graph opset(\"\": ") + opset + ") {\n  input %i: " + type + "\n" + lines + "  return %y\n}\n";
  const std::unique_ptr<Graph> before = Parse(text), after = Parse(text);
  EXPECT_TRUE(InferShapes(*before).ok() && InferShapes(*after).ok());
  const auto reports =
      RunPasses(*after, {{FindNeutralPass("gather_before_dequantizing"), FindNeutralPass("eliminate_dead_code")}}, {});
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  EXPECT_TRUE(InferShapes(*after).ok());
  Tensor indices = Tensor::FromValues<int64_t>(Shape{1, static_cast<int64_t>(ids.size())}, ids);
  if (ids.size() == 1) indices = Tensor::Scalar(ids[0]);
  const auto expected = EvaluateGraph(*before, std::vector<Value>{indices}),
             actual = EvaluateGraph(*after, std::vector<Value>{indices});
  EXPECT_TRUE(expected.ok() && actual.ok());
  const Tensor &e = (*expected)[0].tensor(), &a = (*actual)[0].tensor();
  EXPECT_EQ(a.shape(), e.shape());
  EXPECT_TRUE(std::equal(e.values<float>().begin(), e.values<float>().end(), a.values<float>().begin()));
  std::string operators;
  for (const Node* n : after->nodes()) operators += (operators.empty() ? "" : " ") + n->op_type();
  return operators;
}

TEST(GatherBeforeDequantizing, ChoosesAmongStoredIntegers) {
  const char* moved = "Gather DequantizeLinear";
  const std::string one = kTable + "  const %s = f32[] {0.5}\n  const %z = i8[] {7}\n";
  EXPECT_EQ(Operators(one + "  %d = DequantizeLinear(%w, %s, %z)\n  %y = Gather(%d, %i)\n", {2, 0}), moved);
  EXPECT_EQ(Operators(one + "  %d = DequantizeLinear(%w, %s)\n  %y = Gather(%d, %i) {axis = -1}\n", {3}), moved);
  // Scales of an axis before and behind that of Gather.
  const std::string rows = kTable + "  const %s = f32[3] {0.5, 2, 3}\n  const %z = i8[3] {7, -3, 0}\n";
  const std::string columns = kTable + "  const %s = f32[4] {0.5, 2, 3, -1}\n  const %z = i8[4] {7, -3, 0, 5}\n";
  const std::string of_rows = "  %d = DequantizeLinear(%w, %s, %z) {axis = 0}\n";
  const std::string of_columns = "  %d = DequantizeLinear(%w, %s, %z) {axis = -1}\n";
  EXPECT_EQ(Operators(rows + of_rows + "  %y = Gather(%d, %i) {axis = 1}\n", {1, -1}), moved);
  EXPECT_EQ(Operators(columns + of_columns + "  %y = Gather(%d, %i)\n", {1, 2}), moved);
  EXPECT_EQ(Operators(columns + of_columns + "  %y = Gather(%d, %i)\n", {1}), moved);
  // Of its own axis: one index chooses a scale, too.
  EXPECT_EQ(Operators(rows + of_rows + "  %y = Gather(%d, %i)\n", {1}), "Gather Gather Gather DequantizeLinear");
  EXPECT_EQ(Operators(rows + of_rows + "  %y = Gather(%d, %i)\n", {1, 0}), "DequantizeLinear Gather");
}

TEST(GatherBeforeDequantizing, GathersScalesOfBlocks) {
  const std::string blocks =
      kTable + "  const %s = f32[3,2] {0.5, 2, 3, 4, 5, 6}\n  const %z = i8[3,2] {1, 2, 3, 4, 5, 6}\n";
  const std::string dequantized = "  %d = DequantizeLinear(%w, %s, %z) {axis = 1, block_size = 2}\n";
  EXPECT_EQ(Operators(blocks + dequantized + "  %y = Gather(%d, %i)\n", {2, 1}),
            "Gather Gather Gather DequantizeLinear");
  EXPECT_EQ(Operators(blocks + dequantized + "  %y = Gather(%d, %i)\n", {2}), "Gather Gather Gather DequantizeLinear");
  EXPECT_EQ(Operators(blocks + dequantized + "  %y = Gather(%d, %i) {axis = 1}\n", {2, 1}), "DequantizeLinear Gather");
}

// More rows than the table has are dequantized once; so are tables whose size only a run tells.
TEST(GatherBeforeDequantizing, LeavesTablesThatAreSmaller) {
  const std::string one = kTable + "  const %s = f32[] {0.5}\n";
  EXPECT_EQ(Operators(one + "  %d = DequantizeLinear(%w, %s)\n  %y = Gather(%d, %i)\n", {0, 1, 2, 1}),
            "DequantizeLinear Gather");
  EXPECT_EQ(After({"gather_before_dequantizing"},
                  "  input %w: i8[n,4]\n  input %i: i64[2]\n  const %s = f32[] {0.5}\n"
                  "  %d: f32[n,4] = DequantizeLinear(%w, %s)\n  %y: f32[2,4] = Gather(%d, %i)\n  return %y\n"),
            "  input %w: i8[n,4]\n  input %i: i64[2]\n  const %s = f32[] {0.5}\n"
            "  %d: f32[n,4] = DequantizeLinear(%w, %s)\n  %y: f32[2,4] = Gather(%d, %i)\n  return %y\n");
}

}  // namespace
}  // namespace quern
