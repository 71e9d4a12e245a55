#include "graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "graph/verifier.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const PrintOptions kFull{.full_constants = true};

std::unique_ptr<Graph> Reparse(const Graph& graph) {
  const std::string text = PrintGraph(graph, kFull);
  Result<std::unique_ptr<Graph>> parsed = ParseGraph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message() << "\n" << text;
  if (!parsed.ok()) return nullptr;
  EXPECT_EQ(PrintGraph(**parsed, kFull), text);
  return std::move(parsed).value();
}

TEST(Text, ReadsBackWhatItPrints) {
  const char* const text = R"(graph @mnist opset("": 17, "com.microsoft": 1) {
  metadata "" = ""
  metadata "producer" = "pytorch \"2\"\n\x00é"
  input %x: f32[batch,3,2*h + 1,"odd name"]
  input %0/any-name.$: ?
  input %"with space": seq<opt<f32[*]>>
  input %m: map<i64,string[]>
  input %half: ?[3,?7]
  const %w = f32[2] {0.5, -0.0}
  const %typed: i64[n] data [2,3] = i64[2] {2, 3}
  const %s = string[2] {"a", "\xff"}
  const %lists = seq [f32[1] {1.0}, opt (), opt (bool[2] {true, false}), map string {"k": i8[] {-128}}, none]
  %y: f32[batch,2], _, %z = com.microsoft::Foo#2(%x, _, %w) {alpha = 1.5, axes = ints [], body = "", "odd name" = 3} @f
  %shape: i64[2] data [batch,3*h] = Shape(%y)
  () = Sink(%z)
  _ = Odd::"0p"()
  return %y, %y, %w, %"0/any-name.$"
}
)";
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  // The same, but for names quoted without need.
  std::string expected = text;
  const std::string quoted = "%\"0/any-name.$\"";
  expected.replace(expected.find(quoted), quoted.size(), "%0/any-name.$");
  expected.erase(expected.find(": ?\n"), 3);
  EXPECT_EQ(PrintGraph(**graph, kFull), expected);
  EXPECT_EQ((*graph)->FindValue("x")->type().shape->at(3).symbol(), "odd name");
  EXPECT_EQ((*graph)->first_node()->opset(), 2);
  EXPECT_EQ((*graph)->first_node()->output(1), nullptr);
  EXPECT_EQ((*graph)->metadata.at("producer"), std::string("pytorch \"2\"\n\0é", 15));
  EXPECT_EQ((*graph)->FindValue("w")->uses().size(), 2u);
  EXPECT_EQ(PrintGraph(*(*graph)->Clone(), kFull), expected);
}

TEST(Text, KeepsEveryKindOfAttribute) {
  Graph g;
  NodeSpec spec{.op_type = "Op", .outputs = {"y"}};
  auto body = std::make_shared<Graph>();
  body->AddOutput(body->AddInput("i", ValueType::Tensor(DType::kF32)));
  spec.attributes = {
      {"int", int64_t{INT64_MIN}},
      {"float", 1e-45f},
      {"whole_float", 16777216.0f},
      {"nan", std::bit_cast<float>(0xffc00001u)},
      {"string", std::string("x\0\"\\", 4)},
      {"value", Value(Tensor::Scalar<float>(2.0f))},
      {"graph", GraphPtr(body)},
      {"type", ValueType::Tensor(DType::kF16, Dims{Dim::Symbol("n"), 3})},
      {"ints", std::vector<int64_t>{1, -2}},
      {"floats", std::vector<float>{1, INFINITY, -INFINITY, NAN}},
      {"strings", std::vector<std::string>{"a", ""}},
      {"values", std::vector<Value>{Value(Tensor::Scalar<int64_t>(7)), Value()}},
      {"graphs", std::vector<GraphPtr>{body->Clone(), body->Clone()}},
      {"no_ints", std::vector<int64_t>{}},
      {"no_floats", std::vector<float>{}},
      {"no_strings", std::vector<std::string>{}},
      {"no_values", std::vector<Value>{}},
      {"no_graphs", std::vector<GraphPtr>{}},
  };
  const auto kinds = spec.attributes;
  g.AddNode(spec);
  const std::unique_ptr<Graph> back = Reparse(g);
  ASSERT_NE(back, nullptr);
  for (const auto& [name, attribute] : kinds) {
    ASSERT_TRUE(back->first_node()->attributes().contains(name)) << name;
    EXPECT_EQ(back->first_node()->attributes().at(name).index(), attribute.index()) << name;
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(back->first_node()->GetFloat("nan", 0)), 0xffc00001u);
  EXPECT_EQ(back->first_node()->GetFloat("float", 0), 1e-45f);
  EXPECT_EQ(back->first_node()->GetInt("int", 0), INT64_MIN);
  EXPECT_EQ(back->first_node()->GetString("string", ""), std::string("x\0\"\\", 4));
}

TEST(Text, KeepsTheBitsOfEveryType) {
  std::mt19937 random(1);
  Graph g;
  for (int i = 1; i < 128; ++i) {
    const DType dtype = static_cast<DType>(i);
    const DTypeInfo info = GetDTypeInfo(dtype);
    if (info.block_bytes == 0) continue;
    for (const Shape& shape : {Shape{2, 32}, Shape{3, 512}, Shape{0, 32}, Shape{1, 32}}) {
      Tensor t = Tensor::Allocate(dtype, shape).value();
      uint8_t* p = static_cast<uint8_t*>(t.raw_data());
      for (size_t k = 0; k < t.bytes(); ++k) p[k] = static_cast<uint8_t>(random());
      // NaNs with payloads, infinities, the smallest numbers.
      if (shape == Shape{1, 32} && info.block_bytes <= 8 && info.block_elements == 1) {
        for (size_t k = 0; k < t.bytes(); ++k) p[k] = k % 3 == 0 ? 0xff : k % 7 == 0 ? 1 : 0x7f;
      }
      g.AddConstant(std::string(info.name) + std::to_string(shape[0]) + "_" + std::to_string(shape[1]), t);
    }
  }
  const std::unique_ptr<Graph> back = Reparse(g);
  ASSERT_NE(back, nullptr);
  ASSERT_EQ(back->constants().size(), g.constants().size());
  for (const GraphValue* v : g.constants()) {
    const Tensor &a = v->constant()->tensor(), &b = back->FindValue(v->name())->constant()->tensor();
    ASSERT_EQ(a.dtype(), b.dtype());
    ASSERT_TRUE(a.shape() == b.shape());
    if (a.bytes() > 0) EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), a.bytes()), 0) << v->name();
  }
}

TEST(Text, PrintsStridedConstantsInOrder) {
  float data[] = {1, 2, 3, 4};
  Graph g;
  g.AddConstant("t", Tensor::WrapStrided(DType::kF32, Shape{2, 2}, Shape{1, 2}, data));
  EXPECT_THAT(PrintGraph(g), HasSubstr("const %t = f32[2,2] {1.0, 3.0, 2.0, 4.0}"));
}

TEST(Text, ElidesLargeConstants) {
  Graph g;
  std::vector<float> values(100, 1.0f);
  values[3] = 2;
  g.AddConstant("w", Tensor::FromValues<float>(Shape{100}, values));
  const std::string first = PrintGraph(g);
  EXPECT_THAT(first, HasSubstr("const %w = f32[100] <400 bytes, digest "));
  values[99] = 3;
  Graph other;
  other.AddConstant("w", Tensor::FromValues<float>(Shape{100}, values));
  EXPECT_NE(PrintGraph(other), first);
  const Result<std::unique_ptr<Graph>> parsed = ParseGraph(first);
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.status().message(), StartsWith("2:"));
  EXPECT_THAT(parsed.status().message(), HasSubstr("full constants"));
}

TEST(Text, ReadsSubgraphsWithCaptures) {
  const char* const text = R"(graph opset("": 17) {
  input %c: bool[]
  input %x: f32[n]
  %y: f32[n] = If(%c) captures(%x) {
    else_branch = graph @else {
      input %x: f32[n]
      return %x
    },
    then_branch = graph @then opset("": 11) {
      input %v: f32[n]
      %r: f32[n] = Neg(%v)
      return %r
    }
  } @if_1
  return %y
}
)";
  Result<std::unique_ptr<Graph>> graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(PrintGraph(**graph), text);
  const Node* node = (*graph)->first_node();
  ASSERT_EQ(node->subgraphs().size(), 2u);
  EXPECT_EQ(node->subgraphs()[0].second->opset(""), 17);
  EXPECT_EQ(node->subgraphs()[1].second->opset(""), 11);
  EXPECT_EQ(PrintNode(*node),
            "%y: f32[n] = If(%c) captures(%x) {else_branch = graph {...}, then_branch = graph {...}} @if_1");
}

TEST(Text, ErrorsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "1:1: expected 'graph'"},
      {"graph {\n  input x\n return }", "2:9: expected '%'"},
      {"graph {\n  %y = Add(%x)\n return }", "2:12: value 'x' is not defined before"},
      {"graph {\n input %x: f33[1]\n return }", "2:12: 'f33' is no element type"},
      {"graph {\n input %x: f32[a b]\n return }", "2:16: extent"},
      {"graph {\n input %x input %x\n return }", "2:17: value 'x' is defined twice"},
      {"graph { %y, %y = A() return }", "1:22: value 'y' is defined twice"},
      {"graph { const %c = f32[3] {1, 2} return }", "1:24: the shape has 3 elements but 2 are given"},
      {"graph { const %c = u8[1] {256} return }", "1:27: the integer is out of range"},
      {"graph { const %c = f32[1000000000] splat 1 return }", "1:24: too large"},
      {"graph { const %c = f32[999999999] {} return }", "1:24: the shape has 999999999"},
      {"graph { const %c = f32[9999999999,9999999999] {} return }", "1:24: the shape is too large"},
      {"graph { const %c = q4_0[31] hex \"\" return }", "1:25: the last dimension"},
      {"graph { const %c = none return }", "1:24: a constant needs"},
      {"graph { %y = A() {a = []} return }", "1:25: an empty list needs"},
      {"graph { %y = A() {a = [1, 2.0]} return }", "1:27: the items of a list"},
      {"graph { %y = A() {a = 1, a = 2} return }", "1:31: the attribute is given twice"},
      {"graph { %y = A() {a = 99999999999999999999} return }", "1:23: the integer is out of range"},
      {"graph { return %x }", "1:16: value 'x' is not defined"},
      {"graph { return } x", "1:18: unexpected text"},
      {"graph @\"a\nb\" { return }", "1:8: the string has no end"},
  };
  for (const auto& [text, message] : cases) {
    const Result<std::unique_ptr<Graph>> parsed = ParseGraph(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.status().message(), StartsWith(message)) << text;
  }
  // What only the verifier can see.
  const Result<std::unique_ptr<Graph>> parsed =
      ParseGraph("graph { input %x: f32[] %y = If(%x) captures(%x) {b = graph { return }} return %y }");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.status().message(), HasSubstr("subgraph 'b': it has 0 inputs for 1 captures"));
}

TEST(Text, NestingIsLimited) {
  std::string graphs, values = "graph { const %c = ", types = "graph { input %x: ";
  for (int i = 0; i < 100000; ++i) {
    graphs += "graph { %y = A() {a = ";
    values += "seq [";
    types += "seq<";
  }
  for (const std::string& text : {graphs, values, types}) EXPECT_FALSE(ParseGraph(text).ok());
  Limits limits;
  limits.nodes = 2;
  EXPECT_TRUE(ParseGraph("graph { %a = A() %b = A() return }", limits).ok());
  EXPECT_EQ(ParseGraph("graph { %a = A() %b = A() %c = A() return }", limits).ok(), false);
}

TEST(Text, DamagedTextIsRefusedOrRead) {
  const std::string text = R"(graph @g opset("": 17) {
  input %x: f32[batch,floordiv(h, 2),"q]"]
  const %w = f32[2] {0.5, nan(0x7fc00001)}
  const %m = map i64 {1: f16[1] {nan}, 2: string[1] {"\x00"}}
  %y: f32[1], _ = d::Foo#1(%x, _, %w) captures(%w) {a = 1.5, g = graph { input %i return %i }, l = [1, 2]} @n
  return %y
})";
  ASSERT_TRUE(ParseGraph(text).ok()) << ParseGraph(text).status().message();
  for (size_t i = 0; i < text.size(); ++i) {
    (void)ParseGraph(text.substr(0, i));
    for (char c : {'\0', '"', '[', ')', '9', '\\', '%', '\xff'}) {
      std::string damaged = text;
      damaged[i] = c;
      if (Result<std::unique_ptr<Graph>> g = ParseGraph(damaged); g.ok()) Reparse(**g);
    }
  }
}

}  // namespace
}  // namespace quern
