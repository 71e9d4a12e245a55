#include "format/onnx/reader.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/onnx/proto_builder.h"

namespace quern {
namespace {

using namespace onnx_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using GraphResult = Result<std::unique_ptr<Graph>>;

GraphResult Read(const Message& model, const OnnxReadOptions& options = {}) {
  return ReadOnnx(AsBytes(model.bytes()), nullptr, options);
}
GraphResult ReadGraph(const GraphParts& parts) { return Read(ModelOf(GraphOf(parts))); }
void ExpectError(const GraphResult& r, StatusCode code, const std::string& text) {
  ASSERT_FALSE(r.ok()) << "expected: " << text;
  EXPECT_EQ(r.status().code(), code) << r.status().message();
  EXPECT_THAT(r.status().message(), HasSubstr(text));
}
std::vector<std::string> Names(const std::vector<GraphValue*>& values) {
  std::vector<std::string> names;
  for (const GraphValue* v : values) names.push_back(v ? v->name() : "");
  return names;
}
std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node* n : graph.nodes()) ops.push_back(n->op_type());
  return ops;
}

TEST(OnnxReader, ReadsASmallModel) {
  const Message conv = NodeOf("Conv", {"x", "w", ""}, {"c"}, "conv_1")
                           .Sub(5, Attr("pads", 7).PackedNumbers(8, {1, 1, 1, 1}))
                           .Sub(5, Attr("group", 2).Number(3, 4))
                           .Sub(5, Attr("auto_pad", 3).Text(4, "NOTSET"))
                           .Sub(5, Attr("alpha", 1).Float(2, 0.5f))
                           .Sub(5, Attr("names", 8).Text(9, "a").Text(9, "b"))
                           .Sub(5, Attr("scales", 6).PackedFloats(7, {1, 2}))
                           .Sub(5, Attr("t", 4).Sub(5, FloatTensor("", {1}, {3})))
                           .Sub(5, Attr("ts", 9).Sub(10, FloatTensor("", {1}, {4})))
                           .Sub(5, Attr("tp", 13).Sub(14, TensorType(7, {"3"})))
                           .Sub(5, Attr("zero", 2));
  const Message graph = GraphOf({.nodes = {conv, NodeOf("Relu", {"c"}, {"y"}, "", "ai.onnx")},
                                 .initializers = {FloatTensor("w", {2}, {1, 2})},
                                 .inputs = {FloatInfo("x", {"batch", "3", "", "-1", "?", "0", "None", "None"})},
                                 .outputs = {FloatInfo("y", {"batch", "5"})},
                                 .value_info = {FloatInfo("c", {"batch", "7"}), FloatInfo("gone", {"1"})}});
  Message model = ModelOf(graph).Text(2, "maker").Text(6, "words").Sub(14, Message().Text(1, "k").Text(2, "v"));
  const GraphResult r = Read(model.Number(99, 5).Text(98, "unknown fields are skipped"));
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Graph& g = **r;
  EXPECT_EQ(g.name, "g");
  EXPECT_EQ(g.opset(""), 17);
  EXPECT_EQ(g.metadata.at("k"), "v");
  EXPECT_EQ(g.metadata.at("onnx.producer_name"), "maker");
  EXPECT_EQ(g.metadata.at("onnx.ir_version"), "8");
  EXPECT_THAT(Ops(g), ElementsAre("Conv", "Relu"));
  EXPECT_THAT(Names(g.inputs()), ElementsAre("x"));
  EXPECT_THAT(Names(g.outputs()), ElementsAre("y"));
  const Dims& dims = *g.inputs()[0]->type().shape;
  EXPECT_EQ(dims[0].symbol(), "batch");
  EXPECT_TRUE(dims[1].is_constant(3));
  EXPECT_TRUE(dims[2].has_unknown() && dims[3].has_unknown() && dims[4].has_unknown());
  EXPECT_FALSE(dims[2] == dims[3]);
  EXPECT_TRUE(dims[6].has_unknown() && !(dims[6] == dims[7]));
  EXPECT_TRUE(dims[5].is_constant(0));
  const Node& n = *g.first_node();
  EXPECT_EQ(n.name(), "conv_1");
  EXPECT_EQ(n.opset(), 17);
  EXPECT_EQ(n.num_inputs(), 3);
  EXPECT_EQ(n.input(2), nullptr);
  EXPECT_THAT(n.input(1)->constant()->tensor().values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(n.GetInts("pads"), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(n.GetInt("group", 0), 4);
  EXPECT_EQ(n.GetInt("zero", 9), 0);
  EXPECT_EQ(n.GetString("auto_pad", ""), "NOTSET");
  EXPECT_EQ(n.GetFloat("alpha", 0), 0.5f);
  EXPECT_THAT(*n.FindAttribute<std::vector<std::string>>("names"), ElementsAre("a", "b"));
  EXPECT_THAT(*n.FindAttribute<std::vector<float>>("scales"), ElementsAre(1, 2));
  EXPECT_THAT(n.FindAttribute<Value>("t")->tensor().values<float>(), ElementsAre(3));
  EXPECT_THAT((*n.FindAttribute<std::vector<Value>>("ts"))[0].tensor().values<float>(), ElementsAre(4));
  EXPECT_EQ(n.FindAttribute<ValueType>("tp")->dtype, DType::kI64);
  EXPECT_TRUE((*n.output(0)->type().shape)[1].is_constant(7));
  EXPECT_TRUE((*g.outputs()[0]->type().shape)[1].is_constant(5));
}

TEST(OnnxReader, ContainerTypes) {
  const Message seq = Message().Sub(4, Message().Sub(1, TensorType(8, {"2"})));
  const Message map = Message().Sub(5, Message().Number(1, 7).Sub(2, TensorType(1, {})));
  const Message opt = Message().Sub(9, Message().Sub(1, seq));
  const GraphResult r = ReadGraph({.inputs = {ValueInfo("s", seq), ValueInfo("m", map), ValueInfo("o", opt)}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const std::vector<GraphValue*>& in = (*r)->inputs();
  EXPECT_EQ(in[0]->type().kind, ValueKind::kSequence);
  EXPECT_EQ(in[0]->type().element->kind, ValueKind::kStringTensor);
  EXPECT_EQ(in[1]->type().kind, ValueKind::kMap);
  EXPECT_EQ(in[1]->type().dtype, DType::kI64);
  EXPECT_EQ(in[1]->type().element->dtype, DType::kF32);
  EXPECT_EQ(in[2]->type().kind, ValueKind::kOptional);
  EXPECT_EQ(in[2]->type().element->kind, ValueKind::kSequence);
  const Message sparse = Message().Sub(8, Message().Number(1, 1));
  ExpectError(ReadGraph({.inputs = {ValueInfo("s", sparse)}}), StatusCode::kUnsupported, "graph.input 's': sparse");
  Message deep = TensorType(1, {});
  for (int i = 0; i < 50; ++i) deep = Message().Sub(4, Message().Sub(1, deep));
  ExpectError(ReadGraph({.inputs = {ValueInfo("d", deep)}}), StatusCode::kResourceExhausted, "nested deeper");
}

TEST(OnnxReader, InitializersThatAreInputsAreConstants) {
  for (int ir : {3, 4, 14}) {
    const GraphResult r = Read(ModelOf(GraphOf({.nodes = {NodeOf("Add", {"x", "w"}, {"y"})},
                                                .initializers = {FloatTensor("w", {1}, {2})},
                                                .inputs = {FloatInfo("x", {"1"}), FloatInfo("w", {"1"})},
                                                .outputs = {FloatInfo("y", {"1"})}}),
                                       13, ir));
    ASSERT_TRUE(r.ok()) << r.status().message();
    EXPECT_THAT(Names((*r)->inputs()), ElementsAre("x"));
    EXPECT_TRUE((*r)->FindValue("w")->is_constant());
    ASSERT_EQ((*r)->overridable.size(), 1u);
    EXPECT_EQ((*r)->overridable[0].first, "w");
    EXPECT_EQ(TypeToString((*r)->overridable[0].second), "f32[1]");
  }
}

TEST(OnnxReader, SortsNodesAndKeepsAnOrderThatIsOne) {
  const GraphResult sorted = ReadGraph({.nodes = {NodeOf("B", {"x"}, {"b"}), NodeOf("A", {"x"}, {"a"})},
                                        .inputs = {FloatInfo("x", {})},
                                        .outputs = {FloatInfo("a", {})}});
  EXPECT_THAT(Ops(**sorted), ElementsAre("B", "A"));
  const GraphResult r =
      ReadGraph({.nodes = {NodeOf("C", {"b"}, {"c"}), NodeOf("B", {"a"}, {"b"}), NodeOf("A", {"x"}, {"a"})},
                 .inputs = {FloatInfo("x", {})},
                 .outputs = {FloatInfo("c", {})}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(Ops(**r), ElementsAre("A", "B", "C"));
  // The node before the cycle is not blamed.
  ExpectError(ReadGraph({.nodes = {NodeOf("Z", {"b"}, {"z"}, "after"), NodeOf("A", {"b"}, {"a"}, "on"),
                                   NodeOf("B", {"a"}, {"b"}, "on")}}),
              StatusCode::kInvalidArgument, "'on'");
}

// If with both branches reading outer values: one of them twice removed, one branch hiding an outer name.
TEST(OnnxReader, SubgraphsGetCaptures) {
  const Message inner = GraphOf({.nodes = {NodeOf("Add", {"x", "k"}, {"i"})}, .outputs = {FloatInfo("i", {})}});
  const Message then_branch = GraphOf({.nodes = {NodeOf("If", {"c"}, {"t"})
                                                     .Sub(5, Attr("then_branch", 5).Sub(6, inner))
                                                     .Sub(5, Attr("else_branch", 5).Sub(6, inner))},
                                       .outputs = {FloatInfo("t", {})}});
  const Message else_branch =
      GraphOf({.nodes = {NodeOf("Neg", {"y"}, {"x"}), NodeOf("Abs", {"x"}, {"e"})}, .outputs = {FloatInfo("e", {})}});
  const Message node = NodeOf("If", {"c"}, {"r"}, "branch")
                           .Sub(5, Attr("then_branch", 5).Sub(6, then_branch))
                           .Sub(5, Attr("else_branch", 5).Sub(6, else_branch));
  // The If stands before the node that makes what its branches read.
  const GraphResult r =
      ReadGraph({.nodes = {node, NodeOf("Exp", {"y"}, {"k"})},
                 .inputs = {ValueInfo("c", TensorType(9, {})), FloatInfo("x", {"4"}), FloatInfo("y", {"5"})},
                 .outputs = {FloatInfo("r", {})}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Graph& g = **r;
  EXPECT_THAT(Ops(g), ElementsAre("Exp", "If"));
  const Node& n = *g.last_node();
  EXPECT_THAT(Names(n.captures()), ElementsAre("c", "x", "y", "k"));  // as the graph defines them
  const GraphPtr& then_graph = *n.FindAttribute<GraphPtr>("then_branch");
  const GraphPtr& else_graph = *n.FindAttribute<GraphPtr>("else_branch");
  EXPECT_THAT(Names(then_graph->inputs()), ElementsAre("c", "x", "y", "k"));
  EXPECT_THAT(Names(else_graph->inputs()), ElementsAre("c", "x_outer", "y", "k"));
  EXPECT_TRUE((*then_graph->inputs()[1]->type().shape)[0].is_constant(4));
  EXPECT_EQ(else_graph->last_node()->input(0)->producer(), else_graph->first_node());
  const Node& nested = *then_graph->first_node();
  EXPECT_THAT(Names(nested.captures()), ElementsAre("x", "k"));
  EXPECT_EQ(nested.captures()[0], then_graph->inputs()[1]);
  const GraphPtr& deepest = *nested.FindAttribute<GraphPtr>("then_branch");
  EXPECT_EQ(deepest->first_node()->input(1), deepest->inputs()[1]);
  EXPECT_EQ(deepest->opset(""), 17);
}

TEST(OnnxReader, SubgraphOutputsMayBeOuterValues) {
  const Message pass = GraphOf({.outputs = {FloatInfo("x", {})}});
  const GraphResult r = ReadGraph({.nodes = {NodeOf("If", {"c"}, {"r"})
                                                 .Sub(5, Attr("then_branch", 5).Sub(6, pass))
                                                 .Sub(5, Attr("else_branch", 5).Sub(6, pass))},
                                   .inputs = {ValueInfo("c", TensorType(9, {})), FloatInfo("x", {})},
                                   .outputs = {FloatInfo("r", {})}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const GraphPtr& g = *(*r)->first_node()->FindAttribute<GraphPtr>("else_branch");
  EXPECT_EQ(g->outputs()[0], g->inputs()[0]);
}

TEST(OnnxReader, LoopBodiesKeepTheirFormalInputs) {
  const Message body =
      GraphOf({.nodes = {NodeOf("Add", {"v", "k"}, {"w"})},
               .initializers = {FloatTensor("v", {1}, {9})},
               .inputs = {ValueInfo("i", TensorType(7, {})), ValueInfo("p", TensorType(9, {})), FloatInfo("v", {})},
               .outputs = {ValueInfo("p", TensorType(9, {})), FloatInfo("w", {})}});
  const GraphResult r = ReadGraph({.nodes = {NodeOf("Loop", {"", "", "k"}, {"r"}).Sub(5, Attr("body", 5).Sub(6, body))},
                                   .inputs = {FloatInfo("k", {})},
                                   .outputs = {FloatInfo("r", {})}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(Names((*(*r)->first_node()->FindAttribute<GraphPtr>("body"))->inputs()), ElementsAre("i", "p", "v", "k"));
}

TEST(OnnxReader, UndefinedAndDuplicateNames) {
  const Message x = FloatInfo("x", {});
  ExpectError(
      ReadGraph({.nodes = {NodeOf("Abs", {"x"}, {"a"}), NodeOf("Add", {"a", "nope"}, {"b"}, "sum")}, .inputs = {x}}),
      StatusCode::kInvalidArgument, "graph.node[1] 'sum' (Add): input 1 'nope' is not defined");
  ExpectError(ReadGraph({.outputs = {FloatInfo("y", {})}}), StatusCode::kInvalidArgument, "graph.output[0] 'y'");
  ExpectError(ReadGraph({.nodes = {NodeOf("Abs", {"x"}, {"x"})}, .inputs = {x}}), StatusCode::kInvalidArgument,
              "defined twice");
  ExpectError(ReadGraph({.nodes = {NodeOf("Abs", {"x"}, {"a"}), NodeOf("Abs", {"x"}, {"a"})}, .inputs = {x}}),
              StatusCode::kInvalidArgument, "node[1]");
  const auto constant = [](int64_t v) {
    return NodeOf("Constant", {}, {"k"}).Sub(5, Attr("value_int", 2).Number(3, v));
  };
  const GraphResult last = ReadGraph({.nodes = {constant(1), NodeOf("Neg", {"k"}, {"y"}), constant(2)}});
  ASSERT_TRUE(last.ok()) << last.status().message();
  EXPECT_EQ((*last)->last_node()->input(0)->producer()->GetInt("value_int", 0), 2);
  EXPECT_EQ((*last)->num_nodes(), 2);
  ExpectError(ReadGraph({.inputs = {x, x}}), StatusCode::kInvalidArgument, "'x' is declared twice");
  ExpectError(ReadGraph({.initializers = {FloatTensor("w", {1}, {1}), FloatTensor("w", {1}, {1})}}),
              StatusCode::kInvalidArgument, "'w' is defined twice");
  const Message lost = GraphOf({.nodes = {NodeOf("Abs", {"nowhere"}, {"t"})}, .outputs = {FloatInfo("t", {})}});
  ExpectError(ReadGraph({.nodes = {NodeOf("If", {"x"}, {"r"}, "f").Sub(5, Attr("then_branch", 5).Sub(6, lost))},
                         .inputs = {x}}),
              StatusCode::kInvalidArgument,
              "graph.node[0] 'f' (If): attribute 'then_branch': the subgraph reads 'nowhere'");
}

TEST(OnnxReader, Versions) {
  const Message graph = GraphOf(
      {.nodes = {NodeOf("Abs", {"x"}, {"y"})}, .inputs = {FloatInfo("x", {})}, .outputs = {FloatInfo("y", {})}});
  for (int opset : {6, 28}) EXPECT_TRUE(Read(ModelOf(graph, opset)).ok()) << opset;
  ExpectError(Read(ModelOf(graph, 5)), StatusCode::kUnsupported, "operator set 5 of ai.onnx is older than 6");
  ExpectError(Read(ModelOf(graph, 29)), StatusCode::kUnsupported, "newer than 28");
  for (int ir : {3, 14}) EXPECT_TRUE(Read(ModelOf(graph, 17, ir)).ok()) << ir;
  for (int ir : {0, 2, 15}) {
    ExpectError(Read(ModelOf(graph, 17, ir)), StatusCode::kUnsupported, "IR version " + std::to_string(ir));
  }
  // Other domains may be imported, not used; com.microsoft may be used without import.
  EXPECT_TRUE(Read(ModelOf(graph).Sub(8, Import("org.pytorch.aten", 1))).ok());
  const auto with_domain = [](std::string_view domain) {
    return GraphOf({.nodes = {NodeOf("Op", {"x"}, {"y"}, "n", domain)}, .inputs = {FloatInfo("x", {})}});
  };
  ExpectError(Read(ModelOf(with_domain("my.ops")).Sub(8, Import("my.ops", 1))), StatusCode::kUnsupported, "my.ops.Op");
  ExpectError(Read(ModelOf(with_domain("com.microsoft.nchwc"))), StatusCode::kUnsupported, "ORT_ENABLE_EXTENDED");
  ExpectError(Read(ModelOf(with_domain("ai.onnx.ml"))), StatusCode::kInvalidArgument, "no opset_import for ai.onnx.ml");
  EXPECT_TRUE(Read(ModelOf(with_domain("ai.onnx.ml")).Sub(8, Import("ai.onnx.ml", 3))).ok());
  const GraphResult ms = Read(ModelOf(with_domain("com.microsoft")));
  ASSERT_TRUE(ms.ok()) << ms.status().message();
  EXPECT_EQ((*ms)->opset("com.microsoft"), 1);
  // "ai.onnx" is the empty domain.
  EXPECT_TRUE(Read(Message().Number(1, 8).Sub(8, Import("ai.onnx", 17)).Sub(7, graph)).ok());
  ExpectError(Read(ModelOf(graph).Sub(8, Import("ai.onnx", 18))), StatusCode::kInvalidArgument, "two versions");
}

TEST(OnnxReader, BadAttributes) {
  const auto with = [](const Message& attribute) {
    return ReadGraph({.nodes = {NodeOf("Op", {}, {"y"}, "n").Sub(5, attribute)}});
  };
  ExpectError(with(Attr("a", 4)), StatusCode::kCorrupt, "attribute 'a': has type TENSOR but no tensor");
  ExpectError(with(Attr("a", 5)), StatusCode::kCorrupt, "attribute 'a' has type GRAPH but 0 graphs");
  ExpectError(with(Attr("a", 99)), StatusCode::kCorrupt, "unknown attribute type 99");
  ExpectError(with(Attr("", 2)), StatusCode::kCorrupt, "without a name");
  ExpectError(with(Attr("a", 2).Text(21, "outer")), StatusCode::kCorrupt, "function");
  ExpectError(with(Attr("a", 2).Sub(6, Message())), StatusCode::kCorrupt, "another type");
  ExpectError(ReadGraph({.nodes = {NodeOf("Op", {}, {"y"}).Sub(5, Attr("a", 2)).Sub(5, Attr("a", 2))}}),
              StatusCode::kInvalidArgument, "'a' is given twice");
  // Files from before attributes had a type.
  const GraphResult r = with(Message().Text(1, "a").Number(3, 5));
  EXPECT_EQ((*r)->first_node()->GetInt("a", 0), 5);
}

TEST(OnnxReader, OmittedOutputs) {
  const auto r = ReadGraph({.nodes = {NodeOf("Split", {"x"}, {"", "b", ""}), NodeOf("Neg", {"b"}, {"y"})},
                            .inputs = {FloatInfo("x", {"6"})},
                            .outputs = {FloatInfo("y", {"2"})}});
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Node& split = *(*r)->first_node();
  EXPECT_THAT(Names(split.outputs()), ElementsAre("", "b", ""));
  EXPECT_EQ(split.output(0), nullptr);
  EXPECT_EQ(split.next()->input(0), split.output(1));
  // Two nodes may both omit an output, but not both define one.
  EXPECT_TRUE(ReadGraph({.nodes = {NodeOf("A", {}, {"", "a"}), NodeOf("B", {}, {"", "b"})}}).ok());
}

TEST(OnnxReader, DocStringsOfTheModelAloneAreKept) {
  const Message node = NodeOf("Neg", {"x"}, {"y"}).Text(6, "of the node");
  const auto r = Read(
      ModelOf(
          GraphOf({.nodes = {node}, .inputs = {FloatInfo("x", {}).Text(3, "of the value")}}).Text(10, "of the graph"))
          .Text(6, "of the model"));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ((*r)->metadata.at("onnx.doc_string"), "of the model");
  for (const auto& [key, value] : (*r)->metadata)
    EXPECT_TRUE(key == "onnx.doc_string" || value.find("of the") == value.npos);
}

TEST(OnnxReader, Limits) {
  Message deep = GraphOf({});
  for (int i = 0; i < 40; ++i) deep = GraphOf({.nodes = {NodeOf("If", {}, {}).Sub(5, Attr("b", 5).Sub(6, deep))}});
  ExpectError(Read(ModelOf(deep)), StatusCode::kResourceExhausted, "nested deeper");
  OnnxReadOptions options;
  options.limits.nodes = 1;
  const Message two = ModelOf(GraphOf({.nodes = {NodeOf("A", {}, {"a"}), NodeOf("B", {}, {"b"})}}));
  ExpectError(Read(two, options), StatusCode::kResourceExhausted, "more nodes than the limit of 1");
  options = {};
  options.limits.model_bytes = 5;
  ExpectError(Read(two, options), StatusCode::kResourceExhausted, "the limit is 5");
  options = {};
  options.limits.attribute_elements = 2;
  ExpectError(
      Read(ModelOf(GraphOf({.nodes = {NodeOf("A", {}, {"a"}).Sub(5, Attr("l", 7).PackedNumbers(8, {1, 2, 3}))}})),
           options),
      StatusCode::kResourceExhausted, "attribute 'l': a list of more elements");
  // Quadratic growth: every subgraph of a node gets the captures of all of them.
  GraphParts parts;
  Message graphs = Attr("g", 10);
  for (int i = 0; i < 300; ++i) {
    const std::string name = "v" + std::to_string(i);
    parts.inputs.push_back(FloatInfo(name, {}));
    graphs.Sub(11, GraphOf({.outputs = {FloatInfo(name, {})}}));
  }
  parts.nodes = {NodeOf("Op", {}, {"y"}, "n").Sub(5, graphs)};
  options = {};
  options.limits.memory_bytes = 1 << 20;
  ExpectError(Read(ModelOf(GraphOf(parts)), options), StatusCode::kResourceExhausted, "more than the limit");
}

TEST(OnnxReader, ErrorsNameThePathAndTheByte) {
  std::string pads = Attr("pads", 7).bytes() + "\x42\x7f";  // ints: 127 bytes, of which none are there
  const std::string attribute = Message().Text(5, pads).bytes();
  std::string node = NodeOf("Conv", {"x"}, {"y"}, "conv_7").bytes() + attribute;
  const std::string model = ModelOf(Message().Text(1, node)).bytes();
  OnnxReadOptions options;
  options.name = "model.onnx";
  const GraphResult r = ReadOnnx(AsBytes(model), nullptr, options);
  ExpectError(
      r, StatusCode::kCorrupt,
      "model.onnx: graph.node[0] 'conv_7' (Conv): attribute 'pads': field 8: claims 127 bytes where 0 are left: "
      "truncated at byte " +
          std::to_string(model.size() - 2));
  ExpectError(ReadOnnx({}, nullptr, options), StatusCode::kCorrupt, "empty");
  ExpectError(ReadOnnxFile("/nonexistent/m.onnx"), StatusCode::kNotFound, "/nonexistent/m.onnx");
}

TEST(OnnxReader, WithoutAnOwnerNothingPointsIntoTheBytes) {
  std::string bytes = ModelOf(GraphOf({.nodes = {NodeOf("Neg", {"w"}, {"y"})},
                                       .initializers = {FloatTensor("w", {4}, {1, 2, 3, 4})},
                                       .outputs = {FloatInfo("y", {"4"})}}))
                          .bytes();
  const GraphResult r = ReadOnnx(AsBytes(bytes), nullptr);
  ASSERT_TRUE(r.ok());
  bytes.assign(bytes.size(), '\xff');
  EXPECT_THAT((*r)->FindValue("w")->constant()->tensor().values<float>(), ElementsAre(1, 2, 3, 4));
}

// A model with a bit of everything, cut at every byte and with seeded bit flips: an error or a graph, no crash.
TEST(OnnxReader, SurvivesDamage) {
  const Message inner = GraphOf({.nodes = {NodeOf("Add", {"x", "w"}, {"i"})}, .outputs = {FloatInfo("i", {"n", "3"})}});
  const Message node = NodeOf("If", {"c"}, {"r"}, "branch")
                           .Sub(5, Attr("then_branch", 5).Sub(6, inner))
                           .Sub(5, Attr("else_branch", 5).Sub(6, inner))
                           .Sub(5, Attr("l", 7).PackedNumbers(8, {1, 2}));
  Message typed;
  typed.Number(1, 3).Number(2, 7).Text(8, "t").PackedNumbers(7, {1, -2, 3});
  const std::string model =
      ModelOf(GraphOf({.nodes = {node, NodeOf("Cast", {"t"}, {"u"}).Sub(5, Attr("to", 2).Number(3, 1))},
                       .initializers = {FloatTensor("w", {3}, {1, 2, 3}), typed},
                       .inputs = {ValueInfo("c", TensorType(9, {})), FloatInfo("x", {"n", "3"})},
                       .outputs = {FloatInfo("r", {}), FloatInfo("u", {})}}))
          .Sub(14, Message().Text(1, "key").Text(2, "value"))
          .bytes();
  ASSERT_TRUE(ReadOnnx(AsBytes(model), nullptr).ok());
  int errors = 0;
  for (size_t n = 0; n < model.size(); ++n) {
    const std::string cut = model.substr(0, n);  // its own allocation: a sanitizer sees a read beyond
    errors += !ReadOnnx(AsBytes(cut), nullptr).ok();
  }
  EXPECT_GT(errors, static_cast<int>(model.size()) * 9 / 10);
  std::mt19937 random(7);
  OnnxReadOptions options;
  options.limits.memory_bytes = 64 << 20;
  for (int i = 0; i < 20000; ++i) {
    const std::string damaged = Damaged(model, random);
    const GraphResult r = ReadOnnx(AsBytes(damaged), nullptr, options);
    if (!r.ok()) {
      EXPECT_FALSE(r.status().message().empty());
    }
  }
}

}  // namespace
}  // namespace quern
