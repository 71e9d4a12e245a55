// Graphs whose attributes or inputs of a run go to the ends of what operators admit: both providers agree, or say what
// is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/text.h"
#include "session/test_graphs.h"

namespace quern {
namespace {

using ::testing::HasSubstr;

Result<Value> RunOn(const char* provider, const std::string& opsets, const std::string& lines,
                    const std::vector<Value>& inputs) {
  Result<std::unique_ptr<Graph>> graph = ParseGraph("graph opset(" + opsets + ") {\n" + lines + "  return %y\n}\n");
  if (!graph.ok()) return graph.status();
  SessionOptions options;
  options.threads = 2;
  options.providers = {provider};
  QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(std::move(graph).value(), options));
  std::vector<Value> outputs(1);
  QUERN_RETURN_IF_ERROR(session->Run(inputs, outputs));
  return outputs[0];
}

constexpr char kOpsets[] = "\"\": 25, \"com.microsoft\": 1";

void ExpectSame(const std::string& lines, const std::vector<Value>& inputs, const char* opsets = kOpsets) {
  const Result<Value> expected = RunOn("reference", opsets, lines, inputs),
                      actual = RunOn("cpu", opsets, lines, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  ASSERT_EQ(TypeOf(*expected), TypeOf(*actual));
  const Tensor &e = expected->tensor(), &a = actual->tensor();
  if (e.dtype() != DType::kF32) {
    EXPECT_EQ(std::memcmp(e.raw_data(), a.raw_data(), e.bytes()), 0);
    return;
  }
  for (int64_t i = 0; i < e.num_elements(); ++i) {
    const float x = e.data<float>()[i], y = a.data<float>()[i];
    EXPECT_TRUE(x == y || std::fabs(x - y) <= 1e-5f * std::fabs(x) + 1e-6f) << i << ": " << y << ", not " << x;
  }
}
void ExpectError(const std::string& lines, const std::vector<Value>& inputs, const char* words,
                 const char* opsets = kOpsets) {
  for (const char* provider : {"reference", "cpu"}) {
    const Result<Value> result = RunOn(provider, opsets, lines, inputs);
    ASSERT_FALSE(result.ok()) << provider;
    EXPECT_NE(result.status().code(), StatusCode::kInternal) << result.status().message();
    EXPECT_THAT(result.status().message(), HasSubstr(words)) << provider;
  }
}

Tensor Ints(const std::vector<int64_t>& values) {
  return Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
}

TEST(HostileNodes, NegativePaddingCrops) {
  for (const char* pads : {"[0, -1, 0, 0]", "[0, 0, 0, -1]", "[-1, 0, 0, 0]", "[0, 0, -2, 1]"}) {
    SCOPED_TRACE(pads);
    ExpectSame(std::string("  input %x: f32[1,3,7,8]\n  const %w = f32[4,3,2,3] splat 0.25\n") +
                   "  %y = Conv(%x, %w) {pads = " + pads + "}\n",
               {DrawFloats(Shape{1, 3, 7, 8}, 3)});
    ExpectSame(std::string("  input %x: f32[1,4,7,8]\n  const %w = f32[4,1,3,3] splat 0.25\n") +
                   "  %y = Conv(%x, %w) {group = 4, pads = " + pads + "}\n",
               {DrawFloats(Shape{1, 4, 7, 8}, 3)});
  }
}

TEST(HostileNodes, PaddingFarBeyondTheKernel) {
  ExpectSame(
      "  input %x: f32[1,1,1,1]\n  const %w = f32[1,1,2,2] {1, 2, 3, 4}\n"
      "  %y = Conv(%x, %w) {pads = [2147483648, 2147483648, 2147483648, 2147483648], "
      "strides = [2147483648, 2147483648]}\n",
      {DrawFloats(Shape{1, 1, 1, 1}, 3)});
}

TEST(HostileNodes, AxesOfATransposeFromTheEnd) {
  const Tensor x = DrawFloats(Shape{2, 3, 4, 5}, 3);
  ExpectSame("  input %x: f32[2,3,4,5]\n  %y = Transpose(%x) {perm = [-1, 0, -2, 1]}\n", {x});
  ExpectSame(
      "  input %x: f32[2,3,4,5]\n  %t = Transpose(%x) {perm = [-1, 0, -2, 1]}\n  %r = Relu(%t)\n"
      "  %y = Transpose(%r) {perm = [1, 3, 2, -4]}\n",
      {x});
  ExpectSame("  input %x: f32[2,3,4,5]\n  %y = Transpose(%x) {perm = [0, -3, 2, -1]}\n", {x});
}

// Elementwise operators on sizes stay what plans can compute.
TEST(HostileNodes, SizesComputedInFloats) {
  const std::string lines =
      "  input %x: f32[1,2,h,w]\n  const %half = f32[4] {1.0, 1.0, 0.5, 0.5}\n  const %zeros = i64[4] {0, 0, 0, 0}\n"
      "  %s = Shape(%x)\n  %f = Cast(%s) {to = 1}\n  %m = Mul(%f, %half)\n  %g = Floor(%m)\n"
      "  %e = Cast(%g) {to = 7}\n  %r = Relu(%x)\n";
  for (const int64_t side : {4, 7}) {
    const Tensor x = DrawFloats(Shape{1, 2, side, side + 1}, 3);
    ExpectSame(lines + "  %c = Slice(%r, %zeros, %e)\n  %y = Relu(%c)\n", {x});
    ExpectSame(lines + "  const %v = f32[1] {2.0}\n  %c = Expand(%v, %e)\n  %y = Relu(%c)\n", {x});
  }
}

// Many pixels in a piece, pixels of many pieces, and sums that are wider than the channels.
TEST(HostileNodes, LrnOfChannelsLast) {
  for (const int64_t channels : {1, 3, 64, 250, 256, 700}) {
    for (const int size : {1, 2, 5, 8, 128, 129, 300}) {
      const std::string n = std::to_string(channels), lrn = "  %l = LRN(%t) {alpha = 0.7, bias = 1.5, size = ";
      ExpectSame("  input %x: f32[2,3,7," + n + "]\n  %t = Transpose(%x) {perm = [0, 3, 1, 2]}\n" + lrn +
                     std::to_string(size) + (size % 2 ? ", beta = 0.6" : "") +
                     "}\n  %y = Transpose(%l) {perm = [0, 2, 3, 1]}\n",
                 {DrawFloats(Shape{2, 3, 7, channels}, 3)});
    }
  }
}

TEST(HostileNodes, StridesOfATransposedConvolutionFarBeyondItsKernel) {
  ExpectSame(
      "  input %x: f32[1,1,1,1,1]\n  const %w = f32[1,1,1,1,1] {2}\n"
      "  %y = ConvTranspose(%x, %w) {strides = [2147483648, 2147483648, 2147483648]}\n",
      {DrawFloats(Shape{1, 1, 1, 1, 1}, 3)});
  ExpectSame(
      "  input %x: f32[1,8,1,1]\n  const %w = f32[8,8,1,1] splat 0.5\n"
      "  %y = ConvTranspose(%x, %w) {strides = [4096, 4096]}\n",
      {DrawFloats(Shape{1, 8, 1, 1}, 3)});
}

TEST(HostileNodes, ZeroPointThatAnotherNodeGives) {
  Tensor x = Tensor::Allocate(DType::kU8, Shape{1, 2, 4, 4}).value();
  for (int64_t i = 0; i < x.num_elements(); ++i) x.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  ExpectSame(
      "  input %x: u8[1,2,4,4]\n  input %z: u8[1]\n  const %w = i8[3,2,3,3] splat 5\n  const %none = i64[0] {}\n"
      "  %z0 = Reshape(%z, %none)\n  %y = ConvInteger(%x, %w, %z0)\n",
      {x, Tensor::FromValues<uint8_t>(Shape{1}, std::vector<uint8_t>{9})});
}

// The extents of two inputs that share a name are what they are: here they broadcast.
TEST(HostileNodes, ExtentsOfOneNameThatDiffer) {
  const Tensor a = DrawFloats(Shape{8, 4}, 1), z = DrawFloats(Shape{1, 6}, 2);
  ExpectSame("  input %a: f32[M,4]\n  input %z: f32[M,6]\n  const %w = f32[4,6] splat 0.5\n  %y = Gemm(%a, %w, %z)\n",
             {a, z});
  ExpectSame(
      "  input %a: f32[M,4]\n  input %z: f32[M,6]\n  const %w = f32[4,6] splat 0.5\n  %p = MatMul(%a, %w)\n"
      "  %y = Add(%p, %z)\n",
      {a, z});
}

// Of sums with a repeated operand, no result may lie where that one is read again.
TEST(HostileNodes, SumsThatRepeatAnOperand) {
  const Tensor x = DrawFloats(Shape{3, 5}, 1), z = DrawFloats(Shape{3, 5}, 2);
  for (const char* op : {"Sum", "Mean", "Max", "Min"}) {
    ExpectSame(std::string("  input %x: f32[3,5]\n  input %z: f32[3,5]\n  %a = Abs(%x)\n  %b = Neg(%z)\n  %y = ") + op +
                   "(%a, %b, %a)\n",
               {x, z});
    ExpectSame(std::string("  input %x: f32[3,5]\n  input %z: f32[3,5]\n  %a = Abs(%x)\n  %y = ") + op + "(%a, %a)\n",
               {x, z});
  }
}

TEST(HostileNodes, ColumnsThatTheWeightsDoNotHave) {
  const bool three[] = {true, false, true, true};
  ExpectError(
      "  input %x: f32[4,4]\n  input %c: bool[4]\n  const %w = f32[8,4] splat 0.5\n"
      "  %k = Compress(%x, %c) {axis = 1}\n  %y = MatMul(%k, %w)\n",
      {DrawFloats(Shape{4, 4}, 1), Tensor::FromValues<bool>(Shape{4}, three)}, "MatMul");
}

TEST(HostileNodes, AttentionToKeysThatAreNotGiven) {
  const Tensor q = DrawFloats(Shape{2, 4, 8}, 1), k = DrawFloats(Shape{2, 4, 8}, 2), v = DrawFloats(Shape{2, 4, 8}, 3);
  const Tensor last = Tensor::FromValues<int32_t>(Shape{2}, std::vector<int32_t>{3, 3});
  ExpectSame(
      "  input %q: f32[2,4,8]\n  input %k: f32[2,4,8]\n  input %v: f32[2,4,8]\n  input %l: i32[2]\n"
      "  const %total = i32[] {10}\n"
      "  %y = com.microsoft::GroupQueryAttention(%q, %k, %v, _, _, %l, %total) {num_heads = 2, kv_num_heads = 2}\n",
      {q, k, v, last});
}

TEST(HostileNodes, ScoresOfExpertsForOtherTokens) {
  const std::string lines =
      "  input %x: f32[n,4]\n  input %r: f32[m,2]\n  const %a = f32[2,8,4] splat 0.5\n"
      "  const %b = f32[2,4,8] splat 0.25\n  %y = com.microsoft::MoE(%x, %r, %a, _, %b) {k = 2}\n";
  const Tensor x = DrawFloats(Shape{3, 4}, 1);
  ExpectSame(lines, {x, DrawFloats(Shape{3, 2}, 2)});
  ExpectError(lines, {x, DrawFloats(Shape{2, 2}, 2)}, "[3,2] is needed");
  ExpectError(lines, {DrawFloats(Shape{3, 5}, 1), DrawFloats(Shape{3, 2}, 2)}, "");
  // Scores that are no numbers choose as others do, and give what is no number.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor scores = Tensor::FromValues<float>(Shape{3, 2}, std::vector<float>{nan, nan, 1, nan, nan, 2});
  for (const char* provider : {"reference", "cpu"}) {
    const Result<Value> y = RunOn(provider, kOpsets, lines, {x, scores});
    ASSERT_TRUE(y.ok()) << y.status().message();
    EXPECT_TRUE(std::isnan(y->tensor().data<float>()[0])) << provider;
  }
}

TEST(HostileNodes, AttentionWindowsWithoutAnEnd) {
  const Tensor q = DrawFloats(Shape{1, 2, 4, 8}, 1), k = DrawFloats(Shape{1, 2, 6, 8}, 2);
  const std::string most = std::to_string(std::numeric_limits<int64_t>::max());
  ExpectSame("  input %q: f32[1,2,4,8]\n  input %k: f32[1,2,6,8]\n  %y = Attention(%q, %k, %k) {left_window_size = " +
                 most + ", right_window_size = " + most + "}\n",
             {q, k});
}

TEST(HostileNodes, IndicesOfWindowsThatHoldNothing) {
  const auto lines = [](const char* order) {
    return std::string(
               "  input %x: f32[1,1,0,4]\n  %v, %y = MaxPool(%x) {kernel_shape = [2, 1], pads = [1, 0, 1, 0], "
               "storage_order = ") +
           order + "}\n";
  };
  ExpectSame(lines("0"), {Zeros(Shape{1, 1, 0, 4})});
  ExpectSame(lines("1"), {Zeros(Shape{1, 1, 0, 4})});
}

TEST(HostileNodes, PositionsInOneDimension) {
  const Tensor x = DrawFloats(Shape{1, 2, 3, 4}, 1), caches = DrawFloats(Shape{9, 2}, 2);
  ExpectSame(
      "  input %x: f32[1,2,3,4]\n  input %c: f32[9,2]\n  input %p: i64[3]\n  %y = RotaryEmbedding(%x, %c, %c, %p)\n",
      {x, caches, Ints({5, 0, 8})});
  ExpectError(
      "  input %x: f32[1,2,3,4]\n  input %c: f32[9,2]\n  input %p: i64[n]\n  %y = RotaryEmbedding(%x, %c, %c, %p)\n",
      {x, caches, Ints({})}, "RotaryEmbedding");
}

TEST(HostileNodes, VariadicOperandsThatAreLeftOut) {
  for (const char* op : {"Sum", "Max"}) {
    ExpectError(std::string("  input %a: f32[2]\n  input %b: f32[2]\n  %y: f32[2] = ") + op + "(%a, _, %b)\n",
                {DrawFloats(Shape{2}, 1), DrawFloats(Shape{2}, 2)}, "omitted");
  }
  ExpectError("  input %a: f32[2]\n  input %b: f32[2]\n  %y: f32[] = Einsum(%a, _, %b) {equation = \"i,i,i->\"}\n",
              {DrawFloats(Shape{2}, 1), DrawFloats(Shape{2}, 2)}, "omitted");
}

// An operator that came with a later operator set than the model's, with a type declared for its result.
TEST(HostileNodes, OperatorsOfLaterSets) {
  ExpectError("  input %x: f32[n,4]\n  %y: f32[n,4] = Gelu(%x)\n", {DrawFloats(Shape{2, 4}, 1)}, "Gelu", "\"\": 17");
  ExpectError("  input %x: f32[n,4]\n  %y: i64[2,n] = NonZero(%x)\n", {DrawFloats(Shape{2, 4}, 1)}, "NonZero",
              "\"\": 8");
}

// Names in a file are bytes.
TEST(HostileNodes, NamesThatAreNoText) {
  GraphMaker g;
  GraphValue* x = g.In("x", DType::kF32, {Dim(2)});
  GraphValue* y = g.Op("Relu", {x}, "y\xff");
  y->producer()->set_name("\xfe\xff");
  g.Op("RandomUniformLike", {y}, "z")->producer()->set_name("\xc3");
  const std::unique_ptr<Session> session = MakeSession(g.Finish({y}));
  ASSERT_NE(session, nullptr);
  for (const char* stage : {"neutral", "partition", "compiled", "plan", "all"}) {
    const Result<std::string> facts = session->Facts(stage);
    EXPECT_TRUE(facts.ok()) << stage << ": " << facts.status().message();
  }
}

TEST(HostileNodes, BoolsOfOtherBits) {
  Tensor mask = Tensor::Allocate(DType::kBool, Shape{4}).value();
  std::memset(mask.raw_data(), 2, 4);
  ExpectError("  input %m: bool[4]\n  %y = NonZero(%m)\n", {mask}, "input 'm' is of type bool");
}

}  // namespace
}  // namespace quern
