// What follows a convolution, product or scale of channels moves into its epilogue, in the order bias, residual,
// activation, bounds, or bias, activation, residual, bounds:
//   Relu(Add(quern.cpu.Conv(x, w), r))  ->  quern.cpu.Conv(x, w, -, r) {activation = "Relu"}
//   Clip(Add(Tanh(quern.cpu.Conv(x, w)), r), a, b)
//     ->  quern.cpu.Conv(x, w, -, r) {activation = "Tanh", residual_last = 1, bounds = [a, b]}
//   Mul(c, Sigmoid(c)), c = quern.cpu.Conv(...)  ->  quern.cpu.Conv(...) {activation = "Silu"}, and so for Swish(c)
// when nothing else reads the values in between.
#include <algorithm>
#include <cmath>
#include <limits>

#include "provider/cpu/common/quantization.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

struct Activation {
  std::string name;
  std::vector<float> params;
};

std::optional<float> ScalarConstant(const GraphValue* v) {
  const Tensor* t = ConstantTensor(v);
  if (!t || t->dtype() != DType::kF32 || t->num_elements() != 1) return std::nullopt;
  return *t->data<float>();
}

// A PRelu by a constant slope for each channel. One slope for all makes it a LeakyRelu before (fuse_activations).
std::optional<Activation> SlopesOf(const Node& node) {
  const GraphValue* slope = node.input(1);
  if (!node.input(0)->type().shape || !IsConstantRow(*slope, *node.input(0)->type().shape)) return std::nullopt;
  const Tensor& t = *ConstantTensor(slope);
  if (t.dtype() != DType::kF32 || !t.is_contiguous()) return std::nullopt;
  const auto values = t.values<float>();
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) return std::nullopt;
  return Activation{"PRelu", {values.begin(), values.end()}};
}

// The node as an epilogue activation, if it is one.
std::optional<Activation> ActivationOf(const Node& node) {
  if (!node.domain().empty()) return std::nullopt;
  const std::string& op = node.op_type();
  if (op == "Relu" || op == "Sigmoid" || op == "Tanh" || op == "HardSwish" || op == "Softplus")
    return Activation{op, {}};
  if (op == "LeakyRelu" && std::isfinite(node.GetFloat("alpha", 0.01f))) {
    return Activation{op, {node.GetFloat("alpha", 0.01f)}};
  }
  if (op == "PRelu") return SlopesOf(node);
  if (op == "Swish") return Activation{"Silu", {node.GetFloat("alpha", 1.0f)}};
  if (op == "Elu") return Activation{op, {node.GetFloat("alpha", 1.0f)}};
  if (op == "HardSigmoid") return Activation{op, {node.GetFloat("alpha", 0.2f), node.GetFloat("beta", 0.5f)}};
  if (op == "Gelu") return Activation{node.GetString("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu", {}};
  if (op == "Clip") {
    float lo = std::numeric_limits<float>::lowest(), hi = std::numeric_limits<float>::max();
    if (node.opset() < 11) {
      lo = node.GetFloat("min", lo);
      hi = node.GetFloat("max", hi);
    } else {
      for (int i = 1; i <= 2; ++i) {
        if (!node.input(i)) continue;
        const std::optional<float> bound = ScalarConstant(node.input(i));
        if (!bound) return std::nullopt;
        (i == 1 ? lo : hi) = *bound;
      }
    }
    if (!(lo <= hi)) return std::nullopt;
    return Activation{"Clip", {lo, hi}};
  }
  return std::nullopt;
}

bool IsFusable(const Node* node) {
  return node && node->domain() == kCpuDomain &&
         (node->op_type() == "Conv" || node->op_type() == "MatMul" || node->op_type() == "ChannelScale") &&
         ProductType(*node) == DType::kF32;
}
bool HasActivation(const Node& node) { return node.FindAttribute<std::string>("activation") != nullptr; }
bool HasBounds(const Node& node) { return node.FindAttribute<std::vector<float>>("bounds") != nullptr; }

// The consumer's output becomes the product's.
void Absorb(Graph& graph, Node* product, Node* consumer) {
  graph.ReplaceAllUses(consumer->output(0), product->output(0));
  RemoveIfDead(graph, consumer);
}

void PutInput(Graph& graph, Node* node, int index, GraphValue* value) {
  while (node->num_inputs() < index) graph.SetInput(node, node->num_inputs(), nullptr);
  graph.SetInput(node, index, value);
}

bool FuseSilu(Graph& graph, Node* product) {
  GraphValue* out = product->output(0);
  if (out->uses().size() != 2 || HasActivation(*product) || out->is_graph_output()) return false;
  Node *a = out->uses()[0].node, *b = out->uses()[1].node;
  if (!a->Is("Sigmoid")) std::swap(a, b);
  if (!a->Is("Sigmoid") || !b->Is("Mul") || !OnlyUsedBy(a->output(0), b)) return false;
  product->SetAttribute("activation", std::string("Silu"));
  Absorb(graph, product, b);
  return true;
}

bool FuseAdd(Graph& graph, Node* product, Node* add) {
  if (!(add->Is("Add") || (add->Is("Sum") && add->num_inputs() == 2)) || HasBounds(*product)) return false;
  GraphValue* out = product->output(0);
  GraphValue* other = add->input(0) == out ? add->input(1) : add->input(0);
  if (other == out || !other->type().shape || !out->type().shape || other->type().dtype != out->type().dtype)
    return false;
  const Dims& dims = *out->type().shape;
  const Dims& d = *other->type().shape;
  if (IsConstantRow(*other, dims)) {
    if (product->input(2) || product->input(3) || HasActivation(*product)) return false;
    GraphValue* bias = other;
    if (d.size() > 1) {
      const Tensor& t = *ConstantTensor(other);
      if (!t.is_contiguous()) return false;
      bias = graph.AddConstant(graph.UniqueName(other->name() + "_row"), t.Reshaped(Shape{t.num_elements()}));
    }
    PutInput(graph, product, 2, bias);
    Absorb(graph, product, add);
    return true;
  }
  if (product->input(3) || !(d == dims) || other->is_constant()) return false;
  PutInput(graph, product, 3, other);
  if (HasActivation(*product)) product->SetAttribute("residual_last", int64_t{1});
  graph.MoveBefore(product, add);  // the residual is made before the sum, maybe after the product
  Absorb(graph, product, add);
  return true;
}

bool FuseNext(Graph& graph, Node* product) {
  if (FuseSilu(graph, product)) return true;
  GraphValue* out = product->output(0);
  if (out->uses().size() != 1 || !out->uses()[0].node || !out->uses()[0].node->domain().empty()) return false;
  Node* next = out->uses()[0].node;
  if (next->output(0)->type().shape != out->type().shape || next->output(0)->type().dtype != out->type().dtype)
    return false;
  if (FuseAdd(graph, product, next)) return true;
  if (HasBounds(*product) || next->input(0) != out) return false;
  std::optional<Activation> activation = ActivationOf(*next);
  if (!activation) return false;
  if (!HasActivation(*product)) {
    product->SetAttribute("activation", activation->name);
    product->SetAttribute("activation_params", activation->params);
  } else if (activation->name == "Relu") {
    product->SetAttribute("bounds", std::vector<float>{0, std::numeric_limits<float>::infinity()});
  } else if (activation->name == "Clip") {
    product->SetAttribute("bounds", activation->params);
  } else {
    return false;
  }
  Absorb(graph, product, next);
  return true;
}

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  std::vector<Node*> products;  // these stay; what follows them goes
  for (Node* node : graph.nodes()) {
    if (IsFusable(node) && node->output(0)->type().dtype == DType::kF32) products.push_back(node);
  }
  for (Node* node : products) {
    while (FuseNext(graph, node)) ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kFuseEpilogue = {"cpu_fuse_epilogue", "bias, residual and activation into convolutions and products",
                                   Run};

}  // namespace quern::cpu
