// Products whose batch is samples and heads: how they come apart, and which do not.
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(SplitBatches, BehindAProduct) {
  const std::string start =
      "  input %q: f32[6,4,5]\n"
      "  input %k: f32[6,m,5]\n"
      "  input %sy: i64[4]\n";
  EXPECT_EQ(After({"split_batches"}, start + "  %t: f32[6,5,m] = Transpose(%k) {perm = [0, 2, 1]}\n"
                                             "  %p: f32[6,4,m] = MatMul(%q, %t)\n"
                                             "  %y: f32[2,3,4,m] = Reshape(%p, %sy)\n"
                                             "  return %y\n"),
            start +
                "  const %y_ints = i64[4] {2, 3, 4, 5}\n"
                "  const %y_ints_0 = i64[4] {2, 3, -1, 5}\n"
                "  %y_part: f32[2,3,4,5] = Reshape(%q, %y_ints)\n"
                "  %y_part_1: f32[2,3,m,5] = Reshape(%k, %y_ints_0)\n"
                "  %y_part_2: f32[2,3,5,m] = Transpose(%y_part_1) {perm = [0, 1, 3, 2]}\n"
                "  %y: f32[2,3,4,m] = MatMul(%y_part, %y_part_2)\n"
                "  return %y\n");
}

TEST(SplitBatches, BeforeAProduct) {
  EXPECT_EQ(After({"split_batches"},
                  "  input %w: f32[2,3,n,4]\n"
                  "  input %v: f32[6,4,5]\n"
                  "  const %s = i64[3] {6, -1, 4}\n"
                  "  %j: f32[6,n,4] = Reshape(%w, %s)\n"
                  "  %p: f32[6,n,4] = Softmax(%j) {axis = -1}\n"
                  "  %y: f32[6,n,5] = MatMul(%p, %v)\n"
                  "  return %y\n"),
            "  input %w: f32[2,3,n,4]\n"
            "  input %v: f32[6,4,5]\n"
            "  const %y_ints = i64[4] {2, 3, 4, 5}\n"
            "  const %y_ints_2 = i64[3] {6, -1, 5}\n"
            "  %y_part: f32[2,3,n,4] = Softmax(%w) {axis = -1}\n"
            "  %y_part_0: f32[2,3,4,5] = Reshape(%v, %y_ints)\n"
            "  %y_part_1: f32[2,3,n,5] = MatMul(%y_part, %y_part_0)\n"
            "  %y: f32[6,n,5] = Reshape(%y_part_1, %y_ints_2)\n"
            "  return %y\n");
}

std::vector<Value> Draws(const std::vector<Shape>& shapes) {
  std::vector<Value> values;
  for (const Shape& s : shapes) values.push_back(DrawNormal(s, static_cast<unsigned>(values.size()) + 5));
  return values;
}

// BART's attention, of any number of samples and tokens, with a mask of each sample.
TEST(SplitBatches, AttentionOfSamplesMeetsItsMask) {
  std::string text =
      "  input %x: f32[b,n,10]\n  input %mask: f32[b,1,n,n]\n  const %two = i64[2] {2, 5}\n  const %h = i64[1] {2}\n"
      "  const %minus = i64[1] {-1}\n  const %five = i64[1] {5}\n  const %all = i64[3] {0, 0, -1}\n"
      "  const %five2 = f32[5,5] splat 0.5\n"
      "  %bn = Shape(%x) {end = 2}\n  %bb = Shape(%x) {end = 1}\n  %nn = Shape(%x) {start = 1, end = 2}\n"
      "  %s4 = Concat(%bn, %two) {axis = 0}\n  %s3 = Concat(%minus, %nn, %five) {axis = 0}\n"
      "  %sw = Concat(%bb, %h, %nn, %nn) {axis = 0}\n  %sj = Concat(%minus, %nn, %nn) {axis = 0}\n"
      "  %sy = Concat(%bb, %h, %nn, %five) {axis = 0}\n";
  for (const std::string part : {"q", "k", "v"}) {
    text += "  %" + part + "0 = " +
            (part == "q"   ? "Sin"
             : part == "k" ? "Cos"
                           : "Tanh") +
            "(%x)\n  %" + part + "4 = Reshape(%" + part + "0, %s4)\n  %" + part + "t = Transpose(%" + part +
            "4) {perm = [0, 2, 1, 3]}\n  %" + part + " = Reshape(%" + part + "t, %s3)\n";
  }
  const std::string masked =
      "  %r = Reshape(%p, %sw)\n  %m = Add(%r, %mask)\n  %j = Reshape(%m, %sj)\n  %w = Softmax(%j)\n";
  const std::string end =
      "  %o = MatMul(%w, %v)\n  %o4 = Reshape(%o, %sy)\n  %ot = Transpose(%o4) {perm = [0, 2, 1, 3]}\n"
      "  %y = Reshape(%ot, %all)\n  return %y\n";
  text += "  %turned = Transpose(%k) {perm = [0, 2, 1]}\n  %p = MatMul(%q, %turned)\n";
  const std::vector<Value> inputs = Draws({Shape{2, 3, 10}, Shape{2, 1, 3, 3}});
  for (const std::string& between : {masked, std::string("  %w = Softmax(%p)\n")}) {
    SCOPED_TRACE(between);
    EXPECT_EQ(CountAfterAll(text + between + end, inputs, "Attention"), 1);
    EXPECT_EQ(CountAfterAll(text + between + end, inputs, "Softmax"), 0);
    EXPECT_EQ(CountAfterAll(text + between + end, inputs, "Transpose"), 0);
  }
  EXPECT_EQ(CountAfterAll(text + masked + end, inputs, "Attention", {"split_batches"}), 0);
}

// PyTorch's MultiheadAttention: tokens first.
TEST(SplitBatches, TokensFirst) {
  const std::string text =
      "  input %x: f32[n,b,10]\n  input %seen: bool[b,1,1,n]\n  const %inf = f32[] {-inf}\n  const %two = i64[1] {2}\n"
      "  const %five = i64[1] {5}\n  const %minus = i64[1] {-1}\n  %nn = Shape(%x) {end = 1}\n"
      "  %bb = Shape(%x) {start = 1, end = 2}\n  %bh = Mul(%bb, %two)\n  %s = Concat(%nn, %bh, %five) {axis = 0}\n"
      "  %sw = Concat(%bb, %two, %nn, %nn) {axis = 0}\n  %sj = Concat(%bh, %nn, %nn) {axis = 0}\n"
      "  %q0 = Sin(%x)\n  %k0 = Cos(%x)\n  %v0 = Tanh(%x)\n"
      "  %q1 = Reshape(%q0, %s)\n  %k1 = Reshape(%k0, %s)\n  %v1 = Reshape(%v0, %s)\n"
      "  %q = Transpose(%q1) {perm = [1, 0, 2]}\n  %k = Transpose(%k1) {perm = [1, 2, 0]}\n"
      "  %v = Transpose(%v1) {perm = [1, 0, 2]}\n  %p = MatMul(%q, %k)\n  %r = Reshape(%p, %sw)\n"
      "  %m = Where(%seen, %r, %inf)\n  %j = Reshape(%m, %sj)\n  %w = Softmax(%j)\n  %y = MatMul(%w, %v)\n"
      "  return %y\n";
  Tensor seen = Tensor::Allocate(DType::kBool, Shape{2, 1, 1, 3}).value();
  for (int64_t i = 0; i < 6; ++i) seen.data<bool>()[i] = i != 2;
  std::vector<Value> inputs = Draws({Shape{3, 2, 10}});
  inputs.emplace_back(std::move(seen));
  EXPECT_EQ(CountAfterAll(text, inputs, "Attention"), 1);
}

TEST(SplitBatches, LeavesOthers) {
  const std::string start = "  input %w: f32[2,3,4,6]\n  input %v: f32[6,6,5]\n  input %u: f32[4,18,5]\n";
  const std::vector<Value> inputs = Draws({Shape{2, 3, 4, 6}, Shape{6, 6, 5}, Shape{4, 18, 5}});
  for (const char* lines : {
           // other dimensions joined; a softmax over rows; a value in between that is read; no scores
           "  const %s = i64[3] {4, 2, 18}\n  %j = Reshape(%w, %s)\n  %y = MatMul(%j, %u)\n  return %y\n",
           "  const %s = i64[3] {6, 4, 6}\n  %j = Reshape(%w, %s)\n  %p = Softmax(%j) {axis = 1}\n"
           "  %y = MatMul(%p, %v)\n  return %y\n",
           "  const %s = i64[3] {6, 4, 6}\n  %j = Reshape(%w, %s)\n  %x = MatMul(%j, %v)\n  %y = Softmax(%x)\n"
           "  return %y, %j\n",
           "  const %s = i64[3] {6, 4, 6}\n  %j = Reshape(%w, %s)\n  %x = MatMul(%j, %v)\n  %y = Relu(%x)\n"
           "  return %y\n",
       }) {
    SCOPED_TRACE(lines);
    const std::unique_ptr<Graph> graph = Parse(WithHeader(start + lines));
    ASSERT_TRUE(InferShapes(*graph).ok());
    EXPECT_EQ(FindNeutralPass("split_batches")->run(*graph, nullptr).value(), 0);
    EXPECT_GE(CountAfterAll(start + lines, inputs, "MatMul"), 1);
  }
}

}  // namespace
}  // namespace quern
