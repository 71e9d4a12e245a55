// Graphs of one node that fuzz/node_fuzz.cc found: both providers give the same values, or an error that names the
// node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using ::testing::HasSubstr;

Result<Value> RunOn(const char* provider, const std::string& lines, const std::vector<Value>& inputs) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(\"\": 13) {\n" + lines + "  return %y\n}\n");
  if (!graph.ok()) return graph.status();
  SessionOptions options;
  options.threads = 1;
  options.providers = {provider};
  QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(std::move(graph).value(), options));
  std::vector<Value> outputs(1);
  QUERN_RETURN_IF_ERROR(session->Run(inputs, outputs));
  return outputs[0];
}

void ExpectSame(const std::string& lines, const std::vector<Value>& inputs) {
  const Result<Value> expected = RunOn("reference", lines, inputs), actual = RunOn("cpu", lines, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  EXPECT_EQ(TypeOf(*expected), TypeOf(*actual));
  EXPECT_EQ(std::memcmp(expected->tensor().raw_data(), actual->tensor().raw_data(), expected->tensor().bytes()), 0);
}

void ExpectError(const std::string& lines, const std::vector<Value>& inputs, const char* words) {
  for (const char* provider : {"reference", "cpu"}) {
    const Result<Value> result = RunOn(provider, lines, inputs);
    ASSERT_FALSE(result.ok()) << provider;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << provider;
    EXPECT_THAT(result.status().message(), HasSubstr("node 'n'")) << provider;
    EXPECT_THAT(result.status().message(), HasSubstr(words)) << provider;
  }
}

TEST(SingleNodes, SoftmaxOfAScalarLooksAtNoAxis) {
  ExpectSame("  input %x: f32[]\n  %y = Softmax#11(%x) {axis = -3} @n\n", {Tensor::Scalar(2.0f)});
}

TEST(SingleNodes, AxesThatComeWithTheRun) {
  const int64_t axis[] = {0};
  ExpectSame("  input %a: i64[1]\n  const %x = i64[] {7}\n  %y = Unsqueeze(%x, %a) @n\n",
             {Tensor::FromValues<int64_t>(Shape{1}, axis)});
}

TEST(SingleNodes, ShapeOfStrings) {
  StringTensor words{Shape{2, 1}, {"a", "b"}};
  ExpectSame("  input %x: string[n,1]\n  %y = Shape(%x) @n\n", {words});
}

TEST(SingleNodes, AxesThatAreNoList) {
  ExpectError("  input %x: f32[*]\n  const %a = i64[1,1] {0}\n  %y = Unsqueeze(%x, %a) @n\n", {DrawFloats(Shape{2}, 1)},
              "i64[1,1]; integers in at most one dimension");
}

TEST(SingleNodes, ShapesThatAreNoList) {
  const int64_t shape[] = {2, 3};
  ExpectError("  input %s: i64[1,2]\n  %y = ConstantOfShape(%s) @n\n",
              {Tensor::FromValues<int64_t>(Shape{1, 2}, shape)}, "input 's' is a i64[1,2]");
}

TEST(SingleNodes, OutputsThatTheListLeavesOut) {
  ExpectSame("  input %x: f32[5]\n  const %k = i64[1] {2}\n  %y = TopK(%x, %k) @n\n", {DrawFloats(Shape{5}, 1)});
}

TEST(SingleNodes, StatesOfNoSequence) {
  ExpectSame(
      "  input %x: f32[2,0,3]\n  input %w: f32[1,4,3]\n  input %r: f32[1,4,1]\n  input %h: f32[1,0,1]\n"
      "  %y = LSTM(%x, %w, %r, _, _, %h) {hidden_size = 1} @n\n",
      {Zeros(Shape{2, 0, 3}), DrawFloats(Shape{1, 4, 3}, 1), DrawFloats(Shape{1, 4, 1}, 2), Zeros(Shape{1, 0, 1})});
}

TEST(SingleNodes, ShrinkSaturatesIntegers) {
  const int8_t x[] = {100, -100, 0, 3};
  ExpectSame("  input %x: i8[4]\n  %y = Shrink(%x) {bias = -1000.0, lambd = 1.0} @n\n",
             {Tensor::FromValues<int8_t>(Shape{4}, x)});
}

TEST(SingleNodes, AttentionOverHeadsWithoutElements) {
  const Tensor none = Zeros(Shape{1, 2, 3, 0});
  for (const char* outputs : {"%y", "%y, %pk, %pv"}) {
    ExpectSame(std::string("  input %q: f32[1,2,3,4]\n  input %k: f32[1,2,3,4]\n  input %v: f32[1,2,3,0]\n  ") +
                   outputs + " = Attention#23(%q, %k, %v) @n\n",
               {DrawFloats(Shape{1, 2, 3, 4}, 1), DrawFloats(Shape{1, 2, 3, 4}, 2), none});
    ExpectSame(std::string("  input %q: f32[1,2,3,0]\n  input %k: f32[1,2,3,0]\n  input %v: f32[1,2,3,4]\n"
                           "  input %ok: f32[1,2,2,0]\n  input %ov: f32[1,2,2,4]\n  ") +
                   outputs + " = Attention#23(%q, %k, %v, _, %ok, %ov) {scale = 1.0} @n\n",
               {none, none, Zeros(Shape{1, 2, 3, 4}), Zeros(Shape{1, 2, 2, 0}), Zeros(Shape{1, 2, 2, 4})});
  }
}

TEST(SingleNodes, ProductOfNoQuantizedFloats) {
  const auto scale = [](const char* name) { return std::string("  const %") + name + " = f32[] {1.0}\n"; };
  const auto zero = [](const char* name) { return std::string("  const %") + name + " = f8e4m3fn[] hex \"00\"\n"; };
  Tensor b = Tensor::Allocate(DType::kF8E4M3FN, Shape{2, 3}).value();
  std::memset(b.raw_data(), 0x38, b.bytes());
  ExpectSame("  input %a: f8e4m3fn[0,2]\n  input %b: f8e4m3fn[2,3]\n" + scale("sa") + scale("sb") + scale("sy") +
                 zero("za") + zero("zb") + zero("zy") +
                 "  %y = QLinearMatMul#21(%a, %sa, %za, %b, %sb, %zb, %sy, %zy) @n\n",
             {Tensor::Allocate(DType::kF8E4M3FN, Shape{0, 2}).value(), b});
}

}  // namespace
}  // namespace quern
