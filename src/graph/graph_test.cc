#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "graph/verifier.h"

namespace quern {
namespace {

using ::testing::HasSubstr;

ValueType F32() { return ValueType::Tensor(DType::kF32, Dims{2}); }

struct Chain {
  Graph g;
  GraphValue* x = g.AddInput("x", F32());
  GraphValue* c = g.AddConstant("c", Tensor::Scalar<float>(1));
  Node* add = g.AddNode({.name = "add", .op_type = "Add", .inputs = {x, c}, .outputs = {"a"}});
  Node* mul = g.AddNode({.op_type = "Mul", .inputs = {add->output(0), add->output(0)}, .outputs = {"m"}});
  Chain() {
    g.opset_imports[""] = 17;
    g.AddOutput(mul->output(0));
  }
};

// The index of the value's one use by a node.
int IndexOf(const GraphValue* v, const Node* node) {
  int index = -1;
  for (const Use& u : v->uses()) {
    if (u.node != node) continue;
    EXPECT_EQ(index, -1);
    index = u.index;
  }
  return index;
}

TEST(Graph, KeepsUseLists) {
  Chain t;
  EXPECT_EQ(t.add->output(0)->uses().size(), 2u);
  EXPECT_TRUE(t.mul->output(0)->is_graph_output());
  t.g.SetInput(t.mul, 1, t.x);
  EXPECT_EQ(t.add->output(0)->uses().size(), 1u);
  EXPECT_EQ(t.x->uses().size(), 2u);
  t.g.ReplaceAllUses(t.add->output(0), t.x);
  EXPECT_TRUE(t.add->output(0)->uses().empty());
  t.g.Remove(t.add);
  t.g.RemoveValue(t.c);
  EXPECT_EQ(t.g.num_nodes(), 1);
  EXPECT_EQ(t.g.FindValue("a"), nullptr);
  EXPECT_TRUE(Verify(t.g).ok()) << Verify(t.g).message();
}

TEST(Graph, CapturesMoveWithTheInputs) {
  Chain t;
  t.g.AddCapture(t.mul, t.x);
  t.g.AddCapture(t.mul, t.c);
  t.g.SetInput(t.mul, 2, t.x);
  EXPECT_EQ(IndexOf(t.c, t.mul), 4);
  t.g.RemoveInputs(t.mul, 1);
  EXPECT_EQ(IndexOf(t.c, t.mul), 2);
  t.g.RemoveCapture(t.mul, 0);
  EXPECT_EQ(IndexOf(t.c, t.mul), 1);
  EXPECT_EQ(t.x->uses().size(), 1u);
  EXPECT_THAT(Verify(t.g).message(), HasSubstr("captures but no subgraph"));
  t.g.RemoveCapture(t.mul, 0);
  EXPECT_TRUE(Verify(t.g).ok()) << Verify(t.g).message();
}

TEST(Graph, OutputsMoveUp) {
  Chain t;
  GraphValue *a = t.add->output(0), *y = t.mul->output(0);
  t.g.AddOutput(a);
  t.g.AddOutput(t.x);
  t.g.RemoveOutput(0);
  EXPECT_EQ(t.g.outputs(), (std::vector<GraphValue*>{a, t.x}));
  EXPECT_FALSE(y->is_graph_output());
  EXPECT_EQ(IndexOf(a, nullptr), 0);
  EXPECT_EQ(IndexOf(t.x, nullptr), 1);
  EXPECT_TRUE(Verify(t.g).ok()) << Verify(t.g).message();
}

TEST(Graph, TurnsValuesIntoConstants) {
  Chain t;
  GraphValue* a = t.add->output(0);
  t.g.TurnIntoConstant(a, Tensor::Scalar<float>(3));
  EXPECT_EQ(t.g.num_nodes(), 1);
  EXPECT_TRUE(a->is_constant());
  EXPECT_EQ(t.g.constants(), (std::vector<GraphValue*>{t.c, a}));
  EXPECT_TRUE(Verify(t.g).ok()) << Verify(t.g).message();
  // A node with another used output stays.
  Node* two = t.g.AddNode({.op_type = "Two", .inputs = {t.x}, .outputs = {"p", "q"}}, t.mul);
  t.g.SetInput(t.mul, 0, two->output(1));
  t.g.TurnIntoConstant(two->output(0), Tensor::Scalar<float>(3));
  EXPECT_EQ(t.g.num_nodes(), 2);
  EXPECT_EQ(two->output(0), nullptr);
  EXPECT_TRUE(Verify(t.g).ok()) << Verify(t.g).message();
}

TEST(Graph, NamesStayUnique) {
  Chain t;
  EXPECT_EQ(t.g.UniqueName("free"), "free");
  EXPECT_NE(t.g.UniqueName("a"), "a");
  EXPECT_EQ(t.g.FindValue(t.g.UniqueName("a")), nullptr);
  t.g.RenameValue(t.x, "input");
  EXPECT_EQ(t.g.FindValue("input"), t.x);
  EXPECT_EQ(t.g.FindValue("x"), nullptr);
  EXPECT_DEATH(t.g.AddInput("input", F32()), "in use");
  EXPECT_EQ(t.add->Describe(), "node 'add' (Add)");
  EXPECT_EQ(t.mul->Describe(), "node 'm' (Mul)");
}

TEST(Graph, ManyRemovalsKeepTheOrder) {
  Graph g;
  std::vector<GraphValue*> values;
  for (int i = 0; i < 100; ++i) values.push_back(g.AddConstant("c" + std::to_string(i), Tensor::Scalar<float>(1)));
  for (int i = 0; i < 100; ++i) {
    if (i % 7 != 0) g.RemoveValue(values[i]);
  }
  const std::vector<GraphValue*> left = g.constants();
  ASSERT_EQ(left.size(), 15u);
  for (size_t i = 0; i < left.size(); ++i) EXPECT_EQ(left[i]->name(), "c" + std::to_string(i * 7));
}

TEST(Graph, AValueWithManyUsesStaysCheap) {
  // Quadratic work on use lists would not end in a test's time.
  Graph g;
  GraphValue* x = g.AddInput("x", F32());
  for (int i = 0; i < 50000; ++i) {
    g.AddOutput(g.AddNode({.op_type = "Neg", .inputs = {x}, .outputs = {"y" + std::to_string(i)}})->output(0));
  }
  EXPECT_TRUE(Verify(g).ok());
  const std::vector<Node*> nodes = g.nodes();
  for (int i = 0; i < 50000; ++i) {
    Node* n = nodes[i % 2 ? static_cast<size_t>(i) / 2 : nodes.size() - 1 - static_cast<size_t>(i) / 2];
    g.SetInput(n, 0, nullptr);
  }
  EXPECT_TRUE(x->uses().empty());
  EXPECT_TRUE(Verify(g).ok());
}

TEST(Graph, ClonesDeeply) {
  Chain t;
  auto body = std::make_shared<Graph>();
  body->AddOutput(body->AddInput("i", F32()));
  t.add->SetAttribute("body", body);
  const std::unique_ptr<Graph> copy = t.g.Clone();
  EXPECT_EQ(PrintGraph(*copy), PrintGraph(t.g));
  EXPECT_NE(copy->first_node()->subgraphs()[0].second, body);
  copy->RenameValue(copy->inputs()[0], "other");
  EXPECT_EQ(t.x->name(), "x");
  EXPECT_TRUE(Verify(*copy).ok());
}

TEST(Verify, NamesWhatIsWrong) {
  {
    Chain t;
    t.g.MoveBefore(t.mul, t.add);
    EXPECT_THAT(Verify(t.g).message(), HasSubstr("node 'm' (Mul): input 0 is not defined before it ('a'"));
    t.g.MoveBefore(t.mul, nullptr);
    EXPECT_TRUE(Verify(t.g).ok());
  }
  {
    Chain t, other;
    t.g.SetInput(t.mul, 0, other.x);
    EXPECT_THAT(Verify(t.g).message(), HasSubstr("node 'm' (Mul): input 0 is not defined"));
    t.g.SetInput(t.mul, 0, t.x);
  }
  {
    Chain t;
    auto body = std::make_shared<Graph>();
    body->AddOutput(body->AddInput("i", ValueType::Tensor(DType::kI64)));
    t.add->SetAttribute("body", body);
    t.g.AddCapture(t.add, t.x);
    EXPECT_THAT(
        Verify(t.g).message(),
        HasSubstr("node 'add' (Add), subgraph 'body': input 'i' for the captured 'x': type i64[*] contradicts"));
    body->inputs()[0]->set_type(F32());
    EXPECT_TRUE(Verify(t.g).ok()) << Verify(t.g).message();
    t.mul->SetAttribute("body", body);
    EXPECT_THAT(Verify(t.g).message(), HasSubstr("owned by two nodes"));
  }
  {
    Chain t;
    GraphPtr inner = std::make_shared<Graph>();
    for (int i = 0; i < 40; ++i) {
      auto outer = std::make_shared<Graph>();
      outer->AddNode({.op_type = "Box", .outputs = {"o"}, .attributes = {{"g", inner}}});
      inner = outer;
    }
    EXPECT_EQ(Verify(*inner).code(), StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace quern
