// Model-local functions: what calls become, names, attributes, operator sets, errors and limits.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/onnx/proto_builder.h"
#include "format/onnx/reader.h"
#include "graph/text.h"
#include "graph/verifier.h"

namespace quern {
namespace {

using namespace onnx_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using GraphResult = Result<std::unique_ptr<Graph>>;

Message CallOf(std::string_view function, std::initializer_list<std::string_view> inputs,
               std::initializer_list<std::string_view> outputs, std::string_view name = "") {
  return NodeOf(function, inputs, outputs, name, "local");
}
Message ModelWith(const GraphParts& graph, const std::vector<Message>& functions) {
  Message model = ModelOf(GraphOf(graph)).Sub(8, Import("local", 1));
  for (const Message& f : functions) model.Sub(25, f);
  return model;
}
GraphResult Read(const Message& model, const OnnxReadOptions& options = {}) {
  return ReadOnnx(AsBytes(model.bytes()), nullptr, options);
}
GraphResult Read(const GraphParts& graph, const std::vector<Message>& functions) {
  return Read(ModelWith(graph, functions));
}
void ExpectError(const GraphResult& r, StatusCode code, const std::string& text) {
  ASSERT_FALSE(r.ok()) << "expected: " << text;
  EXPECT_EQ(r.status().code(), code) << r.status().message();
  EXPECT_THAT(r.status().message(), HasSubstr(text));
}
// The text form without the lines that all these models share.
std::string Text(const GraphResult& r) {
  if (!r.ok()) return r.status().message();
  EXPECT_TRUE(Verify(**r).ok());
  std::string kept;
  const std::string text = PrintGraph(**r);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.find("metadata ") == line.npos && line.find("graph @g opset") == line.npos && line != "}\n") kept += line;
    at = end;
  }
  return kept;
}

const Message kX = FloatInfo("x", {"n"});
const Message kY = FloatInfo("y", {"n"});

TEST(OnnxFunctions, CallsBecomeTheNodesOfTheBody) {
  const Message scale = FunctionOf({.name = "Scale",
                                    .inputs = {"a", "b"},
                                    .outputs = {"c"},
                                    .nodes = {NodeOf("Mul", {"a", "b"}, {"t"}, "m"), NodeOf("Relu", {"t"}, {"c"})}});
  EXPECT_EQ(Text(Read({.nodes = {CallOf("Scale", {"x", "x"}, {"s"}, "one"), CallOf("Scale", {"s", "x"}, {"y"})},
                       .inputs = {kX},
                       .outputs = {kY}},
                      {scale})),
            "  input %x: f32[n]\n"
            "  %one/t = Mul(%x, %x) @one/m\n"
            "  %s = Relu(%one/t) @one/Relu\n"
            "  %Scale/t = Mul(%s, %x) @Scale/m\n"
            "  %y: f32[n] = Relu(%Scale/t) @Scale/Relu\n"
            "  return %y\n");
}

// Names that the model has, in whatever graph, are not taken; unnamed nodes get numbers.
TEST(OnnxFunctions, NamesAreMadeUnique) {
  const Message twice =
      FunctionOf({.name = "F",
                  .inputs = {"a"},
                  .outputs = {"d"},
                  .nodes = {NodeOf("Neg", {"a"}, {"b"}), NodeOf("Neg", {"b"}, {"c"}), NodeOf("Neg", {"c"}, {"d"})}});
  EXPECT_EQ(Text(Read({.nodes = {NodeOf("Abs", {"x"}, {"f/b"}, "f/Neg"), CallOf("F", {"f/b"}, {"t"}, "f"),
                                 CallOf("F", {"t"}, {"y"}, "f")},
                       .inputs = {kX},
                       .outputs = {kY}},
                      {twice})),
            "  input %x: f32[n]\n"
            "  %f/b = Abs(%x) @f/Neg\n"
            "  %f/b_1 = Neg(%f/b) @f/Neg_1\n"
            "  %f/c = Neg(%f/b_1) @f/Neg_2\n"
            "  %t = Neg(%f/c) @f/Neg_3\n"
            "  %f/b_2 = Neg(%t) @f/Neg_4\n"
            "  %f/c_1 = Neg(%f/b_2) @f/Neg_5\n"
            "  %y: f32[n] = Neg(%f/c_1) @f/Neg_6\n"
            "  return %y\n");
}

TEST(OnnxFunctions, CallsInFunctionsTellTheirPath) {
  const Message inner =
      FunctionOf({.name = "Inner", .inputs = {"a"}, .outputs = {"b"}, .nodes = {NodeOf("Neg", {"a"}, {"b"}, "neg")}});
  const Message outer = FunctionOf({.name = "Outer",
                                    .inputs = {"a"},
                                    .outputs = {"c"},
                                    .nodes = {CallOf("Inner", {"a"}, {"b"}, "in"), CallOf("Inner", {"b"}, {"c"})}});
  EXPECT_EQ(
      Text(Read({.nodes = {CallOf("Outer", {"x"}, {"y"}, "out")}, .inputs = {kX}, .outputs = {kY}}, {outer, inner})),
      "  input %x: f32[n]\n"
      "  %out/b = Neg(%x) @out/in/neg\n"
      "  %y: f32[n] = Neg(%out/b) @out/Inner/neg\n"
      "  return %y\n");
}

TEST(OnnxFunctions, AttributesComeFromTheCallOrTheDefaultOrStayAway) {
  const Message f = FunctionOf({.name = "F",
                                .inputs = {"a"},
                                .outputs = {"b"},
                                .attributes = {"given", "missing"},
                                .nodes = {NodeOf("Op", {"a"}, {"b"})
                                              .Sub(5, Ref("p", 2, "given"))
                                              .Sub(5, Ref("q", 1, "defaulted"))
                                              .Sub(5, Ref("r", 2, "missing"))
                                              .Sub(5, Attr("s", 2).Number(3, 9))},
                                .defaults = {Attr("defaulted", 1).Float(2, 0.5f)}});
  const auto call = [&](const Message& node) { return Read({.nodes = {node}, .inputs = {kX}, .outputs = {kY}}, {f}); };
  EXPECT_THAT(Text(call(CallOf("F", {"x"}, {"y"}).Sub(5, Attr("given", 2).Number(3, 7)))),
              HasSubstr("Op(%x) {p = 7, q = 0.5, s = 9} @F/Op"));
  EXPECT_THAT(Text(call(CallOf("F", {"x"}, {"y"}).Sub(5, Attr("defaulted", 1).Float(2, 2)))),
              HasSubstr("Op(%x) {q = 2.0, s = 9} @F/Op"));
  ExpectError(call(CallOf("F", {"x"}, {"y"}).Sub(5, Attr("given", 1).Float(2, 2))), StatusCode::kInvalidArgument,
              "graph.node[0] (F): local.F.node[0] (Op): attribute 'p': refers to 'given'");
  ExpectError(call(CallOf("F", {"x"}, {"y"}).Sub(5, Attr("other", 2))), StatusCode::kInvalidArgument,
              "graph.node[0] (F): attribute 'other': the function local.F has no such attribute");
  ExpectError(call(CallOf("F", {"x"}, {"y"}).Sub(5, Attr("given", 2)).Sub(5, Attr("given", 2))),
              StatusCode::kInvalidArgument, "'given' is given twice");
  ExpectError(call(CallOf("F", {"x"}, {"y"}).Sub(5, Ref("given", 2, "nothing"))), StatusCode::kCorrupt,
              "attribute 'p': refers to an attribute of a function, outside of one");
}

// Through two functions, and into a subgraph of the inner one.
TEST(OnnxFunctions, AttributesArePassedOn) {
  const Message branch =
      GraphOf({.nodes = {NodeOf("Op", {"a"}, {"t"}).Sub(5, Ref("p", 2, "k"))}, .outputs = {FloatInfo("t", {"m"})}});
  const Message inner = FunctionOf({.name = "Inner",
                                    .inputs = {"c", "a"},
                                    .outputs = {"r"},
                                    .attributes = {"k"},
                                    .nodes = {NodeOf("If", {"c"}, {"r"}, "if")
                                                  .Sub(5, Attr("then_branch", 5).Sub(6, branch))
                                                  .Sub(5, Attr("else_branch", 5).Sub(6, branch))}});
  const Message outer = FunctionOf({.name = "Outer",
                                    .inputs = {"c", "a"},
                                    .outputs = {"b"},
                                    .attributes = {"n"},
                                    .nodes = {CallOf("Inner", {"c", "a"}, {"b"}, "i").Sub(5, Ref("k", 2, "n"))}});
  const GraphResult r = Read({.nodes = {CallOf("Outer", {"c", "x"}, {"y"}, "o").Sub(5, Attr("n", 2).Number(3, 5))},
                              .inputs = {ValueInfo("c", TensorType(9, {})), kX},
                              .outputs = {kY}},
                             {inner, outer});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Node& node = *(*r)->first_node();
  EXPECT_EQ(node.name(), "o/i/if");
  ASSERT_EQ(node.captures().size(), 1u);
  EXPECT_EQ(node.captures()[0]->name(), "x");
  for (const char* key : {"then_branch", "else_branch"}) {
    const Graph& g = **node.FindAttribute<GraphPtr>(key);
    EXPECT_EQ(g.first_node()->GetInt("p", 0), 5);
    EXPECT_EQ(g.first_node()->input(0), g.inputs()[0]);
    EXPECT_THAT(g.outputs()[0]->name(), ::testing::StartsWith("o/i/t"));
    // A name that the function gave an extent is not one of the model's.
    EXPECT_TRUE((*g.outputs()[0]->type().shape)[0].has_unknown());
  }
}

// A graph that the call gives reads the caller's values, also where the function has values of those names.
TEST(OnnxFunctions, GraphsAsAttributes) {
  const auto branch = [](std::string_view op, std::string_view input) {
    return GraphOf({.nodes = {NodeOf(op, {input}, {"b"})}, .outputs = {FloatInfo("b", {})}});
  };
  const Message f = FunctionOf({.name = "F",
                                .inputs = {"c", "a"},
                                .outputs = {"r"},
                                .attributes = {"g"},
                                .nodes = {NodeOf("Exp", {"a"}, {"x"}), NodeOf("Neg", {"x"}, {"b"}),
                                          NodeOf("If", {"c"}, {"r"})
                                              .Sub(5, Ref("then_branch", 5, "g"))
                                              .Sub(5, Attr("else_branch", 5).Sub(6, branch("Abs", "x")))}});
  const GraphResult r =
      Read({.nodes = {CallOf("F", {"c", "x"}, {"y"}).Sub(5, Attr("g", 5).Sub(6, branch("Sqrt", "x")))},
            .inputs = {ValueInfo("c", TensorType(9, {})), kX},
            .outputs = {kY}},
           {f});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Node& node = *(*r)->last_node();
  ASSERT_EQ(node.captures().size(), 2u);
  EXPECT_EQ(node.captures()[0]->name(), "x");    // the caller's
  EXPECT_EQ(node.captures()[1]->name(), "F/x");  // the function's own
  const Graph& then_graph = **node.FindAttribute<GraphPtr>("then_branch");
  EXPECT_TRUE(then_graph.first_node()->Is("Sqrt"));
  EXPECT_EQ(then_graph.first_node()->input(0), then_graph.inputs()[0]);
  EXPECT_EQ((*node.FindAttribute<GraphPtr>("else_branch"))->first_node()->input(0)->name(), "F/x");
}

// Calls in a subgraph, of the model and of a function; names of a body's subgraph are new too.
TEST(OnnxFunctions, CallsInSubgraphs) {
  const Message inner =
      FunctionOf({.name = "Inner", .inputs = {"a"}, .outputs = {"b"}, .nodes = {NodeOf("Neg", {"a"}, {"b"})}});
  const Message branch = GraphOf({.nodes = {CallOf("Inner", {"v"}, {"t"}, "call")},
                                  .initializers = {FloatTensor("w", {1}, {1})},
                                  .outputs = {FloatInfo("t", {})}});
  const auto choose = [&](std::string_view out) {
    return NodeOf("If", {"c"}, {out})
        .Sub(5, Attr("then_branch", 5).Sub(6, branch))
        .Sub(5, Attr("else_branch", 5).Sub(6, branch));
  };
  const Message outer = FunctionOf({.name = "Outer", .inputs = {"c", "v"}, .outputs = {"r"}, .nodes = {choose("r")}});
  const GraphResult r =
      Read({.nodes = {NodeOf("Abs", {"x"}, {"v"}), choose("s"), CallOf("Outer", {"c", "s"}, {"y"}, "o")},
            .inputs = {ValueInfo("c", TensorType(9, {})), kX},
            .outputs = {kY}},
           {inner, outer});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_TRUE(Verify(**r).ok());
  const Node& first = *(*r)->first_node()->next();
  const Graph& model_branch = **first.FindAttribute<GraphPtr>("then_branch");
  EXPECT_EQ(model_branch.first_node()->name(), "call/Neg");
  EXPECT_EQ(model_branch.outputs()[0]->name(), "t");
  const Node& second = *first.next();
  EXPECT_THAT(second.captures()[0]->name(), "s");
  const Graph& body_branch = **second.FindAttribute<GraphPtr>("then_branch");
  EXPECT_EQ(body_branch.first_node()->name(), "o/call/Neg");
  EXPECT_THAT(body_branch.outputs()[0]->name(), ::testing::StartsWith("o/t"));
  EXPECT_THAT(body_branch.constants()[0]->name(), ::testing::StartsWith("o/w"));
}

TEST(OnnxFunctions, OptionalInputsAndOutputs) {
  const Message f = FunctionOf(
      {.name = "F", .inputs = {"a", "b"}, .outputs = {"c", "d"}, .nodes = {NodeOf("Op", {"a", "b"}, {"c", "d"})}});
  const auto call = [&](const Message& node) { return Read({.nodes = {node}, .inputs = {kX}, .outputs = {kY}}, {f}); };
  EXPECT_THAT(Text(call(CallOf("F", {"x"}, {"y"}))), HasSubstr("%y: f32[n], %F/d = Op(%x, _)"));
  EXPECT_THAT(Text(call(CallOf("F", {"", "x"}, {"", "y"}))), HasSubstr("%F/c, %y: f32[n] = Op(_, %x)"));
  ExpectError(call(CallOf("F", {"x", "x", "x"}, {"y"})), StatusCode::kInvalidArgument,
              "graph.node[0] (F): has 3 inputs, the function local.F takes 2");
  ExpectError(call(CallOf("F", {"x"}, {"y", "z", "w"})), StatusCode::kInvalidArgument, "has 3 outputs");
}

TEST(OnnxFunctions, OutputsThatAreInputsOrTheSameValue) {
  const Message f = FunctionOf(
      {.name = "F", .inputs = {"a", "b"}, .outputs = {"a", "c", "c"}, .nodes = {NodeOf("Neg", {"a"}, {"c"})}});
  EXPECT_EQ(Text(Read({.nodes = {CallOf("F", {"x"}, {"p", "q", "y"}, "f")}, .inputs = {kX}, .outputs = {kY}}, {f})),
            "  input %x: f32[n]\n"
            "  %q = Neg(%x) @f/Neg\n"
            "  %p = Identity(%x) @f/Identity\n"
            "  %y: f32[n] = Identity(%q) @f/Identity_1\n"
            "  return %y\n");
  ExpectError(Read({.nodes = {CallOf("F", {"", "x"}, {"y"})}, .inputs = {kX}, .outputs = {kY}}, {f}),
              StatusCode::kInvalidArgument, "output 0 is the input 'a' of the function local.F, which the call omits");
}

TEST(OnnxFunctions, OverloadsAndOperatorsOfTheSameName) {
  const auto of = [](std::string_view op, std::string overload) {
    return FunctionOf(
        {.name = "F", .inputs = {"a"}, .outputs = {"b"}, .nodes = {NodeOf(op, {"a"}, {"b"})}, .overload = overload});
  };
  const std::vector<Message> functions = {of("Neg", ""), of("Abs", "abs"), of("Exp", "exp")};
  EXPECT_EQ(Text(Read({.nodes = {CallOf("F", {"x"}, {"a"}), CallOf("F", {"a"}, {"b"}).Text(8, "exp"),
                                 CallOf("F", {"b"}, {"y"}).Text(8, "abs")},
                       .inputs = {kX},
                       .outputs = {kY}},
                      functions)),
            "  input %x: f32[n]\n"
            "  %a = Neg(%x) @F/Neg\n"
            "  %b = Exp(%a) @F_1/Exp\n"
            "  %y: f32[n] = Abs(%b) @F_2/Abs\n"
            "  return %y\n");
  ExpectError(Read({.nodes = {CallOf("F", {"x"}, {"y"}).Text(8, "no")}, .inputs = {kX}, .outputs = {kY}}, functions),
              StatusCode::kInvalidArgument, "no function local.F with the overload 'no'");
  ExpectError(Read({.inputs = {kX}}, {of("Neg", "a"), of("Neg", "a")}), StatusCode::kInvalidArgument,
              "local.F:a is defined twice");
  // A function stands before an operator of its name.
  Message neg = Message().Text(1, "Neg").Text(4, "a").Text(5, "b").Sub(7, NodeOf("Abs", {"a"}, {"b"}));
  EXPECT_THAT(Text(Read({.nodes = {NodeOf("Neg", {"x"}, {"y"})}, .inputs = {kX}, .outputs = {kY}}, {neg})),
              HasSubstr("%y: f32[n] = Abs(%x)"));
}

TEST(OnnxFunctions, OwnOperatorSets) {
  const auto f = [](std::vector<Message> imports, std::string_view domain = "") {
    return FunctionOf({.name = "F",
                       .inputs = {"a"},
                       .outputs = {"b"},
                       .nodes = {NodeOf("Op", {"a"}, {"b"}, "", domain)},
                       .imports = std::move(imports)});
  };
  const GraphParts graph = {.nodes = {CallOf("F", {"x"}, {"y"})}, .inputs = {kX}, .outputs = {kY}};
  EXPECT_THAT(Text(Read(graph, {f({Import("", 13)})})), HasSubstr("Op#13(%x)"));
  EXPECT_THAT(Text(Read(graph, {f({Import("ai.onnx", 17)})})), HasSubstr("Op(%x)"));
  EXPECT_THAT(Text(Read(graph, {f({})})), HasSubstr("Op(%x)"));
  ExpectError(Read(graph, {f({Import("", 5)})}), StatusCode::kUnsupported,
              "graph.node[0] (F): local.F.node[0] 'F/Op' (Op): operator set 5 of ai.onnx is older");
  ExpectError(Read(graph, {f({Import("ai.onnx.ml", 99)}, "ai.onnx.ml")}), StatusCode::kUnsupported, "newer than");
  // A model of calls alone has the imports of its functions.
  const Message model = Message()
                            .Number(1, 8)
                            .Sub(8, Import("local", 1))
                            .Sub(7, GraphOf(graph))
                            .Sub(25, f({Import("ai.onnx.ml", 3)}, "ai.onnx.ml"));
  const GraphResult r = Read(model);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ((*r)->opset("ai.onnx.ml"), 3);
  EXPECT_EQ((*r)->opset(""), 0);
  EXPECT_EQ((*r)->first_node()->opset(), 3);
}

TEST(OnnxFunctions, TypesOfValuesInABody) {
  const Message f = FunctionOf({.name = "F",
                                .inputs = {"a"},
                                .outputs = {"c"},
                                .nodes = {NodeOf("Neg", {"a"}, {"b"}), NodeOf("Neg", {"b"}, {"c"})},
                                .value_info = {FloatInfo("a", {"9"}), FloatInfo("b", {"k", "3"}), FloatInfo("z", {})}});
  const GraphResult r = Read({.nodes = {CallOf("F", {"x"}, {"t"}), CallOf("F", {"t"}, {"y"})}, .inputs = {kX}}, {f});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Dims& first = *(*r)->FindValue("F/b")->type().shape;
  const Dims& second = *(*r)->FindValue("F_1/b")->type().shape;
  EXPECT_TRUE(first[1].is_constant(3) && second[1].is_constant(3));
  EXPECT_TRUE(first[0].has_unknown());
  EXPECT_FALSE(first[0] == second[0]) << "each call has extents of its own";
  EXPECT_EQ((*(*r)->inputs()[0]->type().shape)[0].symbol(), "n");
}

TEST(OnnxFunctions, RecursionIsNamed) {
  const auto calls = [](std::string name, std::string_view callee) {
    return FunctionOf({.name = std::move(name),
                       .inputs = {"a"},
                       .outputs = {"b"},
                       .nodes = {NodeOf("Neg", {"a"}, {"t"}), CallOf(callee, {"t"}, {"b"})}});
  };
  const GraphParts graph = {.nodes = {CallOf("A", {"x"}, {"y"}, "start")}, .inputs = {kX}, .outputs = {kY}};
  ExpectError(Read(graph, {calls("A", "A")}), StatusCode::kInvalidArgument,
              "functions call each other in a circle: local.A -> local.A");
  ExpectError(Read(graph, {calls("A", "B"), calls("B", "C"), calls("C", "B")}), StatusCode::kInvalidArgument,
              "circle: local.B -> local.C -> local.B");
  // In a subgraph.
  const Message branch = GraphOf({.nodes = {CallOf("A", {"a"}, {"t"})}, .outputs = {FloatInfo("t", {})}});
  const Message a =
      FunctionOf({.name = "A",
                  .inputs = {"a"},
                  .outputs = {"b"},
                  .nodes = {NodeOf("If", {"a"}, {"b"}, "if").Sub(5, Attr("then_branch", 5).Sub(6, branch))}});
  ExpectError(Read(graph, {a}), StatusCode::kInvalidArgument, "circle: local.A -> local.A");
  // What is not called is not looked at.
  EXPECT_TRUE(Read({.inputs = {kX}}, {a}).ok());
  // A graph of the caller may call the function that it is given to.
  const Message apply = FunctionOf({.name = "A",
                                    .inputs = {"a"},
                                    .outputs = {"b"},
                                    .attributes = {"g"},
                                    .nodes = {NodeOf("If", {"a"}, {"b"}).Sub(5, Ref("then_branch", 5, "g"))}});
  const Message leaf = GraphOf({.nodes = {NodeOf("Neg", {"x"}, {"t"})}, .outputs = {FloatInfo("t", {})}});
  const Message again = GraphOf(
      {.nodes = {CallOf("A", {"x"}, {"t"}).Sub(5, Attr("g", 5).Sub(6, leaf))}, .outputs = {FloatInfo("t", {})}});
  const GraphResult r =
      Read({.nodes = {CallOf("A", {"x"}, {"y"}).Sub(5, Attr("g", 5).Sub(6, again))}, .inputs = {kX}, .outputs = {kY}},
           {apply});
  EXPECT_TRUE(r.ok()) << r.status().message();
}

TEST(OnnxFunctions, BodiesThatDoNotHoldTogether) {
  const GraphParts graph = {.nodes = {CallOf("F", {"x"}, {"y"})}, .inputs = {kX}, .outputs = {kY}};
  const auto body = [](std::vector<Message> nodes, std::vector<std::string> inputs = {"a"}) {
    return FunctionOf({.name = "F", .inputs = std::move(inputs), .outputs = {"b"}, .nodes = std::move(nodes)});
  };
  // Names of the model are not the function's.
  ExpectError(Read(graph, {body({NodeOf("Add", {"a", "x"}, {"b"}, "add")})}), StatusCode::kInvalidArgument,
              "graph.node[0] (F): local.F.node[0] 'add' (Add): input 1: 'x' is not defined in the function local.F");
  ExpectError(Read(graph, {body({})}), StatusCode::kInvalidArgument, "output 'b' is not defined");
  ExpectError(Read(graph, {body({NodeOf("Neg", {"a"}, {"a"}), NodeOf("Neg", {"a"}, {"b"})})}),
              StatusCode::kInvalidArgument, "output 'a' has the name of an input");
  ExpectError(Read(graph, {body({NodeOf("Neg", {"a"}, {"b"}), NodeOf("Neg", {"a"}, {"b"})})}),
              StatusCode::kInvalidArgument, "defined twice");
  ExpectError(Read(graph, {body({NodeOf("Neg", {"a"}, {"b"})}, {"a", "a"})}), StatusCode::kInvalidArgument,
              "input 'a' is declared twice");
  ExpectError(Read(graph, {body({NodeOf("Neg", {"c"}, {"b"}), NodeOf("Neg", {"b"}, {"c"})})}),
              StatusCode::kInvalidArgument, "is on a cycle");
  // Nodes out of order are sorted, as in graphs.
  EXPECT_TRUE(Read(graph, {body({NodeOf("Neg", {"c"}, {"b"}), NodeOf("Neg", {"a"}, {"c"})})}).ok());
  // What is not called is not looked at.
  EXPECT_TRUE(Read({.inputs = {kX}}, {body({NodeOf("Neg", {"nowhere"}, {"b"})})}).ok());
}

// Thirty functions that call the next one twice are 2^30 nodes.
TEST(OnnxFunctions, BlowUpEndsAtTheLimits) {
  for (const bool with_nodes : {true, false}) {
    std::vector<Message> functions;
    for (int i = 0; i < 30; ++i) {
      const std::string next = "F" + std::to_string(i + 1);
      std::vector<Message> nodes = {CallOf(next, {"a"}, {"t"}, "l"), CallOf(next, {"t"}, {"b"}, "r")};
      if (with_nodes) nodes.push_back(NodeOf("Neg", {"b"}, {"n"}));
      functions.push_back(
          FunctionOf({.name = "F" + std::to_string(i), .inputs = {"a"}, .outputs = {"b"}, .nodes = nodes}));
    }
    functions.push_back(
        FunctionOf({.name = "F30", .inputs = {"a"}, .outputs = {"b"}, .nodes = {NodeOf("Neg", {"a"}, {"b"})}}));
    const Message model =
        ModelWith({.nodes = {CallOf("F0", {"x"}, {"y"}, "f")}, .inputs = {kX}, .outputs = {kY}}, functions);
    OnnxReadOptions options;
    options.limits.nodes = 10000;
    ExpectError(Read(model, options), StatusCode::kResourceExhausted, "more nodes than the limit of 10000");
    options.limits.nodes = int64_t{1} << 40;
    options.limits.memory_bytes = 4 << 20;
    ExpectError(Read(model, options), StatusCode::kResourceExhausted, "more than the limit of 4194304 bytes");
  }
  // Calls that go deeper than stacks hold.
  std::vector<Message> chain;
  for (int i = 0; i < 1000; ++i) {
    chain.push_back(FunctionOf({.name = "F" + std::to_string(i),
                                .inputs = {"a"},
                                .outputs = {"b"},
                                .nodes = {CallOf("F" + std::to_string(i + 1), {"a"}, {"b"})}}));
  }
  ExpectError(Read({.nodes = {CallOf("F0", {"x"}, {"y"})}, .inputs = {kX}}, chain), StatusCode::kResourceExhausted,
              "more than 128 deep");
  std::vector<Message> steps;  // each call of a hundred levels more than is known already
  for (int i = 9; i >= 0; --i) steps.push_back(CallOf("F" + std::to_string(100 * i), {"x"}, {"y" + std::to_string(i)}));
  ExpectError(Read({.nodes = steps, .inputs = {kX}},
                   [&] {
                     std::vector<Message> complete = chain;
                     complete.push_back(FunctionOf(
                         {.name = "F1000", .inputs = {"a"}, .outputs = {"b"}, .nodes = {NodeOf("Neg", {"a"}, {"b"})}}));
                     return complete;
                   }()),
              StatusCode::kResourceExhausted, "more than 128 deep");
  // Subgraphs in the bodies count on from those around the call.
  const auto nest = [](std::string_view call) {
    return GraphOf({.nodes = {CallOf(call, {"a"}, {"t"})}, .outputs = {FloatInfo("t", {})}});
  };
  std::vector<Message> nested;
  for (int i = 0; i < 40; ++i) {
    const Message node =
        NodeOf("If", {"a"}, {"b"}).Sub(5, Attr("then_branch", 5).Sub(6, nest("F" + std::to_string(i + 1))));
    nested.push_back(FunctionOf({.name = "F" + std::to_string(i), .inputs = {"a"}, .outputs = {"b"}, .nodes = {node}}));
  }
  ExpectError(Read({.nodes = {CallOf("F0", {"x"}, {"y"})}, .inputs = {kX}}, nested), StatusCode::kResourceExhausted,
              "nested deeper than the limit of 32");
}

// Functions with everything, cut at every byte and with seeded bit flips: an error or a graph that verifies.
TEST(OnnxFunctions, SurviveDamage) {
  const Message branch = GraphOf({.nodes = {NodeOf("Op", {"a"}, {"t"}).Sub(5, Ref("p", 2, "k"))},
                                  .initializers = {FloatTensor("w", {1}, {1})},
                                  .outputs = {FloatInfo("t", {"m"})}});
  const Message inner = FunctionOf({.name = "Inner",
                                    .inputs = {"c", "a"},
                                    .outputs = {"r", "a"},
                                    .attributes = {"k", "g"},
                                    .nodes = {NodeOf("If", {"c"}, {"r"}, "if")
                                                  .Sub(5, Attr("then_branch", 5).Sub(6, branch))
                                                  .Sub(5, Ref("else_branch", 5, "g"))},
                                    .defaults = {Attr("d", 7).PackedNumbers(8, {1, 2})},
                                    .value_info = {FloatInfo("r", {"m"})},
                                    .overload = "o"});
  const Message leaf = GraphOf({.nodes = {NodeOf("Neg", {"b"}, {"u"})}, .outputs = {FloatInfo("u", {})}});
  const Message outer = FunctionOf({.name = "Outer",
                                    .inputs = {"c", "b"},
                                    .outputs = {"q"},
                                    .attributes = {"n"},
                                    .nodes = {CallOf("Inner", {"c", "b"}, {"q", "s"}, "i")
                                                  .Text(8, "o")
                                                  .Sub(5, Ref("k", 2, "n"))
                                                  .Sub(5, Attr("g", 5).Sub(6, leaf))}});
  const std::string model =
      ModelWith({.nodes = {CallOf("Outer", {"c", "x"}, {"y"}, "o").Sub(5, Attr("n", 2).Number(3, 5))},
                 .inputs = {ValueInfo("c", TensorType(9, {})), kX},
                 .outputs = {kY}},
                {inner, outer})
          .bytes();
  OnnxReadOptions options;
  options.limits.memory_bytes = 64 << 20;
  options.limits.nodes = 10000;
  ASSERT_TRUE(ReadOnnx(AsBytes(model), nullptr, options).ok());
  const auto try_one = [&](const std::string& bytes) {
    const GraphResult r = ReadOnnx(AsBytes(bytes), nullptr, options);
    if (r.ok()) {
      EXPECT_TRUE(Verify(**r).ok());
    } else {
      EXPECT_FALSE(r.status().message().empty());
    }
  };
  for (size_t n = 0; n < model.size(); ++n) try_one(model.substr(0, n));
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    try_one(Damaged(model, random));
  }
}

}  // namespace
}  // namespace quern
