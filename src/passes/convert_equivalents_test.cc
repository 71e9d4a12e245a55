#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

// The node of `line` over inputs of `types` after the pass: operator, operator set and axis.
std::string Converted(int opset, const std::string& types, const std::string& line) {
  const std::string text =
      "graph opset(\"\": " + std::to_string(opset) + ", \"com.microsoft\": 1) {\n" + types + line + "  return %y\n}\n";
  const std::unique_ptr<Graph> before = Parse(text), after = Parse(text);
  EXPECT_TRUE(InferShapes(*before).ok() && InferShapes(*after).ok());
  const auto reports = RunPasses(*after, {{FindNeutralPass("convert_equivalents")}}, {});
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  EXPECT_EQ(after->num_nodes(), 1);
  const Node* node = after->first_node();
  return node->domain() + node->op_type() + " " + std::to_string(node->opset()) + " axis " +
         std::to_string(node->GetInt("axis", 1));
}

TEST(ConvertEquivalents, FollowsTheModelUnlessItsSetLacksTheType) {
  const std::string quantize = "  %y = com.microsoft::QuantizeLinear(%x, %s, %z)\n";
  const std::string of_bytes = "  input %x: f32[2,3]\n  input %s: f32[]\n  input %z: u8[]\n";
  EXPECT_EQ(Converted(17, of_bytes, quantize), "QuantizeLinear 17 axis 1");
  EXPECT_EQ(Converted(11, of_bytes, quantize), "QuantizeLinear 13 axis 1");
  const std::string of_words = "  input %x: f32[2,3]\n  input %s: f32[2]\n  input %z: u16[2]\n";
  EXPECT_EQ(Converted(17, of_words, "  %y = com.microsoft::QuantizeLinear(%x, %s, %z) {axis = 0}\n"),
            "QuantizeLinear 21 axis 0");
  EXPECT_EQ(Converted(23, of_words, "  %y = com.microsoft::QuantizeLinear(%x, %s, %z) {axis = 0}\n"),
            "QuantizeLinear 23 axis 0");
  const std::string of_halves = "  input %x: i8[2,3]\n  input %s: f16[]\n  input %z: i8[]\n";
  EXPECT_EQ(Converted(17, of_halves, "  %y = com.microsoft::DequantizeLinear(%x, %s, %z)\n"),
            "DequantizeLinear 19 axis 1");
  const std::string of_images = "  input %x: f32[1,2,3,3]\n  input %g: f32[1,4,4,2]\n";
  EXPECT_EQ(Converted(12, of_images, "  %y = com.microsoft::GridSample(%x, %g)\n"), "GridSample 16 axis 1");
  EXPECT_EQ(Converted(12, of_images, "  %y = com.microsoft::Trilu(%x) {upper = 0}\n"), "Trilu 14 axis 1");
}

}  // namespace
}  // namespace quern
