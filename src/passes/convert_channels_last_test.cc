#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

Tensor DrawBytes(const Shape& shape, unsigned seed) {
  const Tensor t = Tensor::Allocate(DType::kU8, shape).value();
  std::mt19937 random(seed);
  for (uint8_t& v : t.values<uint8_t>()) v = static_cast<uint8_t>(random());
  return t;
}

// The operators that the pass makes of lines whose result is %y of the u8 input %x, after a look at its results.
std::vector<std::string> Converted(const std::string& lines, const Shape& x) {
  const std::string text = "graph opset(\"\": 17, \"com.microsoft\": 1) {\n  input %x: u8" + x.ToString() + "\n" +
                           lines + "  return %y\n}\n";
  const std::unique_ptr<Graph> before = Parse(text), after = Parse(text);
  EXPECT_TRUE(InferShapes(*before).ok() && InferShapes(*after).ok());
  const auto reports = RunPasses(*after, {{FindNeutralPass("convert_channels_last")}}, {});
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  const std::vector<Value> inputs = {DrawBytes(x, 1)};
  const auto expected = EvaluateGraph(*before, inputs), actual = EvaluateGraph(*after, inputs);
  EXPECT_TRUE(expected.ok() && actual.ok());
  const Tensor &e = (*expected)[0].tensor(), &a = (*actual)[0].tensor();
  EXPECT_EQ(a.shape(), e.shape());
  EXPECT_TRUE(std::equal(e.values<uint8_t>().begin(), e.values<uint8_t>().end(), a.values<uint8_t>().begin()));
  std::vector<std::string> operators;
  for (const Node* n : after->nodes()) operators.push_back(n->domain() + n->op_type());
  return operators;
}

TEST(ConvertChannelsLast, TransposesWhatItComputes) {
  const std::string numbers =
      "  const %s = f32[] {0.5}\n  const %z = u8[] {100}\n  const %wz = i8[] {0}\n"
      "  const %w = i8[2,3,1,2] {1, -2, 3, 4, -5, 6, 7, 8, -9, 10, 11, -12}\n";
  const std::string conv = "  %y = com.microsoft::QLinearConv(%x, %s, %z, %w, %s, %wz, %s, %z)";
  using Names = std::vector<std::string>;
  const Names between = {"Transpose", "QLinearConv", "Transpose"};
  EXPECT_EQ(Converted(numbers + conv + " {channels_last = 1, pads = [0, 1, 0, 0]}\n", Shape{2, 4, 5, 3}), between);
  EXPECT_EQ(Converted(numbers + conv + "\n", Shape{2, 3, 4, 5}), Names{"QLinearConv"});
  EXPECT_EQ(
      Converted("  %y = com.microsoft::NhwcMaxPool(%x) {kernel_shape = [2, 3], ceil_mode = 1, strides = [2, 2]}\n",
                Shape{2, 5, 6, 3}),
      (Names{"Transpose", "MaxPool", "Transpose"}));
}

}  // namespace
}  // namespace quern
