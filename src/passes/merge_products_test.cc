// Products of the same rows: which become one, and which stay.
#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(MergeProducts, BecomeOneWithASplit) {
  EXPECT_EQ(After({"merge_products"},
                  "  input %x: f32[n,2]\n"
                  "  const %wa = f32[2,2] {1.0, 2.0, 3.0, 4.0}\n"
                  "  const %wk = f32[2,1] {5.0, 6.0}\n"
                  "  const %ba = f32[2] {7.0, 8.0}\n"
                  "  const %s = i64[2] {-1, 1}\n"
                  "  %a: f32[n,2] = MatMul(%x, %wa)\n"
                  "  %q: f32[n,2] = Add(%ba, %a)\n"
                  "  %k: f32[n,1] = MatMul(%x, %wk)\n"
                  "  %y: f32[2*n,1] = Reshape(%q, %s)\n"
                  "  %z: f32[1,n] = Transpose(%k) {perm = [1, 0]}\n"
                  "  return %y, %z\n"),
            "  input %x: f32[n,2]\n"
            "  const %s = i64[2] {-1, 1}\n"
            "  const %a_weights = f32[2,3] {1.0, 2.0, 5.0, 3.0, 4.0, 6.0}\n"
            "  const %a_bias = f32[3] {7.0, 8.0, 0.0}\n"
            "  const %a_ints = i64[2] {2, 1}\n"
            "  %a_part: f32[n,3] = MatMul(%x, %a_weights)\n"
            "  %a_part_0: f32[n,3] = Add(%a_part, %a_bias)\n"
            "  %q_columns: f32[n,2], %k_columns: f32[n,1] = Split(%a_part_0, %a_ints) {axis = -1}\n"
            "  %y: f32[2*n,1] = Reshape(%q_columns, %s)\n"
            "  %z: f32[1,n] = Transpose(%k_columns) {perm = [1, 0]}\n"
            "  return %y, %z\n");
}

constexpr char kStart[] =
    "  input %x: f32[n,4]\n  const %wa = f32[4,3] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2}\n"
    "  const %wb = f32[4,2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}\n"
    "  const %ta = f32[3,4] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2}\n"
    "  const %tb = f32[2,4] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}\n"
    "  const %ca = f32[3] {1.0, -1.0, 2.0}\n  const %cb = f32[2] {0.5, 0.25}\n  const %half = f32[] {0.5}\n"
    "  const %s = i64[3] {1, -1, 1}\n";
constexpr char kEnd[] = "  %y = Reshape(%a, %s)\n  %z = Reshape(%b, %s)\n  return %y, %z\n";

TEST(MergeProducts, GiveTheSameResults) {
  const std::vector<Value> x = {DrawNormal(Shape{5, 4}, 1)};
  for (const char* lines : {
           "  %a = MatMul(%x, %wa)\n  %b = MatMul(%x, %wb)\n",
           "  %p = MatMul(%x, %wa)\n  %a = Add(%p, %ca)\n  %q = MatMul(%x, %wb)\n  %b = Add(%cb, %q)\n",
           "  %p = MatMul(%x, %wa)\n  %q = MatMul(%x, %wb)\n  %b = Add(%cb, %q)\n  %a = Mul(%p, %half)\n",
           "  %a = Gemm(%x, %wa)\n  %b = Gemm(%x, %wb, %cb)\n",
           "  %a = Gemm(%x, %ta, %ca) {transB = 1}\n  %b = Gemm(%x, %tb, %cb) {transB = 1}\n",
       }) {
    SCOPED_TRACE(lines);
    const std::string text = std::string(kStart) + lines + kEnd;
    EXPECT_EQ(CountAfterAll(text, x, "Split"), 1);
    EXPECT_EQ(CountAfterAll(text, x, "MatMul") + CountAfterAll(text, x, "Gemm"), 1);
    EXPECT_EQ(CountAfterAll(text, x, "Split", {"merge_products"}), 0);
  }
}

TEST(MergeProducts, LeavesOthers) {
  const std::vector<Value> x = {DrawNormal(Shape{5, 4}, 1)};
  for (const char* lines : {
           // other rows; weights that come with the run, or are read elsewhere; other forms; an activation behind;
           // a residual; scaled products
           "  %x2 = Neg(%x)\n  %a = MatMul(%x, %wa)\n  %b = MatMul(%x2, %wb)\n",
           "  %w = Sin(%x)\n  %t = Transpose(%w)\n  %a = MatMul(%x, %wa)\n  %b = MatMul(%x, %t)\n",
           "  %a = MatMul(%x, %wa)\n  %c = MatMul(%x, %wb)\n  %d = ReduceSum(%wb) {keepdims = 0}\n  %x0 = Mul(%x, %d)\n"
           "  %b = MatMul(%x0, %wb)\n",
           "  %a = Gemm(%x, %wa)\n  %b = Gemm(%x, %tb) {transB = 1}\n",
           "  %a = Gemm(%x, %wa)\n  %b = MatMul(%x, %wb)\n",
           "  %a = MatMul(%x, %wa)\n  %c = MatMul(%x, %wb)\n  %b = Relu(%c)\n",
           "  %a = MatMul(%x, %wa)\n  %c = MatMul(%x, %wb)\n  %d = Sigmoid(%c)\n  %b = Mul(%c, %d)\n",
           "  %a = Gemm(%x, %wa) {alpha = 2.0}\n  %b = Gemm(%x, %wb)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(std::string(kStart) + lines + kEnd, x, "Split"), 0);
  }
  EXPECT_EQ(CountAfterAll(std::string(kStart) + "  %a = MatMul(%x, %wa)\n  %b = MatMul(%x, %wb)\n  return %a, %b\n", x,
                          "Split"),
            0);
}

// How many groups merge of two products with weights [512, columns].
int MergedOf(int64_t columns) {
  const std::unique_ptr<Graph> graph =
      Parse(WithHeader("  input %x: f32[n,512]\n  input %wa: f32[512,o]\n  input %wb: f32[512,o]\n"
                       "  const %s = i64[3] {1, -1, 1}\n  %a = MatMul(%x, %wa)\n  %b = MatMul(%x, %wb)\n" +
                       std::string(kEnd)));
  for (const char* name : {"wa", "wb"}) {
    GraphValue* v = graph->AddConstant(std::string(name) + "_drawn", DrawNormal(Shape{512, columns}, 1));
    graph->ReplaceAllUses(graph->FindValue(name), v);
  }
  EXPECT_TRUE(InferShapes(*graph).ok());
  return FindNeutralPass("merge_products")->run(*graph, nullptr).value();
}

TEST(MergeProducts, LeavesLargeWeights) {
  EXPECT_EQ(MergedOf(256), 1);
  EXPECT_EQ(MergedOf(257), 0);
}

}  // namespace
}  // namespace quern
