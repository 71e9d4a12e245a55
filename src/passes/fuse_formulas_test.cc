// GELU, layer normalization and attention that are written out, in the forms that exporters give, and forms that are
// something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "passes/pass_tester.h"

namespace quern {
namespace {

TEST(FuseGelu, BecomesOneNode) {
  EXPECT_EQ(After({"fuse_gelu"},
                  "  input %x: f32[n,4]\n"
                  "  const %r = f32[] {1.41421354}\n"
                  "  const %one = f32[] {1.0}\n"
                  "  const %half = f32[] {0.5}\n"
                  "  %d: f32[n,4] = Div(%x, %r)\n"
                  "  %e: f32[n,4] = Erf(%d)\n"
                  "  %a: f32[n,4] = Add(%e, %one)\n"
                  "  %m: f32[n,4] = Mul(%x, %a)\n"
                  "  %y: f32[n,4] = Mul(%m, %half)\n"
                  "  return %y\n"),
            "  input %x: f32[n,4]\n"
            "  %y: f32[n,4] = Gelu#20(%x) {approximate = \"none\"}\n"
            "  return %y\n");
}

constexpr char kNumbers[] =
    "  input %x: f32[2,5]\n  const %r = f32[] {1.41421354}\n  const %i = f32[] {0.70710678}\n  const %one = f32[] "
    "{1.0}\n"
    "  const %half = f32[] {0.5}\n  const %c = f32[] {0.044715}\n  const %p = f32[] {0.79788458}\n"
    "  const %three = f32[] {3.0}\n  const %two = f32[] {2.0}\n";

TEST(FuseGelu, InAnyOrderOfProducts) {
  const std::vector<Value> x = {DrawNormal(Shape{2, 5}, 1)};
  for (const char* lines : {
           "  %h = Mul(%x, %half)\n  %d = Mul(%x, %i)\n  %e = Erf(%d)\n  %a = Add(%one, %e)\n  %y = Mul(%h, %a)\n",
           "  %d = Div(%x, %r)\n  %e = Erf(%d)\n  %a = Add(%e, %one)\n  %h = Mul(%a, %half)\n  %y = Mul(%x, %h)\n",
           "  %d = Div(%x, %r)\n  %e = Erf(%d)\n  %a = Add(%e, %one)\n  %h = Mul(%a, %x)\n  %y = Div(%h, %two)\n",
           "  %q = Pow(%x, %three)\n  %k = Mul(%q, %c)\n  %s = Add(%x, %k)\n  %t = Mul(%s, %p)\n  %e = Tanh(%t)\n"
           "  %a = Add(%e, %one)\n  %h = Mul(%x, %half)\n  %y = Mul(%h, %a)\n",
           "  %q = Mul(%x, %x)\n  %q3 = Mul(%x, %q)\n  %k = Mul(%c, %q3)\n  %s = Add(%k, %x)\n  %t = Mul(%p, %s)\n"
           "  %e = Tanh(%t)\n  %a = Add(%one, %e)\n  %h = Mul(%half, %a)\n  %y = Mul(%x, %h)\n",
           "  %q = Mul(%x, %x)\n  %k = Mul(%c, %q)\n  %s = Add(%one, %k)\n  %w = Mul(%p, %x)\n  %t = Mul(%w, %s)\n"
           "  %e = Tanh(%t)\n  %a = Add(%one, %e)\n  %h = Mul(%half, %a)\n  %y = Mul(%x, %h)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(std::string(kNumbers) + lines + "  return %y\n", x, "Gelu"), 1);
    EXPECT_EQ(CountAfterAll(std::string(kNumbers) + lines + "  return %y\n", x, "Gelu", {"fuse_gelu"}), 0);
  }
}

TEST(FuseGelu, LeavesOtherFormulas) {
  const std::vector<Value> x = {DrawNormal(Shape{2, 5}, 1)};
  for (const char* lines : {
           // another number; another reader in between; another argument
           "  %h = Mul(%x, %half)\n  %d = Mul(%x, %one)\n  %e = Erf(%d)\n  %a = Add(%one, %e)\n  %y = Mul(%h, %a)\n",
           "  %h = Mul(%x, %half)\n  %d = Mul(%x, %i)\n  %e = Erf(%d)\n  %a = Add(%one, %e)\n  %z = Mul(%h, %a)\n"
           "  %y = Add(%z, %e)\n",
           "  %h = Mul(%x, %half)\n  %n = Neg(%x)\n  %d = Mul(%n, %i)\n  %e = Erf(%d)\n  %a = Add(%one, %e)\n"
           "  %y = Mul(%h, %a)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(std::string(kNumbers) + lines + "  return %y\n", x, "Gelu"), 0);
  }
}

constexpr char kNorm[] =
    "  input %x: f32[3,n,4]\n  const %two = f32[] {2.0}\n  const %one = f32[] {1.0}\n  const %eps = f32[] {0.001}\n"
    "  const %g = f32[4] {1.0, 2.0, -1.0, 0.5}\n  const %b = f32[4] {0.5, 0.0, 1.0, -2.0}\n  const %last = i64[1] "
    "{-1}\n";
constexpr char kCentered[] =
    "  %m = ReduceMean(%x) {axes = [-1]}\n  %d = Sub(%x, %m)\n  %p = Pow(%d, %two)\n  %v = ReduceMean(%p) {axes = "
    "[-1]}\n"
    "  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n";

TEST(FuseLayerNorm, BecomesOneNode) {
  const std::vector<Value> x = {DrawNormal(Shape{3, 2, 4}, 1)};
  for (const char* rest : {
           "  %q = Div(%d, %s)\n  %k = Mul(%q, %g)\n  %y = Add(%k, %b)\n",
           "  %q = Div(%d, %s)\n  %k = Mul(%g, %q)\n  %y = Add(%b, %k)\n",
           "  %q = Div(%d, %s)\n  %y = Mul(%q, %g)\n",
           "  %y = Div(%d, %s)\n",
           "  %r = Reciprocal(%s)\n  %q = Mul(%d, %r)\n  %k = Mul(%q, %g)\n  %y = Add(%k, %b)\n",
           "  %r = Div(%one, %s)\n  %q = Mul(%r, %d)\n  %k = Mul(%q, %g)\n  %y = Add(%k, %b)\n",
       }) {
    SCOPED_TRACE(rest);
    const std::string lines = std::string(kNorm) + kCentered + rest + "  return %y\n";
    EXPECT_EQ(CountAfterAll(lines, x, "LayerNormalization"), 1);
    EXPECT_EQ(CountAfterAll(lines, x, "Sqrt"), 0);
    EXPECT_EQ(CountAfterAll(lines, x, "LayerNormalization", {"fuse_layer_norm"}), 0);
  }
  const std::string rms = std::string(kNorm) +
                          "  %p = Mul(%x, %x)\n  %v = ReduceMean#18(%p, %last)\n  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n"
                          "  %q = Div(%x, %s)\n  %y = Mul(%q, %g)\n  return %y\n";
  EXPECT_EQ(CountAfterAll(rms, x, "RMSNormalization"), 1);
}

TEST(FuseLayerNorm, LeavesOtherFormulas) {
  const std::vector<Value> x = {DrawNormal(Shape{3, 2, 4}, 1)};
  for (const char* rest : {
           // another axis; a value in between that is read; a variance without its epsilon
           "  %m = ReduceMean(%x) {axes = [1]}\n  %d = Sub(%x, %m)\n  %p = Mul(%d, %d)\n"
           "  %v = ReduceMean(%p) {axes = [1]}\n  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n  %y = Div(%d, %s)\n",
           "  %m = ReduceMean(%x) {axes = [-1]}\n  %d = Sub(%x, %m)\n  %p = Mul(%d, %d)\n"
           "  %v = ReduceMean(%p) {axes = [-1]}\n  %e = Add(%v, %eps)\n  %s = Sqrt(%e)\n  %q = Div(%d, %s)\n"
           "  %y = Add(%q, %s)\n",
           "  %m = ReduceMean(%x) {axes = [-1]}\n  %d = Sub(%x, %m)\n  %p = Mul(%d, %d)\n"
           "  %v = ReduceMean(%p) {axes = [-1]}\n  %s = Sqrt(%v)\n  %y = Div(%d, %s)\n",
       }) {
    SCOPED_TRACE(rest);
    EXPECT_EQ(CountAfterAll(std::string(kNorm) + rest + "  return %y\n", x, "LayerNormalization"), 0);
  }
}

// Scales and shifts behind a normalization, whose own convolution then takes it.
TEST(FuseScales, OfChannelsAndOfAll) {
  const std::string start =
      "  input %x: f32[2,3,4,5]\n  const %w = f32[3,3,1,1] splat 0.5\n  const %s = f32[3] {1.0, 2.0, -1.0}\n"
      "  const %b = f32[3] {0.5, 0.0, 1.0}\n  const %m = f32[3] {0.1, 0.2, 0.3}\n  const %v = f32[3] {1.0, 2.0, 3.0}\n"
      "  const %f = f32[3,1,1] {2.0, -1.0, 0.5}\n  const %o = f32[1,3,1,1] {1.0, 0.0, -1.0}\n  const %k = f32[] {3.0}\n"
      "  const %row = f32[5] {1.0, 2.0, 3.0, 4.0, 5.0}\n";
  const std::vector<Value> x = {DrawNormal(Shape{2, 3, 4, 5}, 1)};
  const std::string norm = "  %n = BatchNormalization(%x, %s, %b, %m, %v)\n";
  const std::string scaled = norm + "  %c = Mul(%n, %f)\n  %d = Add(%o, %c)\n  %y = Mul(%k, %d)\n  return %y\n";
  EXPECT_EQ(CountAfterAll(start + scaled, x, "Mul"), 0);
  EXPECT_EQ(CountAfterAll(start + scaled, x, "Add"), 0);
  EXPECT_EQ(CountAfterAll(start + scaled, x, "Mul", {"fuse_scales"}), 2);
  EXPECT_EQ(CountAfterAll(start + norm + "  %y = Mul(%n, %row)\n  return %y\n", x, "Mul"), 1);
  EXPECT_EQ(CountAfterAll(start + norm + "  %y = Mul(%n, %f)\n  return %y, %n\n", x, "Mul"), 1);
}

// Queries, keys and values [2, 3, 4, 5] or [6, 4, 5], a mask of any form.
struct AttentionCase {
  const char* inputs;
  const char* lines;
  std::vector<Shape> shapes;
};

std::vector<Value> Draws(const std::vector<Shape>& shapes) {
  std::vector<Value> values;
  for (const Shape& s : shapes) values.push_back(DrawNormal(s, static_cast<unsigned>(values.size()) + 5));
  return values;
}

TEST(FuseAttention, BecomesOneNode) {
  const Shape heads{2, 3, 4, 5}, keys{2, 3, 6, 5}, turned{2, 3, 5, 6}, rows{6, 4, 5};
  const std::string scale = "  const %s = f32[] {0.4472136}\n  const %r = f32[] {2.236068}\n";
  const AttentionCase cases[] = {
      {"  input %q: f32[2,3,n,5]\n  input %k: f32[2,3,m,5]\n  input %v: f32[2,3,m,5]\n",
       "  %t = Transpose(%k) {perm = [0, 1, 3, 2]}\n  %p = MatMul(%q, %t)\n  %c = Mul(%p, %s)\n  %w = Softmax(%c)\n"
       "  %y = MatMul(%w, %v)\n",
       {heads, keys, keys}},
      {"  input %q: f32[2,3,n,5]\n  input %k: f32[2,3,5,m]\n  input %v: f32[2,3,m,5]\n  input %a: f32[2,1,1,m]\n",
       "  %p = MatMul(%q, %k)\n  %c = Div(%p, %r)\n  %b = Add(%c, %a)\n  %w = Softmax(%b) {axis = 3}\n"
       "  %y = MatMul(%w, %v)\n",
       {heads, turned, keys, Shape{2, 1, 1, 6}}},
      // Scales on both sides of the product; a mask whose columns go by another name.
      {"  input %q: f32[2,3,n,5]\n  input %k: f32[2,3,5,m]\n  input %v: f32[2,3,m,5]\n  input %a: f32[1,1,n,o]\n",
       "  %q1 = Mul(%q, %s)\n  %k1 = Mul(%s, %k)\n  %p = MatMul(%q1, %k1)\n  %b = Add(%a, %p)\n  %w = Softmax(%b)\n"
       "  %y = MatMul(%w, %v)\n",
       {heads, turned, keys, Shape{1, 1, 4, 6}}},
      {"  input %q: f32[2,3,n,5]\n  input %k: f32[2,3,5,m]\n  input %v: f32[2,3,m,5]\n  input %a: f32[2,3,n,1]\n",
       "  %p = MatMul(%q, %k)\n  %b = Add(%p, %a)\n  %w = Softmax(%b)\n  %y = MatMul(%w, %v)\n",
       {heads, turned, keys, Shape{2, 3, 4, 1}}},
      {"  input %q: f32[6,n,5]\n  input %k: f32[6,n,5]\n  input %v: f32[6,n,5]\n  input %a: f32[6,1,n]\n",
       "  %t = Transpose(%k) {perm = [0, 2, 1]}\n  %p = MatMul(%q, %t)\n  %b = Add(%p, %a)\n  %w = Softmax(%b)\n"
       "  %y = MatMul(%w, %v)\n",
       {rows, rows, rows, Shape{6, 1, 4}}},
  };
  for (const AttentionCase& c : cases) {
    SCOPED_TRACE(std::string(c.inputs) + c.lines);
    const std::string lines = c.inputs + scale + c.lines + "  return %y\n";
    EXPECT_EQ(CountAfterAll(lines, Draws(c.shapes), "Attention"), 1);
    EXPECT_EQ(CountAfterAll(lines, Draws(c.shapes), "Softmax"), 0);
    EXPECT_EQ(CountAfterAll(lines, Draws(c.shapes), "Attention", {"fuse_attention"}), 0);
  }
}

TEST(FuseAttention, LeavesOtherProducts) {
  const Shape heads{2, 3, 4, 5}, turned{2, 3, 5, 4};
  const std::string inputs = "  input %q: f32[2,3,4,5]\n  input %k: f32[2,3,5,4]\n  input %v: f32[2,3,4,5]\n";
  for (const char* lines : {
           // weights that are read; a softmax over queries; keys for all heads
           "  %p = MatMul(%q, %k)\n  %w = Softmax(%p)\n  %z = MatMul(%w, %v)\n  %y = Concat(%z, %w) {axis = 3}\n",
           "  %p = MatMul(%q, %k)\n  %w = Softmax(%p) {axis = 2}\n  %y = MatMul(%w, %v)\n",
           "  %k1 = ReduceMean(%k) {axes = [1]}\n  %p = MatMul(%q, %k1)\n  %w = Softmax(%p)\n  %y = MatMul(%w, %v)\n",
       }) {
    SCOPED_TRACE(lines);
    EXPECT_EQ(CountAfterAll(inputs + lines + "  return %y\n", Draws({heads, turned, heads}), "Attention"), 0);
  }
}

// Rows of all heads go in and out, as a layer of a transformer has them.
TEST(AttendWithinRows, LeavesNoTranspose) {
  const std::string lines =
      "  input %q: f32[b,n,10]\n  input %k: f32[b,n,10]\n  input %v: f32[b,n,10]\n  const %s = i64[4] {0, 0, 2, 5}\n"
      "  const %j = i64[3] {0, 0, -1}\n"
      "  %q4 = Reshape(%q, %s)\n  %k4 = Reshape(%k, %s)\n  %v4 = Reshape(%v, %s)\n"
      "  %qh = Transpose(%q4) {perm = [0, 2, 1, 3]}\n  %kh = Transpose(%k4) {perm = [0, 2, 3, 1]}\n"
      "  %vh = Transpose(%v4) {perm = [0, 2, 1, 3]}\n  %p = MatMul(%qh, %kh)\n  %w = Softmax(%p)\n"
      "  %h = MatMul(%w, %vh)\n  %t = Transpose(%h) {perm = [0, 2, 1, 3]}\n  %y = Reshape(%t, %j)\n  return %y\n";
  const std::vector<Value> inputs = Draws({Shape{2, 3, 10}, Shape{2, 3, 10}, Shape{2, 3, 10}});
  EXPECT_EQ(CountAfterAll(lines, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Transpose"), 0);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Reshape"), 0);
  EXPECT_GT(CountAfterAll(lines, inputs, "Transpose", {"attend_within_rows"}), 0);
}

// The layers of PyTorch's encoders give [sequence, batch, ...]: one transpose is left, of whole rows.
TEST(AttendWithinRows, PutsSequencesFirst) {
  const std::string lines =
      "  input %q: f32[b,2,n,5]\n  input %k: f32[b,2,n,5]\n  input %v: f32[b,2,n,5]\n"
      "  %k4 = Relu(%k)\n  %v4 = Relu(%v)\n"
      "  %kh = Transpose(%k4) {perm = [0, 1, 3, 2]}\n  %p = MatMul(%q, %kh)\n  %w = Softmax(%p)\n"
      "  %h = MatMul(%w, %v4)\n  %y = Transpose(%h) {perm = [2, 0, 1, 3]}\n  return %y\n";
  const std::vector<Value> inputs = Draws({Shape{3, 2, 4, 5}, Shape{3, 2, 4, 5}, Shape{3, 2, 4, 5}});
  EXPECT_EQ(CountAfterAll(lines, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Reshape", {"attend_within_rows"}), 0);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Reshape"), 4) << "three of operands, one of the result";
  EXPECT_EQ(CountAfterAll(lines, inputs, "Transpose"), 4);
}

// Keys and values of a cache lie by heads, as they come or with the new ones behind them.
TEST(AttendWithinRows, LeavesCachesAsTheyLie) {
  const std::string lines =
      "  input %q: f32[b,n,10]\n  input %past: f32[b,2,m,5]\n  input %v: f32[b,2,m,5]\n"
      "  const %s = i64[4] {0, 0, 2, 5}\n  const %j = i64[3] {0, 0, -1}\n"
      "  %q4 = Reshape(%q, %s)\n  %qh = Transpose(%q4) {perm = [0, 2, 1, 3]}\n"
      "  %new = Relu(%qh)\n  %keys = Concat(%past, %new) {axis = 2}\n"
      "  %values = Concat(%v, %new) {axis = 2}\n  %kh = Transpose(%keys) {perm = [0, 1, 3, 2]}\n  %p = MatMul(%qh, "
      "%kh)\n  %w = Softmax(%p)\n"
      "  %h = MatMul(%w, %values)\n  %t = Transpose(%h) {perm = [0, 2, 1, 3]}\n  %y = Reshape(%t, %j)\n  return %y\n";
  const std::vector<Value> inputs = Draws({Shape{2, 1, 10}, Shape{2, 2, 6, 5}, Shape{2, 2, 6, 5}});
  EXPECT_EQ(CountAfterAll(lines, inputs, "Attention"), 1);
  EXPECT_EQ(CountAfterAll(lines, inputs, "Transpose"), 2) << "of the queries and of the result";
}

TEST(UnflattenGemm, TakesRowsAsTheyAre) {
  const std::string start =
      "  input %x: f32[b,n,4]\n  const %w = f32[4,3] splat 0.5\n  const %wt = f32[3,4] splat 0.25\n"
      "  const %c = f32[3] {1.0, -2.0, 0.5}\n  const %k = i64[2] {-1, 4}\n  %s = Shape(%x) {end = 2}\n"
      "  const %j = i64[1] {3}\n  %to = Concat(%s, %j) {axis = 0}\n  %r = Reshape(%x, %k)\n";
  const std::vector<Value> x = {DrawNormal(Shape{2, 5, 4}, 1)};
  for (const char* gemm :
       {"  %g = Gemm(%r, %w, %c)\n", "  %g = Gemm(%r, %w)\n", "  %g = Gemm(%r, %wt, %c) {transB = 1}\n"}) {
    SCOPED_TRACE(gemm);
    const std::string lines = start + gemm + "  %y = Reshape(%g, %to)\n  return %y\n";
    EXPECT_EQ(CountAfterAll(lines, x, "MatMul"), 1);
    EXPECT_EQ(CountAfterAll(lines, x, "Reshape"), 0);
    EXPECT_EQ(CountAfterAll(lines, x, "Gemm", {"unflatten_gemm"}), 1);
  }
  for (const char* gemm : {"  %g = Gemm(%r, %w, %c) {alpha = 2.0}\n", "  %g = Gemm(%r, %w, %c) {beta = 0.5}\n"}) {
    SCOPED_TRACE(gemm);
    EXPECT_EQ(CountAfterAll(start + gemm + "  %y = Reshape(%g, %to)\n  return %y\n", x, "MatMul"), 0);
  }
  // Other rows behind than before.
  EXPECT_EQ(CountAfterAll(start + "  const %o = i64[3] {5, 2, 3}\n  %g = Gemm(%r, %w)\n  %y = Reshape(%g, %o)\n"
                                  "  return %y\n",
                          x, "MatMul"),
            0);
}

// Inference does not check what is inside of an operator that it does not know: operands may be missing, types may be
// those of nothing.
TEST(FusingPasses, LeaveNodesThatLackOperands) {
  std::string lines;
  int count = 0;
  const auto add = [&](const std::string& node) { lines += "  %n" + std::to_string(count++) + " = " + node + "\n"; };
  std::istringstream operators(
      "Add Mul Div Sub Pow MatMul Gemm Softmax Transpose Reshape Erf Sqrt ReduceMean BatchNormalization "
      "Attention Reciprocal Tanh Neg Flatten Squeeze Clip Max Min PRelu Relu Log Exp Sigmoid HardSigmoid "
      "Softplus InstanceNormalization Slice Concat Split Unsqueeze Expand Gather Cos Pad Conv ConvInteger MaxPool "
      "AveragePool ReduceL2 ReduceSum Abs Where Less Tile Einsum IsNaN Shape Cast Not");
  for (std::string op; operators >> op;) {
    add(op + "(%v)");
    add(op + "()");
    add(op + "(_, %v)");
    add(op + "(%n" + std::to_string(count - 1) + ", %n" + std::to_string(count - 3) + ")");
    add("Mul(%n" + std::to_string(count - 1) + ", %half)");
    add("Add(%n" + std::to_string(count - 1) + ", %half)");
    add("Div(%v, %n" + std::to_string(count - 1) + ")");
    add("ReduceMean#18(%n" + std::to_string(count - 1) + ", %text)");
    add("Reshape(%n" + std::to_string(count - 1) + ", %text)");
  }
  const std::string text =
      "  input %x: f32[2,3]\n  %y: f32[2,3] = Unknown(%x) {\n    body = graph {\n      input %v: f32[*]\n"
      "      const %half = f32[] {0.5}\n      const %text = string[1] {\"-1\"}\n" +
      lines + "      return %n0\n    }\n  }\n  return %y\n";
  const std::unique_ptr<Graph> graph = Parse(WithHeader(text));
  ASSERT_NE(graph, nullptr);
  const Result<std::vector<PassReport>> reports = RunPasses(*graph, NeutralPasses(), {});
  EXPECT_TRUE(reports.ok()) << reports.status().message();
}

TEST(MergeReshapes, OnlyTheLastShapeCounts) {
  EXPECT_EQ(After({"merge_reshapes"},
                  "  input %x: f32[2,n,6]\n"
                  "  const %s = i64[2] {-1, 3}\n"
                  "  const %t = i64[3] {2, 2, -1}\n"
                  "  %a: f32[4*n,3] = Reshape(%x, %s)\n"
                  "  %y: f32[2,2,3*n] = Reshape(%a, %t)\n"
                  "  return %y\n"),
            "  input %x: f32[2,n,6]\n"
            "  const %t = i64[3] {2, 2, -1}\n"
            "  %y: f32[2,2,3*n] = Reshape(%x, %t)\n"
            "  return %y\n");
  // A zero copies an extent of what is between.
  const std::string copies =
      "  input %x: f32[2,n,6]\n"
      "  const %s = i64[2] {-1, 3}\n"
      "  const %t = i64[2] {0, -1}\n"
      "  %a: f32[4*n,3] = Reshape(%x, %s)\n"
      "  %y: f32[4*n,3] = Reshape(%a, %t)\n"
      "  return %a, %y\n";
  EXPECT_EQ(After({"merge_reshapes"}, copies), copies);
}

TEST(MergeReshapes, BackToTheFirstShapeIsNothing) {
  EXPECT_EQ(After({"merge_reshapes"},
                  "  input %x: f32[2,n]\n"
                  "  const %s = i64[1] {-1}\n"
                  "  const %t = i64[2] {2, -1}\n"
                  "  %r: f32[2,n] = Relu(%x)\n"
                  "  %a: f32[2*n] = Reshape(%r, %s)\n"
                  "  %b: f32[2,n] = Reshape(%a, %t)\n"
                  "  %y: f32[2,n] = Neg(%b)\n"
                  "  return %y\n"),
            "  input %x: f32[2,n]\n"
            "  %r: f32[2,n] = Relu(%x)\n"
            "  %y: f32[2,n] = Neg(%r)\n"
            "  return %y\n");
}

}  // namespace
}  // namespace quern
