#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/random_numbers.h"
#include "graph/verifier.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "passes/pass_tester.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(NeutralPasses, AreListedInOrder) {
  std::vector<std::string> names;
  for (const Pass* p : NeutralPasses()) names.push_back(p->name);
  EXPECT_EQ(names.front(), "infer_shapes");
  EXPECT_EQ(names.back(), "eliminate_dead_code");
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(FindNeutralPass("no_such_pass"), nullptr);
}

TEST(EliminateDeadCode, RemovesWhatNothingNeeds) {
  EXPECT_EQ(After({"eliminate_dead_code"},
                  "  input %x: f32[2]\n"
                  "  input %unused: f32[2]\n"
                  "  const %c = f32[] {1.0}\n"
                  "  const %d = f32[] {2.0}\n"
                  "  %a: f32[2] = Relu(%x)\n"
                  "  %b: f32[2] = Add(%a, %c)\n"
                  "  %y: f32[2], %i: i64[2] = TopK(%x, %d)\n"
                  "  return %y, %x\n"),
            "  input %x: f32[2]\n"
            "  input %unused: f32[2]\n"
            "  const %d = f32[] {2.0}\n"
            "  %y: f32[2], %i: i64[2] = TopK(%x, %d)\n"
            "  return %y, %x\n");
}

TEST(EliminateDeadCode, RemovesCaptures) {
  EXPECT_EQ(After({"eliminate_dead_code"},
                  "  input %c: bool[]\n"
                  "  input %p: f32[2]\n"
                  "  input %q: f32[2]\n"
                  "  %y: f32[2] = If(%c) captures(%p, %q) {\n"
                  "    else_branch = graph {\n"
                  "      input %p: f32[2]\n"
                  "      input %q: f32[2]\n"
                  "      %dead: f32[2] = Relu(%p)\n"
                  "      %r: f32[2] = Relu(%q)\n"
                  "      return %r\n"
                  "    },\n"
                  "    then_branch = graph {\n"
                  "      input %p: f32[2]\n"
                  "      input %q: f32[2]\n"
                  "      return %q\n"
                  "    }\n"
                  "  }\n"
                  "  return %y\n"),
            "  input %c: bool[]\n"
            "  input %p: f32[2]\n"
            "  input %q: f32[2]\n"
            "  %y: f32[2] = If(%c) captures(%q) {\n"
            "    else_branch = graph {\n"
            "      input %q: f32[2]\n"
            "      %r: f32[2] = Relu(%q)\n"
            "      return %r\n"
            "    },\n"
            "    then_branch = graph {\n"
            "      input %q: f32[2]\n"
            "      return %q\n"
            "    }\n"
            "  }\n"
            "  return %y\n");
}

TEST(FoldConstants, ComputesConstantNodes) {
  EXPECT_EQ(After({"fold_constants", "eliminate_dead_code"},
                  "  input %x: f32[2]\n"
                  "  const %a = f32[2] {1.0, 2.0}\n"
                  "  const %b = f32[2] {2.0, 4.0}\n"
                  "  %sum: f32[2] = Add(%a, %b)\n"
                  "  %neg: f32[2] = Neg(%sum)\n"
                  "  %y: f32[2] = Add(%x, %neg)\n"
                  "  return %y, %sum\n"),
            "  input %x: f32[2]\n"
            "  const %sum = f32[2] {3.0, 6.0}\n"
            "  const %neg = f32[2] {-3.0, -6.0}\n"
            "  %y: f32[2] = Add(%x, %neg)\n"
            "  return %y, %sum\n");
}

TEST(FoldConstants, SpellsOutKnownData) {
  EXPECT_EQ(After({"fold_constants"},
                  "  input %x: f32[2,3]\n"
                  "  %s: i64[2] data [2,3] = Shape(%x)\n"
                  "  %t: i64[2] data [n,3] = Shape(%x)\n"
                  "  return %s, %t\n"),
            "  input %x: f32[2,3]\n"
            "  const %s data [2,3] = i64[2] {2, 3}\n"
            "  %t: i64[2] data [n,3] = Shape(%x)\n"
            "  return %s, %t\n");
}

TEST(FoldConstants, KeepsRandomLargeQuantizedAndUnknown) {
  const std::string lines =
      "  const %a = f32[2] {1.0, 2.0}\n"
      "  const %q = i8[2] {1, 2}\n"
      "  const %scale = f32[] {0.5}\n"
      "  const %big = i64[2] splat 4096\n"
      "  const %wrong = f32[3] {1.0, 2.0, 3.0}\n"
      "  const %blocks = q4_0[32] hex \"000000000000000000000000000000000000\"\n"
      "  %r: f32[2] = RandomNormalLike(%a)\n"
      "  %d: f32[2] = DequantizeLinear(%q, %scale)\n"
      "  %e: f32[4096,4096] = ConstantOfShape(%big)\n"
      "  %f = Add(%a, %wrong)\n"
      "  %g = Cast(%blocks) {to = 1}\n"
      "  %h = my.domain::Add(%a, %a)\n"
      "  return %r, %d, %e, %f, %g, %h\n";
  EXPECT_EQ(After({"fold_constants"}, lines), lines);
}

// 320 KB from 5 KB: gathered once, as elements lie elsewhere, but not repeated.
TEST(FoldConstants, GathersButDoesNotRepeat) {
  const std::string lines =
      "  const %table = f32[2,400] splat 2.0\n  const %at = i64[200] splat 1\n  const %shape = i64[2] {200, 400}\n"
      "  const %row = f32[400] splat 3.0\n";
  const std::string after = After({"fold_constants"}, lines +
                                                          "  %g: f32[200,400] = Gather(%table, %at)\n"
                                                          "  %e: f32[200,400] = Expand(%row, %shape)\n"
                                                          "  return %g, %e\n");
  EXPECT_THAT(after, ::testing::AllOf(::testing::Not(HasSubstr("Gather(")), HasSubstr("%g"), HasSubstr("= Expand(")));
}

// Products read weights either way round; what else reads them wants them in place.
TEST(FoldConstants, KeepsLargeWeightsThatAreTransposedForProducts) {
  const auto folded = [](int64_t columns, bool read_elsewhere) {
    Graph graph;
    graph.opset_imports[""] = 17;
    GraphValue* x = graph.AddInput("x", ValueType::Tensor(DType::kF32, Dims{2, 512}));
    GraphValue* w = graph.AddConstant("w", DrawNormal(Shape{columns, 512}, 1));
    const auto op = [&](const char* type, std::vector<GraphValue*> inputs) {
      GraphValue* y = graph.AddNode({.op_type = type, .inputs = std::move(inputs), .outputs = {type}})->output(0);
      graph.AddOutput(y);
      return y;
    };
    GraphValue* t = graph.AddNode({.op_type = "Transpose", .inputs = {w}, .outputs = {"t"}})->output(0);
    op("MatMul", {x, t});
    if (read_elsewhere) op("Relu", {t});
    w->set_type(TypeOf(*w->constant()));
    EXPECT_TRUE(InferShapes(graph).ok());
    return RunPasses(graph, std::vector<const Pass*>{FindNeutralPass("fold_constants")}, {}).value()[0].changes;
  };
  EXPECT_EQ(folded(512, false), 0);
  EXPECT_EQ(folded(511, false), 1) << "small";
  EXPECT_GE(folded(512, true), 1);
}

TEST(InlineConstantIf, TakesTheBranch) {
  const std::string lines =
      "  input %x: f32[2]\n"
      "  const %c = bool[] {true}\n"
      "  %y: f32[2], %z: f32[2], %u: f32[2] = If(%c) captures(%x) {\n"
      "    else_branch = graph {\n"
      "      input %x: f32[2]\n"
      "      return %x, %x, %x\n"
      "    },\n"
      "    then_branch = graph {\n"
      "      input %v: f32[2]\n"
      "      const %x = f32[2] {1.0, 2.0}\n"
      "      %r: f32[2] = Add(%v, %x)\n"
      "      return %r, %v, %r\n"
      "    }\n"
      "  }\n"
      "  %w: f32[2] = Relu(%u)\n"
      "  return %y, %z, %w\n";
  EXPECT_EQ(After({"inline_constant_if"}, lines),
            "  input %x: f32[2]\n"
            "  const %x_0 = f32[2] {1.0, 2.0}\n"
            "  %y: f32[2] = Add(%x, %x_0)\n"
            "  %z: f32[2] = Identity(%x)\n"
            "  %w: f32[2] = Relu(%y)\n"
            "  return %y, %z, %w\n");
  std::string unknown = lines;
  unknown.replace(unknown.find("const %c = bool[] {true}"), 24, "input %c: bool[]");
  EXPECT_EQ(After({"inline_constant_if"}, unknown), unknown);
}

TEST(PushConstants, SharesThemWithSubgraphs) {
  EXPECT_EQ(After({"push_constants_into_subgraphs"},
                  "  input %c: bool[]\n"
                  "  input %x: f32[2]\n"
                  "  const %w = f32[2] {1.0, 2.0}\n"
                  "  %y: f32[2] = If(%c) captures(%w, %x) {\n"
                  "    else_branch = graph {\n"
                  "      input %p: f32[2]\n"
                  "      input %q: f32[2]\n"
                  "      return %p\n"
                  "    },\n"
                  "    then_branch = graph {\n"
                  "      input %p: f32[2]\n"
                  "      input %q: f32[2]\n"
                  "      %r: f32[2] = Add(%p, %q)\n"
                  "      return %r\n"
                  "    }\n"
                  "  }\n"
                  "  return %y\n"),
            "  input %c: bool[]\n"
            "  input %x: f32[2]\n"
            "  const %w = f32[2] {1.0, 2.0}\n"
            "  %y: f32[2] = If(%c) captures(%x) {\n"
            "    else_branch = graph {\n"
            "      input %q: f32[2]\n"
            "      const %p = f32[2] {1.0, 2.0}\n"
            "      return %p\n"
            "    },\n"
            "    then_branch = graph {\n"
            "      input %q: f32[2]\n"
            "      const %p = f32[2] {1.0, 2.0}\n"
            "      %r: f32[2] = Add(%p, %q)\n"
            "      return %r\n"
            "    }\n"
            "  }\n"
            "  return %y\n");
}

TEST(EliminateIdentity, RemovesNodesThatChangeNothing) {
  // Each node takes %x and must go; the Relu keeps the graph's output apart from the input.
  for (const char* node : {"Identity(%x)",
                           "Dropout(%x)",
                           "Dropout#10(%x)",
                           "Dropout(%x, %one, %false)",
                           "Cast(%x) {to = 1}",
                           "CastLike(%x, %one)",
                           "Reshape(%x, %shape)",
                           "Transpose(%x) {perm = [0, 1]}",
                           "Concat(%x) {axis = 0}",
                           "Sum(%x)",
                           "Max(%x)",
                           "Pad(%x, %zeros)",
                           "Pad#2(%x) {pads = [0, 0, 0, 0]}",
                           "Slice(%x, %start, %end)",
                           "Slice(%x, %start, %any, %start, %step)",
                           "Slice#1(%x) {ends = [9223372036854775807], starts = [0]}",
                           "Add(%x, %minus_zero)",
                           "Add(%minus_zero, %x)",
                           "Sub(%x, %zero)",
                           "Mul(%one, %x)",
                           "Div(%x, %one)",
                           "Squeeze(%x)",
                           "Expand(%x, %shape)"}) {
    const std::string constants =
        "  const %one = f32[1,1] {1.0}\n  const %zero = f32[] {0.0}\n  const %minus_zero = f32[] {-0.0}\n"
        "  const %false = bool[] {false}\n  const %shape = i64[2] {-1, 3}\n  const %zeros = i64[4] splat 0\n"
        "  const %start = i64[1] {0}\n  const %end = i64[1] {2147483647}\n  const %any = i64[1] {77}\n"
        "  const %step = i64[1] {1}\n";
    EXPECT_EQ(After({"eliminate_identity", "eliminate_dead_code"},
                    "  input %x: f32[n,3]\n" + constants + "  %a: f32[n,3] = " + node +
                        "\n  %y: f32[n,3] = Relu(%a)\n" + "  return %y\n"),
              "  input %x: f32[n,3]\n  %y: f32[n,3] = Relu(%x)\n  return %y\n")
        << node;
  }
}

TEST(EliminateIdentity, KeepsNodesThatChangeSomething) {
  for (const char* node : {"f32[n,3] = Add(%x, %zero)", "f32[n,3] = Sub(%x, %minus_zero)", "f32[n,3] = Sub(%zero, %x)",
                           "f32[n,3] = Div(%one, %x)", "f32[1,n,3] = Mul(%x, %ones)", "f32[m,3] = Reshape(%x, %shape)",
                           "f32[*] = Reshape(%x, %shape)", "f32[n,3] = Transpose(%x) {perm = [1, 0]}",
                           "f32[n,3] = Concat(%x, %x) {axis = 0}", "f64[n,3] = Cast(%x) {to = 11}",
                           "f32[n,3] = Dropout(%x, %one, %true)", "f32[n,3] = Slice(%x, %start, %any, %start, %back)",
                           "f32[n,3] = Pad(%x, %shape)", "f32[n,3] = other::Identity(%x)"}) {
    const std::string lines =
        "  input %x: f32[n,3]\n  const %one = f32[1,1] {1.0}\n  const %ones = f32[1,1,1] {1.0}\n"
        "  const %zero = f32[] {0.0}\n  const %minus_zero = f32[] {-0.0}\n  const %true = bool[] {true}\n"
        "  const %shape = i64[2] {-1, 3}\n  const %start = i64[1] {-1}\n  const %any = i64[1] {-77}\n"
        "  const %back = i64[1] {-1}\n  %a: " +
        std::string(node) + "\n  %y = Relu(%a)\n  return %y\n";
    EXPECT_EQ(After({"eliminate_identity"}, lines), lines) << node;
  }
}

TEST(EliminateIdentity, KeepsTheNamesOfOutputs) {
  // The producer takes the output's name; from an input or another output nothing can.
  EXPECT_EQ(After({"eliminate_identity"},
                  "  input %x: f32[2]\n"
                  "  const %c = f32[1] {5.0}\n"
                  "  %a: f32[2] = Relu(%x)\n"
                  "  %y: f32[2] = Identity(%a)\n"
                  "  %z: f32[2] = Identity(%x)\n"
                  "  %u: f32[2] = Identity(%a)\n"
                  "  %k: f32[1] = Identity(%c)\n"
                  "  return %y, %z, %u, %k\n"),
            "  input %x: f32[2]\n"
            "  const %k = f32[1] {5.0}\n"
            "  %y: f32[2] = Relu(%x)\n"
            "  %z: f32[2] = Identity(%x)\n"
            "  %u: f32[2] = Identity(%y)\n"
            "  return %y, %z, %u, %k\n");
}

TEST(CancelTransposes, MergesPairs) {
  EXPECT_EQ(After({"cancel_transposes"},
                  "  input %x: f32[2,3,4]\n"
                  "  %a: f32[3,2,4] = Transpose(%x) {perm = [1, 0, 2]}\n"
                  "  %b: f32[2,3,4] = Transpose(%a) {perm = [1, 0, 2]}\n"
                  "  %y: f32[2,3,4] = Relu(%b)\n"
                  "  %c: f32[4,3,2] = Transpose(%x)\n"
                  "  %z: f32[3,2,4] = Transpose(%c) {perm = [1, 2, 0]}\n"
                  "  return %y, %z\n"),
            "  input %x: f32[2,3,4]\n"
            "  %y: f32[2,3,4] = Relu(%x)\n"
            "  %z: f32[3,2,4] = Transpose(%x) {perm = [1, 0, 2]}\n"
            "  return %y, %z\n");
}

TEST(CommonSubexpressions, AreComputedOnce) {
  EXPECT_EQ(After({"eliminate_common_subexpressions", "eliminate_dead_code"},
                  "  input %x: f32[2]\n"
                  "  const %p = f32[] {1.0}\n"
                  "  const %q = f32[] {1.0}\n"
                  "  const %r = i32[] {1065353216}\n"
                  "  %a: f32[2] = Add(%x, %p)\n"
                  "  %b: f32[2] = Add(%x, %q)\n"
                  "  %c: f32[2] = LeakyRelu(%a) {alpha = 0.5}\n"
                  "  %d: f32[2] = LeakyRelu(%b) {alpha = 0.5}\n"
                  "  %e: f32[2] = LeakyRelu(%b) {alpha = 0.25}\n"
                  "  %n: f32[2] = RandomNormalLike(%x)\n"
                  "  %m: f32[2] = RandomNormalLike(%x)\n"
                  "  return %c, %d, %e, %n, %m, %r\n"),
            "  input %x: f32[2]\n"
            "  const %p = f32[] {1.0}\n"
            "  const %r = i32[] {1065353216}\n"
            "  %a: f32[2] = Add(%x, %p)\n"
            "  %c: f32[2] = LeakyRelu(%a) {alpha = 0.5}\n"
            "  %d: f32[2] = LeakyRelu(%a) {alpha = 0.5}\n"
            "  %e: f32[2] = LeakyRelu(%a) {alpha = 0.25}\n"
            "  %n: f32[2] = RandomNormalLike(%x)\n"
            "  %m: f32[2] = RandomNormalLike(%x)\n"
            "  return %c, %d, %e, %n, %m, %r\n");
}

TEST(InferShapes, ResolvesReshapeChains) {
  const std::string text = After({"infer_shapes", "fold_constants", "eliminate_dead_code"},
                                 "  input %x: f32[batch,4,8]\n"
                                 "  const %zero = i64[1] {0}\n"
                                 "  const %minus = i64[1] {-1}\n"
                                 "  %s = Shape(%x)\n"
                                 "  %b = Gather(%s, %zero)\n"
                                 "  %t = Concat(%b, %minus) {axis = 0}\n"
                                 "  %y = Reshape(%x, %t)\n"
                                 "  return %y\n");
  EXPECT_THAT(text, HasSubstr("%y: f32[batch,32] = Reshape("));
  EXPECT_THAT(text, HasSubstr("data [batch,-1]"));
}

// Fills the constants' "@" with random numbers, so that graphs stay short.
std::string Randomize(std::string text, uint64_t seed) {
  std::mt19937_64 random(seed);
  UniformNumbers<float> uniform(0.25f, 2.0f);
  for (size_t at; (at = text.find('@')) != std::string::npos;) {
    const size_t end = text.find('}', at);
    int count = std::stoi(text.substr(at + 1, end - at - 1));
    std::string numbers;
    for (; count > 0; --count) {
      numbers += (numbers.empty() ? "" : ", ") + std::to_string(uniform(random) * (random() % 2 ? 1 : 1));
    }
    text.replace(at, end - at, numbers);
  }
  return text;
}

void ExpectSameResults(const std::string& lines, const char* gone) {
  const std::string text = WithHeader(Randomize(lines, 7));
  std::unique_ptr<Graph> before = Parse(text), after = Parse(text);
  ASSERT_NE(before, nullptr);
  ASSERT_TRUE(InferShapes(*before).ok());
  const Result<std::vector<PassReport>> reports = RunPasses(*after, NeutralPasses(), {});
  ASSERT_TRUE(reports.ok()) << reports.status().message();
  EXPECT_THAT(PrintGraph(*after), Not(HasSubstr(gone)));
  std::mt19937_64 random(3);
  std::vector<Value> inputs;
  for (const GraphValue* v : before->inputs()) {
    Shape shape;
    for (const Dim& d : *v->type().shape) shape.push_back(d.value());
    Tensor t = Tensor::Allocate(DType::kF32, shape).value();
    for (float& f : t.values<float>()) f = UniformNumbers<float>(-1, 1)(random);
    inputs.push_back(t);
  }
  const Result<std::vector<Value>> a = EvaluateGraph(*before, inputs), b = EvaluateGraph(*after, inputs);
  ASSERT_TRUE(a.ok()) << a.status().message();
  ASSERT_TRUE(b.ok()) << b.status().message();
  ASSERT_EQ(a->size(), b->size());
  for (size_t i = 0; i < a->size(); ++i) {
    const Tensor &x = (*a)[i].tensor(), &y = (*b)[i].tensor();
    ASSERT_TRUE(x.shape() == y.shape());
    for (int64_t k = 0; k < x.num_elements(); ++k) {
      const float p = x.data<float>()[k], q = y.data<float>()[k];
      ASSERT_NEAR(p, q, 1e-5f * (1 + std::abs(p))) << "output " << i << " element " << k;
    }
  }
}

constexpr const char* kNorm = "%s, %o, %m, %v) {epsilon = 0.125}\n  return %y\n";

TEST(FuseConvBatchNorm, Conv) {
  const std::string norm4 =
      "  const %s = f32[4] {@4}\n  const %o = f32[4] {@4}\n  const %m = f32[4] {@4}\n  const %v = f32[4] {@4}\n";
  ExpectSameResults("  input %x: f32[1,4,5,5]\n  const %w = f32[4,2,3,3] {@72}\n  const %b = f32[4] {@4}\n" + norm4 +
                        "  %a = Conv(%x, %w, %b) {group = 2, pads = [1, 1, 1, 1]}\n  %y = BatchNormalization(%a, " +
                        kNorm,
                    "BatchNormalization");
  ExpectSameResults("  input %x: f32[1,2,5]\n  const %w = f32[4,2,3] {@24}\n" + norm4 +
                        "  %a = Conv(%x, %w)\n  %y = BatchNormalization(%a, " + kNorm,
                    "BatchNormalization");
}

TEST(FuseConvBatchNorm, ConvTransposeAndGemm) {
  const std::string norm6 =
      "  const %s = f32[6] {@6}\n  const %o = f32[6] {@6}\n  const %m = f32[6] {@6}\n  const %v = f32[6] {@6}\n";
  ExpectSameResults(
      "  input %x: f32[1,4,3,3]\n  const %w = f32[4,3,2,2] {@48}\n  const %b = f32[6] {@6}\n" + norm6 +
          "  %a = ConvTranspose(%x, %w, %b) {group = 2, strides = [2, 2]}\n  %y = BatchNormalization(%a, " + kNorm,
      "BatchNormalization");
  for (const char* gemm :
       {"f32[3,6] {@18}\n  const %b = f32[6] {@6}\n", "f32[3,6] {@18}\n  const %b = f32[1,6] {@6}\n"}) {
    ExpectSameResults("  input %x: f32[2,3]\n  const %w = " + std::string(gemm) + norm6 +
                          "  %a = Gemm(%x, %w, %b) {alpha = 0.5, beta = 3.0}\n  %y = BatchNormalization(%a, " + kNorm,
                      "BatchNormalization");
  }
  ExpectSameResults("  input %x: f32[2,3]\n  const %w = f32[6,3] {@18}\n" + norm6 +
                        "  %a = Gemm(%x, %w) {transB = 1}\n  %y = BatchNormalization(%a, " + kNorm,
                    "BatchNormalization");
}

// Rows of any number of dimensions that become two.
TEST(FuseConvBatchNorm, ColumnsOfAProduct) {
  const std::string norm6 =
      "  const %w = f32[4,6] {@24}\n  const %c = f32[6] {@6}\n  const %rows = i64[2] {-1, 6}\n"
      "  const %s = f32[6] {@6}\n  const %o = f32[6] {@6}\n  const %m = f32[6] {@6}\n  const %v = f32[6] {@6}\n";
  for (const char* rest : {"input %x: f32[2,3,4]\n  %p = MatMul(%x, %w)\n  %a = Reshape(%p, %rows)\n",
                           "input %x: f32[2,3,4]\n  %p = MatMul(%x, %w)\n  %q = Add(%c, %p)\n"
                           "  %a = Reshape(%q, %rows)\n",
                           "input %x: f32[5,4]\n  %p = MatMul(%x, %w)\n  %a = Add(%p, %c)\n",
                           "input %x: f32[5,4]\n  %a = MatMul(%x, %w)\n"}) {
    const std::string lines = rest;
    const size_t input = lines.find('\n') + 1;
    ExpectSameResults(
        "  " + lines.substr(0, input) + norm6 + lines.substr(input) + "  %y = BatchNormalization(%a, " + kNorm,
        "BatchNormalization");
  }
}

TEST(FuseConvBatchNorm, Golden) {
  EXPECT_EQ(After({"fuse_conv_batch_norm", "eliminate_dead_code"},
                  "  input %x: f32[1,2,1]\n"
                  "  const %w = f32[1,1] {3.0}\n"
                  "  const %s = f32[1] {4.0}\n"
                  "  const %o = f32[1] {5.0}\n"
                  "  const %m = f32[1] {1.0}\n"
                  "  const %v = f32[1] {3.0}\n"
                  "  const %rows = i64[2] {2, 1}\n"
                  "  %a: f32[1,2,1] = MatMul(%x, %w) @linear\n"
                  "  %r: f32[2,1] = Reshape(%a, %rows) @view\n"
                  "  %y: f32[2,1] = BatchNormalization(%r, %s, %o, %m, %v) {epsilon = 1.0} @bn_1\n"
                  "  return %y\n"),
            "  input %x: f32[1,2,1]\n"
            "  const %rows = i64[2] {2, 1}\n"
            "  const %w_normalized = f32[1,1] {6.0}\n"
            "  const %y_bias = f32[1] {3.0}\n"
            "  %a_normalized: f32[1,2,1] = MatMul(%x, %w_normalized) @linear\n"
            "  %a_normalized_0: f32[1,2,1] = Add(%a_normalized, %y_bias) @linear\n"
            "  %y: f32[2,1] = Reshape(%a_normalized_0, %rows) @view\n"
            "  return %y\n");
  EXPECT_EQ(After({"fuse_conv_batch_norm", "eliminate_dead_code"},
                  "  input %x: f32[1,1,2]\n"
                  "  const %w = f32[1,1,1] {3.0}\n"
                  "  const %s = f32[1] {4.0}\n"
                  "  const %o = f32[1] {5.0}\n"
                  "  const %m = f32[1] {1.0}\n"
                  "  const %v = f32[1] {3.0}\n"
                  "  %a: f32[1,1,2] = Conv(%x, %w) @conv_1\n"
                  "  %y: f32[1,1,2] = BatchNormalization(%a, %s, %o, %m, %v) {epsilon = 1.0} @bn_1\n"
                  "  return %y\n"),
            "  input %x: f32[1,1,2]\n"
            "  const %w_normalized = f32[1,1,1] {6.0}\n"
            "  const %y_bias = f32[1] {3.0}\n"
            "  %y: f32[1,1,2] = Conv(%x, %w_normalized, %y_bias) @conv_1\n"
            "  return %y\n");
}

// Where kernels pack them, they need not stand in memory.
TEST(FuseConvBatchNorm, ComputesWeightsWhenTheyAreAskedFor) {
  const std::unique_ptr<Graph> graph =
      Parse(WithHeader("  input %x: f32[1,1,2]\n  const %w = f32[1,1,1] {3.0}\n  const %s = f32[1] {4.0}\n"
                       "  %a: f32[1,1,2] = Conv(%x, %w)\n"
                       "  %y: f32[1,1,2] = BatchNormalization(%a, %s, %s, %s, %s)\n  return %y\n"));
  ASSERT_NE(graph, nullptr);
  const Pass* pass = FindNeutralPass("fuse_conv_batch_norm");
  ASSERT_TRUE(RunPasses(*graph, {&pass, 1}, {}).ok());
  const GraphValue* weights = graph->FindValue("w_normalized");
  ASSERT_NE(weights, nullptr);
  const Tensor& t = weights->constant()->tensor();
  EXPECT_NE(t.Transient()->raw_data(), t.address());
}

TEST(FuseConvBatchNorm, KeepsWhatItMust) {
  const char* const constants =
      "  input %x: f32[1,1,2]\n  input %p: f32[1]\n  const %w = f32[1,1,1] {3.0}\n  const %s = f32[1] {4.0}\n";
  for (const char* rest :
       {"  %a: f32[1,1,2] = Conv(%x, %w)\n  %y: f32[1,1,2] = BatchNormalization(%a, %s, %s, %s, %s)\n  return %y, %a\n",
        "  %a: f32[1,1,2] = Conv(%x, %w)\n  %y: f32[1,1,2] = BatchNormalization(%a, %s, %s, %s, %p)\n  return %y\n",
        "  %a: f32[1,1,2] = Conv(%x, %w)\n"
        "  %y: f32[1,1,2] = BatchNormalization(%a, %s, %s, %s, %s) {training_mode = 1}\n  return %y\n",
        "  %a: f32[1,1,2] = Conv(%x, %w, %p)\n  %y: f32[1,1,2] = BatchNormalization(%a, %s, %s, %s, %s)\n  return "
        "%y\n",
        // Not over the columns of the product.
        "  const %k = f32[2,2] {1.0, 2.0, 3.0, 4.0}\n  const %rows = i64[2] {2, 1}\n"
        "  %a: f32[1,1,2] = MatMul(%x, %k)\n  %r: f32[2,1] = Reshape(%a, %rows)\n"
        "  %y: f32[2,1] = BatchNormalization(%r, %s, %s, %s, %s)\n  return %y\n"}) {
    EXPECT_EQ(After({"fuse_conv_batch_norm"}, std::string(constants) + rest), std::string(constants) + rest);
  }
}

TEST(NeutralPasses, SettleOnARealisticGraph) {
  ExpectSameResults(
      "  input %x: f32[2,3,8]\n"
      "  const %w = f32[8,4] {@32}\n"
      "  const %minus = i64[1] {-1}\n"
      "  const %zero = i64[1] {0}\n"
      "  const %one = i64[] {1}\n"
      "  const %cond = bool[] {false}\n"
      "  %s = Shape(%x)\n"
      "  %b = Gather(%s, %zero)\n"
      "  %t = Concat(%b, %minus) {axis = 0}\n"
      "  %p = MatMul(%x, %w)\n"
      "  %r = Reshape(%p, %t)\n"
      "  %q = If(%cond) captures(%r, %one) {then_branch = graph { input %i input %k return %i },\n"
      "     else_branch = graph { input %i input %k %f = Cast(%k) {to = 1} %m = Mul(%i, %f) %n = Relu(%m) return %n "
      "}}\n"
      "  %y = Identity(%q)\n"
      "  return %y\n",
      "If(");
}

TEST(NeutralPasses, CanBeSkippedAndReport) {
  std::unique_ptr<Graph> graph = Parse(WithHeader("  input %x: f32[2]\n  %a = Relu(%x)\n  return %x\n"));
  PassOptions options;
  options.skip = {"eliminate_dead_code"};
  int calls = 0;
  options.after = [](const Graph&, const PassReport&, void* user) { ++*static_cast<int*>(user); };
  options.after_user = &calls;
  Result<std::vector<PassReport>> reports = RunPasses(*graph, NeutralPasses(), options);
  ASSERT_TRUE(reports.ok());
  EXPECT_EQ(graph->num_nodes(), 1);
  EXPECT_TRUE(reports->back().skipped);
  EXPECT_EQ(calls, 1);  // infer_shapes
  options.skip.clear();
  reports = RunPasses(*graph, NeutralPasses(), options);
  ASSERT_TRUE(reports.ok());
  EXPECT_EQ(graph->num_nodes(), 0);
  EXPECT_EQ(reports->back().changes, 1);
}

}  // namespace
}  // namespace quern
