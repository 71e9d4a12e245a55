#include "provider/cpu/passes/edit.h"

#include <algorithm>
#include <set>

#include "ops/common/permutation.h"
#include "tensor/tensor.h"

namespace quern::cpu {

Permutation ToChannelsLast(int rank) {
  Permutation p = {0};
  for (int i = 2; i < rank; ++i) p.push_back(i);
  p.push_back(1);
  return p;
}

Permutation ToChannelsFirst(int rank) { return Inverse(ToChannelsLast(rank)); }

Permutation Inverse(const Permutation& p) {
  Permutation q(p.size());
  for (size_t i = 0; i < p.size(); ++i) q[p[i]] = static_cast<int64_t>(i);
  return q;
}

Permutation Compose(const Permutation& first, const Permutation& second) {
  Permutation p;
  for (int64_t i : second) p.push_back(first[i]);
  return p;
}

bool IsIdentity(const Permutation& p) {
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::optional<Permutation> TransposePermutation(const Node* node) {
  if (!node || !node->Is("Transpose") || !node->input(0)->type().shape) return std::nullopt;
  Result<Permutation> p = ReadPermutation(*node, node->input(0)->type().rank());
  if (!p.ok()) return std::nullopt;
  return std::move(p).value();
}

GraphValue* FindTranspose(const GraphValue* value, const Permutation& p, const Node* before) {
  for (const Use& u : value->uses()) {
    if (!u.node || u.node == before || TransposePermutation(u.node) != p) continue;
    for (const Node* n = before; n; n = n->prev()) {
      if (n == u.node) return u.node->output(0);
    }
  }
  return nullptr;
}

GraphValue* TransposeValue(Graph& graph, GraphValue* value, const Permutation& p, Node* before) {
  if (IsIdentity(p)) return value;
  if (GraphValue* existing = FindTranspose(value, p, before)) return existing;
  Node* node = graph.AddNode({.name = {},
                              .domain = {},
                              .op_type = "Transpose",
                              .opset = 13,
                              .inputs = {value},
                              .outputs = {graph.UniqueName(value->name() + "_t")},
                              .attributes = {{"perm", p}},
                              .captures = {}},
                             before);
  Dims dims;
  for (int64_t i : p) dims.push_back((*value->type().shape)[i]);
  node->output(0)->set_type(ValueType::Tensor(value->type().dtype, std::move(dims)));
  return node->output(0);
}

bool OnlyUsedBy(const GraphValue* value, const Node* node) {
  return value->uses().size() == 1 && value->uses()[0].node == node;
}

void RemoveIfDead(Graph& graph, Node* node) {
  // A producer may be that of another one too: whichever goes last takes it along.
  std::set<Node*> pending = {node};
  while (!pending.empty()) {
    Node* n = *pending.begin();
    pending.erase(pending.begin());
    if (std::ranges::any_of(n->outputs(), [](const GraphValue* v) { return v && !v->uses().empty(); })) continue;
    for (const GraphValue* v : n->inputs()) {
      if (v && v->producer()) pending.insert(v->producer());
    }
    graph.Remove(n);
  }
}

namespace {

Node* AddTyped(Graph& graph, const char* domain, std::string op_type, const Node& origin,
               std::vector<GraphValue*> inputs, ValueType type, Node* before) {
  Node* node = graph.AddNode({.name = origin.name(),
                              .domain = domain,
                              .op_type = std::move(op_type),
                              .opset = 1,
                              .inputs = std::move(inputs),
                              .outputs = {graph.UniqueName(origin.output(0)->name() + "_cpu")},
                              .attributes = {},
                              .captures = {}},
                             before);
  node->output(0)->set_type(std::move(type));
  return node;
}

}  // namespace

Node* AddInternal(Graph& graph, std::string op_type, const Node& origin, std::vector<GraphValue*> inputs,
                  ValueType type, Node* before) {
  return AddTyped(graph, kCpuDomain, std::move(op_type), origin, std::move(inputs), std::move(type), before);
}

Node* AddProductOfBlocks(Graph& graph, const Node& origin, std::vector<GraphValue*> inputs, ValueType type,
                         Node* before) {
  while (!inputs.back()) inputs.pop_back();
  return AddTyped(graph, "com.microsoft", "MatMulNBits", origin, std::move(inputs), std::move(type), before);
}

Node* AddProductToFloat(Graph& graph, const Node& origin, std::vector<GraphValue*> inputs, ValueType type,
                        Node* before) {
  while (!inputs.back()) inputs.pop_back();
  return AddTyped(graph, "com.microsoft", "MatMulIntegerToFloat", origin, std::move(inputs), std::move(type), before);
}

Node* ReplaceChannelsLast(Graph& graph, Node* node, const std::string& op_type, std::vector<GraphValue*> inputs,
                          DType dtype) {
  const int rank = inputs[0]->type().rank();
  inputs[0] = TransposeValue(graph, inputs[0], ToChannelsLast(rank), node);
  const Dims& nchw = *node->output(0)->type().shape;
  Dims dims;
  for (int64_t i : ToChannelsLast(rank)) dims.push_back(nchw[i]);
  Node* made = AddInternal(graph, op_type, *node, std::move(inputs), ValueType::Tensor(dtype, std::move(dims)), node);
  for (const auto& [name, value] : node->attributes()) made->SetAttribute(name, value);
  graph.ReplaceAllUses(node->output(0), TransposeValue(graph, made->output(0), ToChannelsFirst(rank), node));
  RemoveIfDead(graph, node);
  return made;
}

}  // namespace quern::cpu
