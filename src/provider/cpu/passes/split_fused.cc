// Operators of com.microsoft that stand for several become those, which have kernels and join their neighbours:
//   FusedConv(x, w, b, z)                  ->  activation(Add(Conv(x, w, b), z))
//   FastGelu(x, b), BiasGelu(x, b), Gelu   ->  Gelu(Add(x, b))
//   QuickGelu(x)                           ->  Swish(x)
//   SkipLayerNormalization(x, s, g, b, c)  ->  LayerNormalization(Add(Add(x, s), c), g, b)
//   SkipSimplifiedLayerNormalization       ->  RMSNormalization likewise
//   GatedAdd(x, y, g)                      ->  Add(x, Mul(y, g))
//   GatedRMSNorm(x, s, g)                  ->  Mul(RMSNormalization(x, s), activation(g)), groups by way of Reshape
//   Attention(x, w, b, mask, past, bias)   ->  quern.cpu.Attention(Add(MatMul(x, w), b), mask, past, bias)
//   QAttention                             ->  likewise, of MatMulIntegerToFloat
//   DynamicQuantizeMatMul(a, b, s, z, c)   ->  MatMulIntegerToFloat of DynamicQuantizeLinear(a) and b
//   QLinearWhere(p, x, y)                  ->  Where(p, x, y), x and y with the scale and zero point of the result
#include <array>

#include "provider/cpu/common/fused_operators.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

using Attributes = std::map<std::string, Attribute, std::less<>>;

// Adds nodes before the one that they stand for, which gives them its name.
class Splitter {
 public:
  Splitter(Graph& graph, Node* node) : graph_(graph), node_(node) {}

  GraphValue* Add(const char* op, int opset, std::vector<GraphValue*> inputs, Attributes attributes = {}) {
    Node* made = graph_.AddNode({.name = node_->name(),
                                 .op_type = op,
                                 .opset = opset,
                                 .inputs = std::move(inputs),
                                 .outputs = {graph_.UniqueName(node_->output(0)->name() + "_part")},
                                 .attributes = std::move(attributes)},
                                node_);
    made->output(0)->set_type(node_->output(0)->type());
    return made->output(0);
  }
  GraphValue* Scalar(float number) {
    return graph_.AddConstant(graph_.UniqueName(node_->output(0)->name() + "_number"), Tensor::Scalar(number));
  }
  // x where there is nothing to add.
  GraphValue* Sum(GraphValue* x, GraphValue* y) { return y ? Add("Add", 14, {x, y}) : x; }
  GraphValue* Activation(GraphValue* x) {
    const FusedActivation* a = FindFusedActivation(*node_);
    if (!a) return x;
    const auto* given = node_->FindAttribute<std::vector<float>>("activation_params");
    const auto param = [&](size_t i) { return given && i < given->size() ? (*given)[i] : a->defaults[i]; };
    if (std::string_view(a->op_type) == "Clip") return Add("Clip", 13, {x, Scalar(param(0)), Scalar(param(1))});
    Attributes attributes;
    if (a->parameters >= 1) attributes["alpha"] = param(0);
    if (a->parameters >= 2) attributes["beta"] = param(1);
    return Add(a->op_type, a->opset, {x}, std::move(attributes));
  }

  GraphValue* Conv() {
    Attributes attributes = node_->attributes();
    attributes.erase("activation");
    attributes.erase("activation_params");
    std::vector<GraphValue*> inputs = {node_->input(0), node_->input(1)};
    if (node_->input(2)) inputs.push_back(node_->input(2));
    return Activation(Sum(Add("Conv", 11, std::move(inputs), std::move(attributes)), node_->input(3)));
  }
  GraphValue* Gelu(const char* approximate) {
    return Add("Gelu", 20, {Sum(node_->input(0), node_->input(1))}, {{"approximate", std::string(approximate)}});
  }
  GraphValue* QuickGelu() { return Add("Swish", 24, {node_->input(0)}, {{"alpha", node_->GetFloat("alpha", 1.702f)}}); }
  // `parameters` of the normalization; the operator's next input is added too.
  GraphValue* SkipNorm(const char* op, int opset, int parameters) {
    GraphValue* sum = Sum(Add("Add", 14, {node_->input(0), node_->input(1)}), node_->input(2 + parameters));
    if (GraphValue* wanted = node_->output(3)) graph_.ReplaceAllUses(wanted, sum);
    std::vector<GraphValue*> inputs = {sum};
    for (int i = 0; i < parameters; ++i) {
      if (node_->input(2 + i)) inputs.push_back(node_->input(2 + i));
    }
    return Add(op, opset, std::move(inputs), {{"axis", int64_t{-1}}, {"epsilon", node_->GetFloat("epsilon", 1e-12f)}});
  }

  GraphValue* GatedAdd() {
    return Add("Add", 14, {node_->input(0), Add("Mul", 14, {node_->input(1), node_->input(2)})});
  }
  // In the shape `dims`, where 0 is the dimension that x has there; `type` is the result's.
  GraphValue* Reshape(GraphValue* x, const std::vector<int64_t>& dims, const ValueType& type) {
    const Shape shape{static_cast<int64_t>(dims.size())};
    GraphValue* made = Add("Reshape", 14,
                           {x, graph_.AddConstant(graph_.UniqueName(node_->output(0)->name() + "_shape"),
                                                  Tensor::FromValues<int64_t>(shape, dims))});
    made->set_type(type);
    return made;
  }
  GraphValue* GatedNorm() {
    GraphValue *x = node_->input(0), *gate = node_->input(2);
    const ValueType whole = node_->output(0)->type();
    const int64_t width = whole.shape->back().value(), count = node_->input(1)->type().shape->back().value();
    ValueType groups = whole;
    if (count != width) {
      groups.shape->back() = width / count;
      groups.shape->push_back(count);
      std::vector<int64_t> dims(groups.shape->size() - 2, 0);
      dims.insert(dims.end(), {width / count, count});
      x = Reshape(x, dims, groups);
    }
    x = Add("RMSNormalization", 23, {x, node_->input(1)},
            {{"axis", int64_t{-1}}, {"epsilon", node_->GetFloat("epsilon", 1e-5f)}});
    x->set_type(groups);
    if (count != width) {
      std::vector<int64_t> dims(whole.shape->size() - 1, 0);
      dims.push_back(width);
      x = Reshape(x, dims, whole);
    }
    const bool by_gate = node_->GetString("activation", "silu") != "sigmoid";
    return Add("Mul", 14, {x, by_gate ? Add("Swish", 24, {gate}) : Add("Sigmoid", 13, {gate})});
  }

  GraphValue* ProductToFloat(std::vector<GraphValue*> inputs, ValueType type) {
    return AddProductToFloat(graph_, *node_, std::move(inputs), std::move(type), node_)->output(0);
  }
  GraphValue* DynamicQuantizeMatMul() {
    const std::string stem = node_->output(0)->name();
    Node* quantized =
        graph_.AddNode({.name = node_->name(),
                        .op_type = "DynamicQuantizeLinear",
                        .opset = 11,
                        .inputs = {node_->input(0)},
                        .outputs = {graph_.UniqueName(stem + "_stored"), graph_.UniqueName(stem + "_scale"),
                                    graph_.UniqueName(stem + "_zero")}},
                       node_);
    quantized->output(0)->set_type(ValueType::Tensor(DType::kU8, node_->input(0)->type().shape));
    quantized->output(1)->set_type(ValueType::Tensor(DType::kF32, Dims{}));
    quantized->output(2)->set_type(ValueType::Tensor(DType::kU8, Dims{}));
    return ProductToFloat({quantized->output(0), node_->input(1), quantized->output(1), node_->input(2),
                           quantized->output(2), node_->input(3), node_->input(4)},
                          node_->output(0)->type());
  }
  // Input `i`, which its scale and zero point follow, with those of inputs 7 and 8: a QLinearLeakyRelu that changes no
  // number.
  GraphValue* Restored(int i) {
    const Node& n = *node_;
    if (n.input(i + 1) == n.input(7) && n.input(i + 2) == n.input(8)) return n.input(i);
    Node* made = graph_.AddNode({.name = n.name(),
                                 .domain = "com.microsoft",
                                 .op_type = "QLinearLeakyRelu",
                                 .opset = 1,
                                 .inputs = {n.input(i), n.input(i + 1), n.input(i + 2), n.input(7), n.input(8)},
                                 .outputs = {graph_.UniqueName(n.output(0)->name() + "_part")},
                                 .attributes = {{"alpha", 1.0f}}},
                                node_);
    made->output(0)->set_type(n.input(i)->type());
    return made->output(0);
  }
  GraphValue* QLinearWhere() { return Add("Where", 16, {node_->input(0), Restored(1), Restored(4)}); }
  // Queries, keys and values side by side.
  ValueType ProjectedType() const {
    Dims projected = *node_->input(0)->type().shape;
    projected.back() = node_->input(1)->type().shape->back();
    return ValueType::Tensor(DType::kF32, std::move(projected));
  }
  GraphValue* Attention() {
    GraphValue* qkv = Add("MatMul", 13, {node_->input(0), node_->input(1)});
    qkv->set_type(ProjectedType());
    qkv = Sum(qkv, node_->input(2));
    qkv->set_type(ProjectedType());
    return AttentionOn(qkv, {node_->input(3), node_->input(4), node_->input(5)});
  }
  GraphValue* QAttention() {
    const Node& n = *node_;
    GraphValue* qkv = ProductToFloat(
        {n.input(0), n.input(1), n.input(3), n.input(4), n.input(6), n.input(7), n.input(2)}, ProjectedType());
    return AttentionOn(qkv, {n.input(5), n.input(8), nullptr});
  }
  // `others`: mask, past, biases of the scores.
  GraphValue* AttentionOn(GraphValue* qkv, const std::array<GraphValue*, 3>& others) {
    const int64_t columns = qkv->type().shape->back().value();
    Attributes attributes = node_->attributes();
    if (node_->GetInts("qkv_hidden_sizes").empty()) {
      attributes["qkv_hidden_sizes"] = std::vector<int64_t>(3, columns / 3);
    }
    const bool caches = node_->output(1) != nullptr;
    Node* made =
        graph_.AddNode({.name = node_->name(),
                        .domain = kCpuDomain,
                        .op_type = "Attention",
                        .opset = 1,
                        .inputs = {qkv, others[0], others[1], others[2]},
                        .outputs = {graph_.UniqueName(node_->output(0)->name() + "_part"),
                                    caches ? graph_.UniqueName(node_->output(1)->name() + "_part") : std::string()},
                        .attributes = std::move(attributes)},
                       node_);
    made->output(0)->set_type(node_->output(0)->type());
    if (caches) {
      made->output(1)->set_type(node_->output(1)->type());
      graph_.ReplaceAllUses(node_->output(1), made->output(1));
    }
    return made->output(0);
  }

  GraphValue* Split() {
    const std::string& op = node_->op_type();
    if (op == "FusedConv") return Conv();
    if (op == "FastGelu") return Gelu("tanh");
    if (op == "BiasGelu" || op == "Gelu") return Gelu("none");
    if (op == "QuickGelu") return QuickGelu();
    if (op == "SkipLayerNormalization") return SkipNorm("LayerNormalization", 17, 2);
    if (op == "SkipSimplifiedLayerNormalization") return SkipNorm("RMSNormalization", 23, 1);
    if (op == "GatedAdd") return GatedAdd();
    if (op == "GatedRMSNorm") return GatedNorm();
    if (op == "Attention") return Attention();
    if (op == "QAttention") return QAttention();
    if (op == "DynamicQuantizeMatMul") return DynamicQuantizeMatMul();
    if (op == "QLinearWhere") return QLinearWhere();
    return nullptr;
  }

 private:
  Graph& graph_;
  Node* node_;
};

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (node->domain() != "com.microsoft") continue;
    GraphValue* result = Splitter(graph, node).Split();
    if (!result) continue;
    graph.ReplaceAllUses(node->output(0), result);
    RemoveIfDead(graph, node);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kSplitFused = {"cpu_split_fused", "fused operators of com.microsoft to what they stand for", Run,
                                 /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
