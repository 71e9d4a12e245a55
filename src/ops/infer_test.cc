// Inference over graphs: exporters' shape arithmetic, declared types, subgraphs; and the interpreter.
#include "ops/infer.h"

#include <gmock/gmock.h>

#include "ops/evaluate.h"

namespace quern {
namespace {

using testing::HasSubstr;
using I = std::vector<int64_t>;

Value Ints(const I& v) {
  return Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(v.size())}, std::span<const int64_t>(v));
}
ValueType F32(Dims dims) { return ValueType::Tensor(DType::kF32, std::move(dims)); }

// A graph under construction; values are named.
struct Builder {
  Graph graph;
  explicit Builder(int opset = 17) { graph.opset_imports[""] = opset; }
  GraphValue* In(std::string name, ValueType type) { return graph.AddInput(std::move(name), std::move(type)); }
  GraphValue* Const(std::string name, Value v) { return graph.AddConstant(std::move(name), std::move(v)); }
  GraphValue* Op(std::string op, std::vector<GraphValue*> inputs, std::string out,
                 std::map<std::string, Attribute, std::less<>> attributes = {}) {
    NodeSpec spec;
    spec.name = "n_" + out;
    spec.op_type = std::move(op);
    spec.inputs = std::move(inputs);
    spec.outputs = {std::move(out)};
    spec.attributes = std::move(attributes);
    return graph.AddNode(std::move(spec))->output(0);
  }
};

// What PyTorch exports for x.view(x.size(0), -1, 2 * x.size(1)).
void BuildViewChain(Builder& b) {
  GraphValue* x = b.In("x", F32({Dim::Symbol("batch"), Dim::Symbol("seq"), Dim(8)}));
  GraphValue* shape = b.Op("Shape", {x}, "shape");
  GraphValue* batch = b.Op("Gather", {shape, b.Const("i0", Tensor::Scalar<int64_t>(0))}, "batch_size");
  GraphValue* seq = b.Op("Gather", {shape, b.Const("i1", Tensor::Scalar<int64_t>(1))}, "seq_size");
  GraphValue* two = b.Op("Mul", {seq, b.Const("two", Tensor::Scalar<int64_t>(2))}, "twice");
  GraphValue* axes = b.Const("axes", Ints({0}));
  GraphValue* target =
      b.Op("Concat",
           {b.Op("Unsqueeze", {batch, axes}, "u0"), b.Const("rest", Ints({-1})), b.Op("Unsqueeze", {two, axes}, "u1")},
           "target", {{"axis", int64_t{0}}});
  b.graph.AddOutput(b.Op("Reshape", {x, target}, "y"));
}

TEST(InferShapes, ResolvesExportersShapeArithmeticSymbolically) {
  Builder b;
  BuildViewChain(b);
  const Status status = InferShapes(b.graph);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(TypeToString(b.graph.FindValue("y")->type()), "f32[batch,4,2*seq]");
  EXPECT_EQ(DimsToString(*b.graph.FindValue("shape")->data()), "[batch,seq,8]");
}

TEST(InferShapes, QuotientsOfExtentsAreFollowed) {
  Builder b;
  const auto extent = [&b](const char* name, Dims dims) {
    GraphValue* x = b.In(name, F32(std::move(dims)));
    GraphValue* shape = b.Op("Shape", {x}, std::string(name) + "_shape");
    return b.Op("Gather", {shape, b.Const(std::string(name) + "_at", Ints({0}))}, std::string(name) + "_size");
  };
  GraphValue* rows = extent("rows", {Dim::Symbol("n") * 6, Dim(2)});
  GraphValue* batch = extent("batch", {Dim::Symbol("n"), Dim(2)});
  b.graph.AddOutput(b.Op("Div", {rows, batch}, "each"));
  b.graph.AddOutput(b.Op("Div", {batch, rows}, "none"));
  ASSERT_TRUE(InferShapes(b.graph).ok());
  EXPECT_EQ(DimsToString(*b.graph.FindValue("each")->data()), "[6]");
  EXPECT_EQ(DimsToString(*b.graph.FindValue("none")->data()), "[floordiv(n, 6*n)]");
}

TEST(InferConcrete, LeavesTheGraphAloneAndGivesContents) {
  Builder b;
  BuildViewChain(b);
  ASSERT_TRUE(InferShapes(b.graph).ok());
  const std::vector<ValueType> inputs = {F32({Dim(3), Dim(5), Dim(8)})};
  const Result<ShapeTable> table = InferConcrete(b.graph, inputs);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(TypeToString(table->type(b.graph.FindValue("y"))), "f32[3,4,10]");
  EXPECT_EQ(DimsToString(*table->data(b.graph.FindValue("target"))), "[3,-1,10]");
  EXPECT_EQ(TypeToString(b.graph.FindValue("y")->type()), "f32[batch,4,2*seq]");
}

TEST(InferConcrete, ComputesFloatContentsForResize) {
  Builder b;
  GraphValue* x = b.In("x", F32({Dim(1), Dim(2), Dim::Symbol("h"), Dim::Symbol("w")}));
  GraphValue* shape = b.Op("Cast",
                           {
                               b.Op("Shape", {x}, "s"),
                           },
                           "float_shape", {{"to", int64_t{1}}});
  GraphValue* factor = b.Const("factor", Tensor::FromValues<float>(Shape{4}, std::vector<float>{1, 1, 1.5f, 2}));
  GraphValue* sizes =
      b.Op("Cast", {b.Op("Floor", {b.Op("Mul", {shape, factor}, "m")}, "f")}, "sizes", {{"to", int64_t{7}}});
  b.graph.AddOutput(b.Op("Resize", {x, nullptr, nullptr, sizes}, "y"));
  ASSERT_TRUE(InferShapes(b.graph).ok());
  const std::vector<ValueType> inputs = {F32({Dim(1), Dim(2), Dim(3), Dim(5)})};
  const Result<ShapeTable> table = InferConcrete(b.graph, inputs);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(TypeToString(table->type(b.graph.FindValue("y"))), "f32[1,2,4,10]");
}

TEST(InferShapes, ExpandWithMinusOneReplaced) {
  // torch.expand: Where(Equal(target, -1), ones, target), with a symbolic entry.
  Builder b;
  GraphValue* x = b.In("x", F32({Dim::Symbol("n"), Dim(1)}));
  GraphValue* target = b.Op("Concat", {b.Op("Shape", {x}, "s", {{"end", int64_t{1}}}), b.Const("four", Ints({4}))}, "t",
                            {{"axis", int64_t{0}}});
  GraphValue* ones = b.Op("ConstantOfShape", {b.Const("two", Ints({2}))}, "ones", {{"value", Ints({1})}});
  GraphValue* test = b.Op("Equal", {target, b.Op("Mul", {ones, b.Const("minus", Ints({-1}))}, "m")}, "eq");
  b.graph.AddOutput(b.Op("Expand", {x, b.Op("Where", {test, ones, target}, "w")}, "y"));
  ASSERT_TRUE(InferShapes(b.graph).ok());
  EXPECT_EQ(TypeToString(b.graph.FindValue("y")->type()), "f32[n,4]");
}

TEST(InferShapes, SumsOfExtentsAreNotMinusOne) {
  Builder b;
  GraphValue* past = b.In("past", F32({Dim::Symbol("p"), Dim(1)}));
  GraphValue* x = b.In("x", F32({Dim::Symbol("n"), Dim(1)}));
  GraphValue* all = b.Op("Concat", {past, x}, "all", {{"axis", int64_t{0}}});
  GraphValue* target = b.Op("Concat", {b.Op("Shape", {all}, "s", {{"end", int64_t{1}}}), b.Const("four", Ints({4}))},
                            "t", {{"axis", int64_t{0}}});
  GraphValue* test = b.Op("Equal", {target, b.Const("minus", Ints({-1, -1}))}, "eq");
  b.graph.AddOutput(b.Op("Expand", {all, b.Op("Where", {test, b.Const("ones", Ints({1, 1})), target}, "w")}, "y"));
  ASSERT_TRUE(InferShapes(b.graph).ok());
  EXPECT_EQ((*b.graph.FindValue("y")->type().shape)[0], Dim::Symbol("p") + Dim::Symbol("n"));
}

TEST(InferShapes, UnknownEntriesOfAConcatStayUnknown) {
  Builder b;
  GraphValue* x = b.In("x", F32({Dim(6), Dim(4)}));
  GraphValue* n = b.In("n", ValueType::Tensor(DType::kI64, Dims{Dim(1)}));
  b.graph.AddOutput(
      b.Op("Reshape", {x, b.Op("Concat", {n, b.Const("c", Ints({2}))}, "t", {{"axis", int64_t{0}}})}, "y"));
  ASSERT_TRUE(InferShapes(b.graph).ok());
  const ValueType& type = b.graph.FindValue("y")->type();
  ASSERT_EQ(type.rank(), 2);
  EXPECT_TRUE((*type.shape)[0].has_unknown());
  EXPECT_TRUE((*type.shape)[1].is_constant(2));
  // Once the content is given, everything is known.
  const std::vector<ValueType> types = {x->type(), n->type()};
  const std::vector<Value> contents = {Value(), Ints({-1})};
  const Result<ShapeTable> table = InferConcrete(b.graph, types, contents);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(TypeToString(table->type(b.graph.FindValue("y"))), "f32[12,2]");
}

// Of a table for other inputs what does not follow from the new ones goes, and nothing else.
TEST(UpdateConcrete, InfersWhatChanges) {
  Builder b;
  GraphValue* past = b.In("past", F32({Dim::Symbol("p"), Dim(2)}));
  GraphValue* x = b.In("x", F32({Dim::Symbol("n"), Dim(2)}));
  GraphValue* scales = b.In("scales", F32({Dim(2)}));
  GraphValue* all = b.Op("Concat", {past, x}, "all", {{"axis", int64_t{0}}});
  GraphValue* length = b.Op("Shape", {all}, "length", {{"end", int64_t{1}}});
  b.graph.AddOutput(b.Op("Expand", {b.Const("zero", Ints({0})), length}, "zeros"));
  GraphValue* twice = b.Op("Mul", {x, b.Const("two", Tensor::Scalar<float>(2))}, "twice");
  b.graph.AddOutput(b.Op("Resize", {twice, nullptr, scales}, "resized"));
  ASSERT_TRUE(InferShapes(b.graph).ok());
  ShapeTable table;
  std::vector<float> factors = {1, 3};  // memory of the caller that it writes to between calls
  const auto update = [&](int64_t p, int64_t n) {
    const std::vector<ValueType> types = {F32({Dim(p), Dim(2)}), F32({Dim(n), Dim(2)}), scales->type()};
    const std::vector<Value> contents = {Value(), Value(), Tensor::Wrap(DType::kF32, Shape{2}, factors.data())};
    Result<std::vector<const GraphValue*>> changed = UpdateConcrete(b.graph, types, contents, {}, table);
    EXPECT_TRUE(changed.ok()) << changed.status().message();
    std::vector<std::string> names;
    for (const GraphValue* v : *changed) names.push_back(v->name());
    return names;
  };
  const auto type = [&](const char* name) { return TypeToString(table.type(b.graph.FindValue(name))); };
  using testing::UnorderedElementsAre;
  EXPECT_THAT(update(4, 1), UnorderedElementsAre("past", "x", "scales", "all", "length", "zeros", "twice", "resized"));
  EXPECT_EQ(type("zeros"), "i64[5]");
  EXPECT_EQ(type("resized"), "f32[1,6]");
  EXPECT_THAT(update(4, 1), testing::IsEmpty());
  EXPECT_THAT(update(5, 1), UnorderedElementsAre("past", "all", "length", "zeros"));
  EXPECT_EQ(type("zeros"), "i64[6]");
  EXPECT_THAT(update(3, 3), UnorderedElementsAre("past", "x", "twice", "resized"));  // 6 rows in all, as before
  EXPECT_EQ(type("zeros"), "i64[6]");
  EXPECT_EQ(type("resized"), "f32[3,6]");
  factors = {2, 3};
  EXPECT_THAT(update(3, 3), UnorderedElementsAre("scales", "resized"));
  EXPECT_EQ(type("resized"), "f32[6,6]");
}

// The rows of the initial state are entries of the batch, so a symbolic batch is their number.
TEST(InferShapes, InitialStatesTellTheBatch) {
  for (const bool batch_first : {false, true}) {
    Builder b;
    const Dim n = Dim::Symbol("n");
    GraphValue* x = b.In("x", F32(batch_first ? Dims{n, 5, 3} : Dims{5, n, 3}));
    GraphValue* w = b.In("w", F32({1, 6, 3}));
    GraphValue* r = b.In("r", F32({1, 6, 2}));
    GraphValue* h = b.In("h", F32(batch_first ? Dims{4, 1, 2} : Dims{1, 4, 2}));
    GraphValue* y = b.Op("GRU", {x, w, r, nullptr, nullptr, h}, "y",
                         {{"hidden_size", int64_t{2}}, {"layout", int64_t{batch_first}}});
    b.graph.AddOutput(y);
    ASSERT_TRUE(InferShapes(b.graph).ok());
    EXPECT_EQ(DimsToString(*y->type().shape), batch_first ? "[4,5,1,2]" : "[5,1,4,2]");
    const ValueType other = F32(batch_first ? Dims{3, 5, 3} : Dims{5, 3, 3});
    const std::vector<ValueType> types = {other, w->type(), r->type(), h->type()};
    EXPECT_FALSE(InferConcrete(b.graph, types).ok());
  }
}

TEST(InferShapes, ErrorsNameTheNode) {
  Builder unfit;
  GraphValue* a = unfit.In("a", F32({Dim(2), Dim(3)}));
  unfit.graph.AddOutput(unfit.Op("Add", {a, unfit.In("b", F32({Dim(4)}))}, "c"));
  EXPECT_THAT(InferShapes(unfit.graph).message(), HasSubstr("node 'n_c' (Add): shapes [2,3] and [4] do not broadcast"));
  Builder types;
  types.graph.AddOutput(types.Op("Not", {types.In("a", F32({Dim(2)}))}, "c"));
  EXPECT_THAT(InferShapes(types.graph).message(), HasSubstr("node 'n_c' (Not): input X has element type f32"));
  Builder attribute;
  attribute.graph.AddOutput(attribute.Op("Relu", {attribute.In("a", F32({Dim(2)}))}, "c", {{"axis", int64_t{0}}}));
  EXPECT_THAT(InferShapes(attribute.graph).message(), HasSubstr("attribute 'axis' is not defined"));
  Builder count;
  count.graph.AddOutput(count.Op("Add", {count.In("a", F32({Dim(2)}))}, "c"));
  EXPECT_THAT(InferShapes(count.graph).message(), HasSubstr("has 1 inputs, at least 2"));
}

TEST(InferShapes, DeclaredShapesThatContradict) {
  Builder b;
  GraphValue* y = b.Op("Relu", {b.In("x", F32({Dim(2)}))}, "y");
  b.graph.AddOutput(y);
  y->set_type(F32({Dim(3)}));
  InferOptions strict;
  strict.strict = true;
  EXPECT_THAT(InferShapes(b.graph, strict).message(), HasSubstr("output 'y' is f32[2] but the model declares f32[3]"));
  InferOptions lenient;
  std::vector<std::string> warnings;
  lenient.warnings = &warnings;
  ASSERT_TRUE(InferShapes(b.graph, lenient).ok());
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_EQ(TypeToString(y->type()), "f32[2]");
  y->set_type(ValueType::Tensor(DType::kF64, Dims{Dim(2)}));
  EXPECT_FALSE(InferShapes(b.graph, lenient).ok());
}

TEST(InferShapes, UnknownOperatorsKeepWhatIsDeclared) {
  Builder b;
  GraphValue* y = b.Op("NoSuchOp", {b.In("x", F32({Dim(2)}))}, "y");
  b.graph.AddOutput(y);
  y->set_type(F32({Dim(7)}));
  ASSERT_TRUE(InferShapes(b.graph).ok());
  EXPECT_EQ(TypeToString(y->type()), "f32[7]");
  EXPECT_THAT(FindOpVersion(*y->producer()).status().message(), HasSubstr("ai.onnx.NoSuchOp is not known"));
}

// if cond: x + x else: first `rows` rows of x; x is captured.
GraphPtr Branch(const char* op, Dims shape, bool slice) {
  auto g = std::make_shared<Graph>();
  g->opset_imports[""] = 17;
  GraphValue* x = g->AddInput("x", F32(std::move(shape)));
  NodeSpec spec;
  spec.op_type = op;
  spec.outputs = {"out"};
  spec.inputs = {x, x};
  if (slice) spec.inputs = {x, g->AddConstant("starts", Ints({0})), g->AddConstant("ends", Ints({1}))};
  g->AddOutput(g->AddNode(std::move(spec))->output(0));
  return g;
}

TEST(If, MergesBranchesAndRunsOne) {
  Builder b;
  GraphValue* cond = b.In("cond", ValueType::Tensor(DType::kBool, Dims{}));
  GraphValue* x = b.In("x", F32({Dim(2), Dim(3)}));
  NodeSpec spec;
  spec.name = "choice";
  spec.op_type = "If";
  spec.inputs = {cond};
  spec.captures = {x};
  spec.outputs = {"y"};
  spec.attributes["then_branch"] = Branch("Add", {Dim(2), Dim(3)}, false);
  spec.attributes["else_branch"] = Branch("Slice", {Dim(2), Dim(3)}, true);
  b.graph.AddOutput(b.graph.AddNode(std::move(spec))->output(0));
  const Status status = InferShapes(b.graph);
  ASSERT_TRUE(status.ok()) << status.message();
  const ValueType& type = b.graph.FindValue("y")->type();
  EXPECT_TRUE((*type.shape)[0].has_unknown());
  EXPECT_TRUE((*type.shape)[1].is_constant(3));

  const Value data = Tensor::FromValues<float>(Shape{2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  for (bool first : {true, false}) {
    const std::vector<Value> inputs = {Tensor::Scalar<bool>(first), data};
    const Result<std::vector<Value>> out = EvaluateGraph(b.graph, inputs);
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_EQ((*out)[0].tensor().shape(), first ? (Shape{2, 3}) : (Shape{1, 3}));
    EXPECT_EQ((*out)[0].tensor().values<float>()[2], first ? 6 : 3);
    // A known condition leaves one branch.
    const std::vector<ValueType> types = {cond->type(), x->type()};
    const Result<ShapeTable> table = InferConcrete(b.graph, types, inputs);
    ASSERT_TRUE(table.ok()) << table.status().message();
    EXPECT_EQ(TypeToString(table->type(b.graph.FindValue("y"))), first ? "f32[2,3]" : "f32[1,3]");
  }
}

TEST(Loop, CarriesGrowingStateAndCollects) {
  // state = Concat(state, x); collected: the iteration number.
  auto body = std::make_shared<Graph>();
  body->opset_imports[""] = 17;
  GraphValue* i = body->AddInput("i", ValueType::Tensor(DType::kI64, Dims{}));
  GraphValue* going = body->AddInput("going", ValueType::Tensor(DType::kBool, Dims{}));
  GraphValue* state = body->AddInput("state", ValueType::Tensor(DType::kF32));
  GraphValue* x = body->AddInput("x", F32({Dim(1)}));
  auto add = [&](const char* op, std::vector<GraphValue*> in, const char* out) {
    NodeSpec spec;
    spec.op_type = op;
    spec.inputs = std::move(in);
    spec.outputs = {out};
    if (std::string_view(op) == "Concat") spec.attributes["axis"] = int64_t{0};
    return body->AddNode(std::move(spec))->output(0);
  };
  body->AddOutput(add("Identity", {going}, "go_on"));
  body->AddOutput(add("Concat", {state, x}, "next"));
  body->AddOutput(add("Identity", {i}, "count"));
  Builder b;
  NodeSpec spec;
  spec.op_type = "Loop";
  spec.name = "loop";
  GraphValue* trips = b.In("trips", ValueType::Tensor(DType::kI64, Dims{}));
  spec.inputs = {trips, nullptr, b.In("start", F32({Dim(2)}))};
  spec.captures = {b.In("x", F32({Dim(1)}))};
  spec.outputs = {"end", "counts"};
  spec.attributes["body"] = body;
  Node* loop = b.graph.AddNode(std::move(spec));
  b.graph.AddOutput(loop->output(0));
  b.graph.AddOutput(loop->output(1));
  const Status status = InferShapes(b.graph);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(loop->output(0)->type().has_rank());
  EXPECT_TRUE(loop->output(0)->type().shape->front().has_unknown());
  const std::vector<Value> inputs = {Tensor::Scalar<int64_t>(3),
                                     Tensor::FromValues<float>(Shape{2}, std::vector<float>{1, 2}),
                                     Tensor::FromValues<float>(Shape{1}, std::vector<float>{9})};
  Result<std::vector<Value>> out = EvaluateGraph(b.graph, inputs);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_THAT((*out)[0].tensor().values<float>(), testing::ElementsAre(1, 2, 9, 9, 9));
  EXPECT_THAT((*out)[1].tensor().values<int64_t>(), testing::ElementsAre(0, 1, 2));
  std::vector<Value> none = inputs;
  none[0] = Tensor::Scalar<int64_t>(0);
  out = EvaluateGraph(b.graph, none);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[1].tensor().shape(), (Shape{0}));
  Limits limits;
  limits.loop_iterations = 2;
  EXPECT_EQ(EvaluateGraph(b.graph, inputs, limits).status().code(), StatusCode::kResourceExhausted);
}

TEST(EvaluateNode, RefusesOutputsAboveTheLimit) {
  Builder b;
  GraphValue* y = b.Op("ConstantOfShape", {b.In("n", ValueType::Tensor(DType::kI64, Dims{Dim(1)}))}, "y");
  Limits limits;
  limits.tensor_bytes = 1 << 20;
  const std::vector<Value> inputs = {Ints({1 << 20})};
  const Result<std::vector<Value>> out = EvaluateNode(*y->producer(), inputs, limits);
  EXPECT_EQ(out.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(out.status().message(), HasSubstr("node 'n_y' (ConstantOfShape)"));
}

TEST(Ops, TableIsConsistent) {
  const OpDefinition* before = nullptr;
  for (const OpDefinition* op : AllOps()) {
    EXPECT_EQ(FindOp(op->domain, op->name), op) << op->name << " is defined twice";
    ASSERT_FALSE(op->versions.empty());
    for (size_t i = 0; i < op->versions.size(); ++i) {
      EXPECT_TRUE(op->versions[i].infer != nullptr && op->versions[i].evaluate != nullptr) << op->name;
      if (i > 0) EXPECT_LT(op->versions[i - 1].since, op->versions[i].since) << op->name;
    }
    before = op;
  }
  EXPECT_NE(before, nullptr);
}

}  // namespace
}  // namespace quern
