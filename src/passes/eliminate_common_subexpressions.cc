// Equal nodes over equal inputs are computed once, equal small constants are kept once:
//   %a = Relu(%x)   %b = Relu(%x)   %y = Add(%a, %b)   ->  %a = Relu(%x)   %y = Add(%a, %a)
#include <cstring>
#include <unordered_map>

#include "graph/rewriter.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace quern {
namespace {

// Larger constants are rarely equal, and comparing them would read the whole model.
constexpr size_t kMaxConstantBytes = 1024;

template <typename T>
void Append(std::string& key, const T& x) {
  key.append(reinterpret_cast<const char*>(&x), sizeof x);
}
void AppendText(std::string& key, std::string_view s) {
  Append(key, s.size());
  key += s;
}

// False for kinds that are not compared (graphs, values, types).
bool AppendAttribute(std::string& key, const Attribute& attribute) {
  Append(key, attribute.index());
  if (const int64_t* i = std::get_if<int64_t>(&attribute)) {
    Append(key, *i);
  } else if (const float* f = std::get_if<float>(&attribute)) {
    Append(key, *f);
  } else if (const std::string* s = std::get_if<std::string>(&attribute)) {
    AppendText(key, *s);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute)) {
    Append(key, ints->size());
    for (int64_t x : *ints) Append(key, x);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute)) {
    Append(key, floats->size());
    for (float x : *floats) Append(key, x);
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&attribute)) {
    Append(key, strings->size());
    for (const std::string& x : *strings) AppendText(key, x);
  } else {
    return false;
  }
  return true;
}

// Equal keys compute equal outputs; nothing for nodes that are not compared.
std::optional<std::string> KeyOf(const Node& n) {
  const OpDefinition* op = FindOp(n.domain(), n.op_type());
  if (op == nullptr || !op->deterministic || !n.captures().empty()) return std::nullopt;
  std::string key;
  AppendText(key, n.domain());
  AppendText(key, n.op_type());
  Append(key, n.opset());
  Append(key, n.num_outputs());
  Append(key, n.num_inputs());
  for (const GraphValue* v : n.inputs()) Append(key, v);
  for (const auto& [name, attribute] : n.attributes()) {
    AppendText(key, name);
    if (!AppendAttribute(key, attribute)) return std::nullopt;
  }
  return key;
}

std::optional<std::string> KeyOf(const GraphValue& constant) {
  const Value& v = *constant.constant();
  if (!v.is_tensor() || v.tensor().bytes() > kMaxConstantBytes || !v.tensor().is_contiguous()) return std::nullopt;
  const Tensor& t = v.tensor();
  std::string key(static_cast<const char*>(t.raw_data()), t.bytes());
  Append(key, t.dtype());
  for (int64_t d : t.shape()) Append(key, d);
  return key;
}

bool MergeInto(Graph& graph, const Node& kept, Node* n) {
  for (int i = 0; i < n->num_outputs(); ++i) {
    if (n->output(i) == nullptr || n->output(i)->uses().empty()) continue;
    if (kept.output(i) == nullptr || !CanReplaceValue(n->output(i), kept.output(i))) return false;
  }
  for (int i = 0; i < n->num_outputs(); ++i) {
    if (n->output(i) != nullptr && !n->output(i)->uses().empty()) ReplaceValue(graph, n->output(i), kept.output(i));
  }
  graph.Remove(n);
  return true;
}

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  std::unordered_map<std::string, GraphValue*> constants;
  for (GraphValue* v : graph.constants()) {
    const std::optional<std::string> key = KeyOf(*v);
    if (!key) continue;
    const auto [it, first] = constants.emplace(*key, v);
    if (first || v->uses().empty() || !ReplaceValue(graph, v, it->second)) continue;
    graph.RemoveValue(v);
    ++changes;
  }
  std::unordered_map<std::string, Node*> nodes;
  for (Node* n = graph.first_node(); n != nullptr;) {
    Node* next = n->next();
    if (const std::optional<std::string> key = KeyOf(*n)) {
      const auto [it, first] = nodes.emplace(*key, n);
      if (!first && MergeInto(graph, *it->second, n)) ++changes;
    }
    n = next;
  }
  return changes;
}

}  // namespace

extern const Pass kEliminateCommonSubexpressions = {"eliminate_common_subexpressions",
                                                    "compute equal nodes once, keep equal small constants once", Run};

}  // namespace quern
