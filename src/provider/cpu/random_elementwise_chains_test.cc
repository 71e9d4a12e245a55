// Random graphs of elementwise nodes, fused and not: the same bits; and where the functions are exact, the reference's
// numbers.
#include <gtest/gtest.h>

#include <cstring>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

constexpr std::initializer_list<const char*> kExactUnary = {"Neg", "Abs", "Relu", "LeakyRelu", "Floor"};
constexpr std::initializer_list<const char*> kUnary = {"Neg",  "Abs",   "Relu", "Sigmoid",     "Tanh",    "Sqrt",
                                                       "Gelu", "Elu",   "Exp",  "Swish",       "Sign",    "Reciprocal",
                                                       "Selu", "Floor", "Erf",  "HardSigmoid", "Softplus"};
constexpr std::initializer_list<const char*> kBinary = {"Add", "Sub", "Mul", "Div", "Min", "Max", "Sum"};

// Nodes over values of one shape and parts of it that broadcast.
class ChainGraph {
 public:
  ChainGraph(const Shape& shape, bool exact) : shape_(shape), exact_(exact) {
    graph.opset_imports[""] = 24;
    floats_.push_back(Leaf(DType::kF32, shape));  // so that the results have the shape
    const auto leaves = static_cast<int>(Draw(1, 4));
    for (int i = 0; i < leaves; ++i) {
      const DType type = Pick({DType::kF32, DType::kF32, DType::kI8, DType::kU8});
      GraphValue* leaf = Leaf(type, DrawPart());
      floats_.push_back(type == DType::kF32 ? leaf : Dequantized(leaf));
    }
    floats_.push_back(Leaf(DType::kF32, Shape{}));
    bools_.push_back(Leaf(DType::kBool, DrawPart()));
    last_ = floats_[0];
    const auto nodes = static_cast<int>(Draw(2, 14));
    for (int i = 0; i < nodes; ++i) AddOne();
    graph.AddOutput(Draw(0, 2) ? last_ : Quantized(last_, Pick({DType::kI8, DType::kU8})));
    for (GraphValue* v : floats_) {
      if (v->producer() && v != last_ && Draw(0, 9) == 0) graph.AddOutput(v);
    }
  }

  Graph graph;
  std::vector<Value> inputs;

 private:
  // Any extents may be ones, and the first ones missing.
  Shape DrawPart() const { return Draw(0, 2) == 0 ? shape_ : BroadcastPart(shape_); }
  GraphValue* Leaf(DType type, const Shape& shape) {
    const Tensor t = DrawTensor(type, shape, 2, Draw(0, 3) == 0);
    const std::string name = graph.UniqueName("x");
    if (Draw(0, 3) == 0) {
      return graph.AddConstant(name, t);
    }
    inputs.emplace_back(t);
    return graph.AddInput(name, TypeOf(t));
  }
  static GraphValue* AnyOf(const std::vector<GraphValue*>& values) {
    return values[static_cast<size_t>(Draw(0, static_cast<int64_t>(values.size()) - 1))];
  }
  // Mostly what was made last, so that nodes follow each other.
  GraphValue* Float() { return Draw(0, 1) ? last_ : AnyOf(floats_); }
  GraphValue* Make(const char* op, std::vector<GraphValue*> operands,
                   std::map<std::string, Attribute, std::less<>> attributes = {}) {
    return graph
        .AddNode({.op_type = op,
                  .inputs = std::move(operands),
                  .outputs = {graph.UniqueName("v")},
                  .attributes = std::move(attributes)})
        ->output(0);
  }
  GraphValue* Quantized(GraphValue* v, DType type) { return Make("QuantizeLinear", {v, Number(0.25f), Zero(type)}); }
  GraphValue* Dequantized(GraphValue* v) {
    // The result of a QuantizeLinear has no type yet, its zero point has.
    const DType type = (v->producer() ? v->producer()->input(2) : v)->type().dtype;
    return Make("DequantizeLinear", {v, Number(Draw(0, 2) ? 0.25f : 0.5f), Zero(type)});
  }
  GraphValue* Zero(DType type) {
    return graph.AddConstant(graph.UniqueName("z"),
                             type == DType::kI8 ? Tensor::Scalar(int8_t{-3}) : Tensor::Scalar(uint8_t{119}));
  }
  GraphValue* Number(float value) { return graph.AddConstant(graph.UniqueName("k"), Tensor::Scalar(value)); }
  void AddOne() {
    switch (Draw(0, 9)) {
      case 0:
      case 1:
      case 2:
        return Keep(Make(exact_ ? Pick(kExactUnary) : Pick(kUnary), {Float()}));
      case 3: {
        GraphValue *low = Number(-1), *high = Number(static_cast<float>(Draw(0, 3)));
        return Keep(Make("Clip", Draw(0, 1) ? std::vector{Float(), low, high} : std::vector{Float(), low}));
      }
      case 4: {
        const char* op = Pick({"Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"});
        bools_.push_back(Make(op, {Float(), AnyOf(floats_)}));
        return Keep(Make("Where", {bools_.back(), AnyOf(floats_), Float()}));
      }
      case 5: {
        GraphValue* p = Draw(0, 1) ? Make("Not", {AnyOf(bools_)})
                                   : Make(Pick({"And", "Or", "Xor"}), {AnyOf(bools_), AnyOf(bools_)});
        bools_.push_back(p);
        return Keep(Make("Where", {p, Float(), AnyOf(floats_)}));
      }
      case 6: {
        GraphValue* cast = Make("Cast", {AnyOf(bools_)}, {{"to", static_cast<int64_t>(DType::kF32)}});
        return Keep(Make("Mul", {cast, Float()}));
      }
      case 7:
        if (exact_) return Keep(Make("Pow", {Float(), Number(2)}));
        return Keep(Make(Pick({"Mean", "Max", "Sum"}), {Float(), AnyOf(floats_), AnyOf(floats_)}));
      case 8:
        return Keep(Dequantized(Quantized(Float(), Pick({DType::kI8, DType::kU8}))));
      default:
        if (!exact_ && Draw(0, 7) == 0) return Keep(Make("Pow", {Float(), AnyOf(floats_)}));
        return Draw(0, 1) ? Keep(Make(Pick(kBinary), {Float(), AnyOf(floats_)}))
                          : Keep(Make(Pick(kBinary), {AnyOf(floats_), Float()}));
    }
  }
  void Keep(GraphValue* v) { floats_.push_back(last_ = v); }

  Shape shape_;
  bool exact_;
  GraphValue* last_ = nullptr;
  std::vector<GraphValue*> floats_, bools_;
};

int CountNodes(const Graph& graph, const CpuConfig& config) {
  InlineExecutor executor;
  const auto made = CpuExecutable::Compile(graph, config, executor);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? static_cast<int>((*made)->nodes().size()) : 0;
}

// The same elements; of NaN, some one.
void ExpectSameElements(const Tensor& actual, const Tensor& expected, bool bits) {
  ASSERT_EQ(actual.shape(), expected.shape());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  if (expected.dtype() != DType::kF32) {
    ASSERT_EQ(std::memcmp(actual.raw_data(), expected.raw_data(), expected.bytes()), 0);
    return;
  }
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const float a = actual.data<float>()[i], e = expected.data<float>()[i];
    if (std::isnan(a) && std::isnan(e)) continue;
    ASSERT_EQ(a, e) << "element " << i;
    if (bits) {
      ASSERT_EQ(std::signbit(a), std::signbit(e)) << "element " << i;
    }
  }
}

Shape DrawChainShape() {
  switch (Draw(0, 7)) {
    case 0:
      return Shape{Draw(50, 70), Draw(600, 900)};  // rows that are worth a call, several threads
    case 1:
      return Shape{Draw(900, 2500), Draw(2, 30)};  // many short rows
    case 2:
      return Shape{Draw(1, 3), Draw(2, 9), Draw(60, 90), Draw(2, 40)};
    default:
      return DrawShape(0, 6, 5);
  }
}

TEST_F(CpuOps, ChainsHaveTheBitsOfTheirNodes) {
  int apart = 0, fused = 0;
  for (int i = 0; i < 25 * kRounds; ++i) {
    const bool exact = Draw(0, 1) != 0, portable = Draw(0, 3) == 0;
    const Shape shape = DrawChainShape();
    ChainGraph g(shape, exact);
    ASSERT_TRUE(InferShapes(g.graph).ok());
    SCOPED_TRACE("round " + std::to_string(i) + " " + shape.ToString());
    const CpuConfig single = ConfigWithoutChains(portable);
    const Result<std::vector<Tensor>> nodes = RunOnCpu(g.graph, g.inputs, single);
    const Result<std::vector<Tensor>> chains = RunOnCpu(g.graph, g.inputs, Config(portable));
    ASSERT_TRUE(nodes.ok()) << nodes.status().message();
    ASSERT_TRUE(chains.ok()) << chains.status().message();
    for (size_t o = 0; o < nodes->size(); ++o) {
      ASSERT_NO_FATAL_FAILURE(ExpectSameElements((*chains)[o], (*nodes)[o], true));
    }
    if (exact) {
      const Result<std::vector<Value>> expected = EvaluateGraph(g.graph, g.inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      for (size_t o = 0; o < expected->size(); ++o) {
        ASSERT_NO_FATAL_FAILURE(ExpectSameElements((*chains)[o], (*expected)[o].tensor(), false));
      }
    }
    apart += CountNodes(g.graph, single);
    fused += CountNodes(g.graph, Config(portable));
  }
  EXPECT_LT(4 * fused, 3 * apart) << "few nodes were fused";
}

// What is one element for each row is computed once for it, and written out for a function that needs it so. The pass
// makes no such chain.
TEST(Chains, ValuesOfRows) {
  const Tensor x = DrawTensor(DType::kF32, Shape{5, 200}), v = DrawTensor(DType::kF32, Shape{5, 1});
  Graph chain, nodes;
  for (Graph* g : {&chain, &nodes}) {
    g->opset_imports[""] = 17;
    GraphValue *a = g->AddInput("x", TypeOf(x)), *b = g->AddInput("v", TypeOf(v));
    const auto node = [&](const char* op, std::vector<GraphValue*> inputs) {
      return g->AddNode({.op_type = op, .inputs = std::move(inputs), .outputs = {g->UniqueName("y")}})->output(0);
    };
    if (g == &nodes) {
      GraphValue* abs = node("Abs", {b});
      g->AddOutput(node("Where", {node("Less", {abs, a}), abs, node("Mul", {abs, a})}));
      continue;
    }
    g->opset_imports[kCpuDomain] = 1;
    Node* made = g->AddNode({.domain = kCpuDomain, .op_type = "Elementwise", .inputs = {a, b}, .outputs = {"y"}});
    made->SetAttribute("functions", std::vector<std::string>{"Abs", "Less", "Mul", "Where"});
    made->SetAttribute("operands", std::vector<int64_t>{1, 2, 0, 2, 0, 3, 2, 4});
    made->SetAttribute("parameters", std::vector<float>(8));
    made->SetAttribute("numbers", std::vector<float>());
    made->output(0)->set_type(TypeOf(x));
    g->AddOutput(made->output(0));
  }
  const std::vector<Value> inputs = {x, v};
  ASSERT_TRUE(InferShapes(nodes).ok());
  const Result<std::vector<Value>> expected = EvaluateGraph(nodes, inputs);
  const Result<std::vector<Tensor>> actual = RunOnCpu(chain, inputs, Config(false));
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  ExpectSameElements((*actual)[0], (*expected)[0].tensor(), false);
}

}  // namespace
}  // namespace quern::cpu
