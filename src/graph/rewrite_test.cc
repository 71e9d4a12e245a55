#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/matcher.h"
#include "graph/pass.h"
#include "graph/rewriter.h"
#include "graph/text.h"
#include "graph/verifier.h"

namespace quern {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Graph> Parse(const char* text) {
  Result<std::unique_ptr<Graph>> g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status().message();
  const Result<std::unique_ptr<Graph>> again = ParseGraph(PrintGraph(**g, {.full_constants = true}));
  EXPECT_TRUE(again.ok()) << again.status().message();
  return std::move(g).value();
}

constexpr const char* kDense = R"(graph opset("": 17) {
  input %x: f32[2,3]
  const %w = f32[3,4] splat 1.0
  const %b = f32[4] splat 2.0
  %m: f32[2,4] = MatMul(%x, %w)
  %a: f32[2,4] = Add(%b, %m)
  %y: f32[2,4] = Softmax(%a) {axis = 1}
  return %y
})";

const Pattern kBiased =
    Pattern::Op("Add", {Pattern::Op("MatMul", {Pattern::Any("x"), Pattern::Constant("w")}).As("product").SingleUse(),
                        Pattern::Constant("bias")})
        .Commutative()
        .As("sum");

TEST(Pattern, MatchesInEitherOrder) {
  std::unique_ptr<Graph> g = Parse(kDense);
  Node* add = g->FindValue("a")->producer();
  const std::optional<Match> m = kBiased.MatchNode(add);
  ASSERT_TRUE(m.has_value());
  EXPECT_EQ(m->value("x"), g->FindValue("x"));
  EXPECT_EQ(m->value("w"), g->FindValue("w"));
  EXPECT_EQ(m->value("bias"), g->FindValue("b"));
  EXPECT_EQ(m->node("product"), g->FindValue("m")->producer());
  EXPECT_EQ(m->node("sum"), add);
  EXPECT_FALSE(kBiased.MatchNode(g->FindValue("m")->producer()).has_value());
  g->SetInput(add, 0, g->FindValue("x"));  // no constant
  EXPECT_FALSE(kBiased.MatchNode(add).has_value());
}

TEST(Pattern, HonoursConditions) {
  std::unique_ptr<Graph> g = Parse(kDense);
  Node* softmax = g->FindValue("y")->producer();
  EXPECT_TRUE(Pattern::Op("Softmax", {Pattern::Any()}).WithInt("axis", 1, -1).MatchNode(softmax).has_value());
  EXPECT_FALSE(Pattern::Op("Softmax", {Pattern::Any()}).WithInt("axis", -1, -1).MatchNode(softmax).has_value());
  EXPECT_TRUE(Pattern::Op("Softmax", {Pattern::Any()}).WithInt("other", 5, 5).MatchNode(softmax).has_value());
  EXPECT_FALSE(Pattern::Op("Softmax", {Pattern::Any()}, "other").MatchNode(softmax).has_value());
  EXPECT_FALSE(Pattern::Op("Softmax", {Pattern::Any()})
                   .Where([](const Node& n) { return n.GetInt("axis", 0) > 1; })
                   .MatchNode(softmax)
                   .has_value());
  EXPECT_FALSE(Pattern::Any("v")
                   .WhereValue([](const GraphValue& v) { return v.is_constant(); })
                   .MatchValue(softmax->output(0))
                   .has_value());
  const std::optional<Match> omitted =
      Pattern::Op("Softmax", {Pattern::Any(), Pattern::Any("second").Optional()}).MatchNode(softmax);
  ASSERT_TRUE(omitted.has_value());
  EXPECT_EQ(omitted->value("second"), nullptr);
  // Inputs beyond the pattern's must not be there, unless it says so.
  Node* add = g->FindValue("a")->producer();
  EXPECT_FALSE(Pattern::Op("Add", {Pattern::Any()}).MatchNode(add).has_value());
  EXPECT_TRUE(Pattern::Op("Add", {Pattern::Any()}).MoreInputs().MatchNode(add).has_value());
  // One name, one value.
  const Pattern twice = Pattern::Op("Add", {Pattern::Any("v"), Pattern::Any("v")});
  EXPECT_FALSE(twice.MatchNode(add).has_value());
  g->SetInput(add, 0, g->FindValue("m"));
  EXPECT_TRUE(twice.MatchNode(add).has_value());
  // %m now has two uses.
  EXPECT_FALSE(
      Pattern::Op("MatMul", {Pattern::Any(), Pattern::Any()}).SingleUse().MatchValue(g->FindValue("m")).has_value());
}

TEST(Rewriter, ReplacesAMatch) {
  std::unique_ptr<Graph> g = Parse(kDense);
  const Result<int> changes = RewriteNodes(*g, [](Graph& graph, Node* n) -> Result<bool> {
    const std::optional<Match> m = kBiased.MatchNode(n);
    if (!m) return false;
    ReplaceNode(graph, n,
                {.name = "dense", .op_type = "Gemm", .inputs = {m->value("x"), m->value("w"), m->value("bias")}});
    return true;
  });
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes, 1);
  EXPECT_THAT(PrintGraph(*g), HasSubstr("  const %b = f32[4] splat 2.0\n"
                                        "  %a: f32[2,4] = Gemm(%x, %w, %b) @dense\n"
                                        "  %y: f32[2,4] = Softmax(%a) {axis = 1}\n"));
  EXPECT_TRUE(Verify(*g).ok()) << Verify(*g).message();
}

TEST(Rewriter, RemovesDeadChainsOnce) {
  std::unique_ptr<Graph> g = Parse(R"(graph {
  input %x: f32[2]
  const %c = f32[] {1.0}
  %a = Relu(%x)
  %b = Add(%a, %c)
  %d = Mul(%a, %b)
  %e = Add(%d, %d)
  return %x
})");
  EXPECT_EQ(RemoveDead(*g, g->last_node()), 4);
  EXPECT_EQ(g->num_nodes(), 0);
  EXPECT_EQ(g->FindValue("c"), nullptr);
  EXPECT_TRUE(Verify(*g).ok());
}

// A pass that leaves a value used before its definition.
Result<int> Break(Graph& graph, const void*) {
  if (graph.num_nodes() < 2) return 0;
  graph.MoveBefore(graph.last_node(), graph.first_node());
  return 1;
}
Result<int> CountNodes(Graph& graph, const void* context) {
  *static_cast<int*>(const_cast<void*>(context)) += graph.num_nodes();
  return 0;
}

TEST(PassRunner, VerifiesAfterEachPass) {
  std::unique_ptr<Graph> g = Parse(kDense);
  const Pass breaking = {"break", "", Break};
  const Pass* const passes[] = {&breaking};
  const Result<std::vector<PassReport>> r = RunPasses(*g, passes, {});
  ASSERT_FALSE(r.ok());
  EXPECT_THAT(r.status().message(), HasSubstr("pass break: node 'y' (Softmax): input 0 is not defined before it"));
}

TEST(PassRunner, EntersSubgraphs) {
  std::unique_ptr<Graph> g = Parse(R"(graph {
  input %c: bool[]
  %y = If(%c) {then_branch = graph { %a = A() %b = B() return %a }, else_branch = graph { %a = A() return %a }}
  return %y
})");
  const Pass everywhere = {"count", "", CountNodes};
  const Pass outside = {"count", "", CountNodes, false};
  int count = 0;
  PassOptions options;
  options.context = &count;
  const Pass* const one[] = {&everywhere};
  const Pass* const two[] = {&outside};
  ASSERT_TRUE(RunPasses(*g, one, options).ok());
  EXPECT_EQ(count, 4);
  ASSERT_TRUE(RunPasses(*g, two, options).ok());
  EXPECT_EQ(count, 5);
}

// A pass that changes something in its first rounds, as many as the context says.
Result<int> ChangeOften(Graph&, const void* context) {
  int& left = *static_cast<int*>(const_cast<void*>(context));
  return left > 0 ? left-- : 0;
}

TEST(PassRunner, WarnsWhenRoundsRunOut) {
  std::unique_ptr<Graph> g = Parse(kDense);
  const Pass often = {"often", "", ChangeOften},
             never = {"never", "", [](Graph&, const void*) { return Result<int>(0); }};
  const Pass* const passes[] = {&never, &often};
  Logger log;
  std::string warnings;
  log.SetSink([](void* context, LogLevel, std::string_view m) { *static_cast<std::string*>(context) += m; }, &warnings);
  int rounds = 3;
  PassOptions options;
  options.context = &rounds;
  options.max_rounds = 4;
  options.log = &log;
  ASSERT_TRUE(RunPasses(*g, passes, options).ok());
  EXPECT_EQ(warnings, "");
  rounds = 4;
  ASSERT_TRUE(RunPasses(*g, passes, options).ok());
  EXPECT_THAT(warnings, HasSubstr("passes end after 4 rounds though often still changed something"));
}

}  // namespace
}  // namespace quern
