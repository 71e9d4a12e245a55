// Scan in its forms before and from operator set 9; expected values by hand.
#include <gmock/gmock.h>

#include "ops/common/graph_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using F = std::vector<float>;

Value Floats(const Shape& shape, const F& values) {
  return Tensor::FromValues<float>(shape, std::span<const float>(values));
}
Value Lengths(const std::vector<int64_t>& values) {
  return Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int64_t>(values));
}
std::vector<Value> Outputs(const std::string& text, const std::vector<Value>& inputs) {
  const Result<std::vector<Value>> outputs = RunGraph(text, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? *outputs : std::vector<Value>(8);
}

// Running sums of x, from a start; `attributes` go to the node.
std::string Sums(const std::string& attributes, int opset = 11, const std::string& start = "f32[2]",
                 const std::string& x = "f32[t,2]") {
  return "graph opset(\"\": " + std::to_string(opset) + ") { input %start: " + start + " input %x: " + x +
         " %last, %all = Scan(%start, %x) {num_scan_inputs = 1, " + attributes +
         "body = graph { input %sum: f32[2] input %step: f32[2] %next = Add(%sum, %step) %out = Identity(%next)"
         " return %next, %out } } return %last, %all }";
}

TEST(Scan, CarriesAStateAndCollects) {
  for (int opset : {9, 11, 16, 19, 21, 25}) {
    const auto y = Outputs(Sums("", opset), {Floats({2}, {0, 100}), Floats({3, 2}, {1, 2, 3, 4, 5, 6})});
    EXPECT_EQ(ValuesOf<float>(y[0]), (F{9, 112}));
    EXPECT_EQ(y[1].tensor().shape(), (Shape{3, 2}));
    EXPECT_EQ(ValuesOf<float>(y[1]), (F{1, 102, 4, 106, 9, 112}));
  }
  EXPECT_EQ(InferredType(Sums("")), "f32[2]");
  EXPECT_EQ(InferredType(Sums(""), 1), "f32[t,2]");
}

TEST(Scan, AxesAndDirections) {
  const Value start = Floats({2}, {0, 0}), columns = Floats({2, 3}, {1, 3, 5, 2, 4, 6});
  const std::string axis = "scan_input_axes = [-1], ";
  const auto forward = Outputs(Sums(axis, 11, "f32[2]", "f32[2,t]"), {start, columns});
  EXPECT_EQ(ValuesOf<float>(forward[1]), (F{1, 2, 4, 6, 9, 12}));
  const auto backward =
      Outputs(Sums(axis + "scan_input_directions = [1], ", 11, "f32[2]", "f32[2,t]"), {start, columns});
  EXPECT_EQ(ValuesOf<float>(backward[1]), (F{5, 6, 8, 10, 9, 12}));
  const auto prepended =
      Outputs(Sums(axis + "scan_output_directions = [1], ", 11, "f32[2]", "f32[2,t]"), {start, columns});
  EXPECT_EQ(ValuesOf<float>(prepended[1]), (F{9, 12, 4, 6, 1, 2}));
  const std::string stacked = axis + "scan_output_axes = [1], ";
  const auto rows = Outputs(Sums(stacked, 11, "f32[2]", "f32[2,t]"), {start, columns});
  EXPECT_EQ(rows[1].tensor().shape(), (Shape{2, 3}));
  EXPECT_EQ(ValuesOf<float>(rows[1]), (F{1, 4, 9, 2, 6, 12}));
  EXPECT_EQ(InferredType(Sums(stacked, 11, "f32[2]", "f32[2,t]"), 1), "f32[2,t]");
}

// Two inputs of other types, one read backwards, no state; strings and 4-bit integers, too.
TEST(Scan, SeveralInputsOfAnyType) {
  const std::string text = R"(graph opset("": 23) {
    input %a: string[t]
    input %b: string[t]
    input %c: i4[3,t]
    %y, %z = Scan(%a, %b, %c) {num_scan_inputs = 3, scan_input_axes = [0, 0, 1], scan_input_directions = [0, 1, 0],
      body = graph {
        input %p: string[] input %q: string[] input %r: i4[3]
        %s = StringConcat(%p, %q)
        %k = Identity(%r)
        return %s, %k
      }
    }
    return %y, %z
  })";
  const Tensor nibbles = Tensor::Allocate(DType::kI4, Shape{3, 2}).value();  // rows 1 2, 3 4, 5 6
  const uint8_t bytes[] = {0x21, 0x43, 0x65};
  std::copy(std::begin(bytes), std::end(bytes), static_cast<uint8_t*>(nibbles.raw_data()));
  const Value a = StringTensor{Shape{2}, {"a", "b"}}, b = StringTensor{Shape{2}, {"x", "y"}};
  const auto y = Outputs(text, {a, b, nibbles});
  EXPECT_THAT(y[0].strings().values, ElementsAre("ay", "bx"));
  EXPECT_EQ(y[1].tensor().shape(), (Shape{2, 3}));  // rows 1 3 5, 2 4 6
  const auto* packed = static_cast<const uint8_t*>(y[1].tensor().raw_data());
  EXPECT_THAT(std::vector<uint8_t>(packed, packed + 3), ElementsAre(0x31, 0x25, 0x64));
}

TEST(Scan, WithoutSteps) {
  const auto y = Outputs(Sums(""), {Floats({2}, {7, 8}), Floats({0, 2}, {})});
  EXPECT_EQ(ValuesOf<float>(y[0]), (F{7, 8}));
  EXPECT_EQ(y[1].tensor().shape(), (Shape{0, 2}));
}

TEST(Scan, Errors) {
  const Value start = Floats({2}, {0, 0}), x = Floats({1, 2}, {1, 2});
  const auto error = [&](const std::string& attributes) { return GraphError(Sums(attributes), {start, x}); };
  EXPECT_THAT(error("scan_input_axes = [2], "), HasSubstr("axis 2 is outside [-2, 1]"));
  EXPECT_THAT(error("scan_output_axes = [-3], "), HasSubstr("axis -3 is outside"));
  EXPECT_THAT(error("scan_input_axes = [0, 0], "), HasSubstr("scan_input_axes has 2 entries, 1 are needed"));
  EXPECT_THAT(error("scan_output_directions = [2], "), HasSubstr("has the entry 2"));
  const auto count = [&](const std::string& number) {
    return GraphError("graph opset(\"\": 11) { input %a: f32[2] %y = Scan(%a) {num_scan_inputs = " + number +
                          ", body = graph { input %p: f32[] %q = Neg(%p) return %q } } return %y }",
                      {start});
  };
  EXPECT_THAT(count("0"), HasSubstr("num_scan_inputs is 0"));
  EXPECT_THAT(count("2"), HasSubstr("num_scan_inputs is 2"));
  const std::string two = R"(graph opset("": 11) {
    input %a: f32[n]
    input %b: f32[m]
    %y = Scan(%a, %b) {num_scan_inputs = 2, body = graph { input %p: f32[] input %q: f32[] %r = Add(%p, %q) return %r }}
    return %y
  })";
  EXPECT_THAT(GraphError(two, {Floats({2}, {1, 2}), Floats({3}, {1, 2, 3})}), HasSubstr("others have 2"));
  const std::string grows = R"(graph opset("": 11) {
    input %a: f32[n]
    input %x: f32[2]
    %y = Scan(%a, %x) {num_scan_inputs = 1, body = graph { input %s: f32[*] input %p: f32[]
      %r = Concat(%s, %s) {axis = 0} return %r }}
    return %y
  })";
  EXPECT_THAT(GraphError(grows, {Floats({1}, {1}), Floats({2}, {1, 2})}), HasSubstr("state 0"));
  Limits limits;
  limits.loop_iterations = 2;
  EXPECT_THAT(GraphError(Sums(""), {start, Floats({3, 2}, {1, 2, 3, 4, 5, 6})}, limits), HasSubstr("3 steps"));
}

std::string BatchSums(const std::string& attributes, const std::string& lengths) {
  return "graph opset(\"\": 8) { input %l: i64[b] input %start: f32[b,2] input %x: f32[b,t,2]"
         " %last, %all = Scan(" +
         lengths + ", %start, %x) {" + attributes +
         "num_scan_inputs = 1, body = graph { input %sum: f32[2] input %step: f32[2] %next = Add(%sum, %step)"
         " %out = Identity(%next) return %next, %out } } return %last, %all }";
}

TEST(Scan8, ABatchOfSequencesWithLengths) {
  const Value start = Floats({2, 2}, {0, 0, 10, 10}), x = Floats({2, 3, 2}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  const auto whole = Outputs(BatchSums("", "_"), {Lengths({0, 0}), start, x});
  EXPECT_EQ(ValuesOf<float>(whole[0]), (F{9, 12, 19, 22}));
  EXPECT_EQ(whole[1].tensor().shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(ValuesOf<float>(whole[1]), (F{1, 2, 4, 6, 9, 12, 11, 12, 14, 16, 19, 22}));
  const auto cut = Outputs(BatchSums("", "%l"), {Lengths({1, 2}), start, x});
  EXPECT_EQ(ValuesOf<float>(cut[0]), (F{1, 2, 14, 16}));
  EXPECT_EQ(ValuesOf<float>(cut[1]), (F{1, 2, 0, 0, 0, 0, 11, 12, 14, 16, 0, 0}));
  // Backwards from the end of each sequence, not from that of the longest.
  const auto back = Outputs(BatchSums("directions = [1], ", "%l"), {Lengths({0, 2}), start, x});
  EXPECT_EQ(ValuesOf<float>(back[0]), (F{0, 0, 14, 16}));
  EXPECT_EQ(ValuesOf<float>(back[1]), (F{0, 0, 0, 0, 0, 0, 13, 14, 14, 16, 0, 0}));
  EXPECT_EQ(InferredType(BatchSums("", "%l")), "f32[b,2]");
  EXPECT_EQ(InferredType(BatchSums("", "%l"), 1), "f32[b,t,2]");
}

TEST(Scan8, Errors) {
  const Value start = Floats({2, 2}, {0, 0, 0, 0}), x = Floats({2, 1, 2}, {1, 2, 3, 4});
  const std::string text = BatchSums("", "%l");
  EXPECT_THAT(GraphError(text, {Lengths({1, 2}), start, x}), HasSubstr("has the length 2"));
  EXPECT_THAT(GraphError(text, {Lengths({1, -1}), start, x}), HasSubstr("has the length -1"));
  EXPECT_THAT(GraphError(text, {Lengths({1}), start, x}), HasSubstr("1 lengths for a batch of 2"));
  EXPECT_THAT(GraphError(text, {Lengths({1, 1}), Floats({1, 2}, {0, 0}), x}), HasSubstr("has extent 2 in dimension 0"));
}

}  // namespace
}  // namespace quern
