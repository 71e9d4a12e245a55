// What only moves or selects elements does so on the stored integers:
//   y = QuantizeLinear(MaxPool(DequantizeLinear(x, s, z)), s, z)  ->  y = MaxPool(x)
// also what reshapes, transposes, repeats or chooses elements, Concat (all inputs of one scale and zero point), Split
// (all parts stored so), and nothing at all in between. Exact: a stored integer comes back from its own float32 value.
//   y = QuantizeLinear(Expand(x), s, z)  ->  y = Expand(QuantizeLinear(x, s, z))
// where no element is left out: bytes move, fewer are quantized, and the quantization meets what makes x.
#include <algorithm>
#include <set>
#include <string_view>

#include "provider/cpu/common/quantization.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool Moves(const Node& node) {
  static const std::set<std::string_view> kOps = {
      "Concat",       "DepthToSpace", "Expand",    "Flatten", "Gather",   "GatherElements",
      "GatherND",     "Identity",     "MaxPool",   "Reshape", "Slice",    "Split",
      "SpaceToDepth", "Tile",         "Transpose", "Squeeze", "Unsqueeze"};
  return node.domain().empty() && kOps.contains(node.op_type()) && (node.num_outputs() == 1 || node.Is("Split"));
}

// Whether each element of input 0 is in the result.
bool KeepsAll(const Node& node) {
  static const std::set<std::string_view> kOps = {"DepthToSpace", "Expand",    "Flatten",      "Identity", "Reshape",
                                                  "Tile",         "Transpose", "SpaceToDepth", "Squeeze",  "Unsqueeze"};
  return kOps.contains(node.op_type());
}

// The integers that `quantize` would make of the value.
Node* QuantizedAs(Graph& graph, GraphValue* value, const Node& quantize, Node* before) {
  NodeSpec spec{.name = quantize.name(),
                .op_type = "QuantizeLinear",
                .opset = quantize.opset(),
                .inputs = quantize.inputs(),
                .outputs = {graph.UniqueName(value->name() + "_stored")},
                .attributes = quantize.attributes()};
  spec.inputs[0] = value;
  spec.attributes.erase("axis");  // of one scale for all
  Node* made = graph.AddNode(std::move(spec), before);
  made->output(0)->set_type(ValueType::Tensor(quantize.output(0)->type().dtype, value->type().shape));
  return made;
}

// The integers behind `value`, if it is dequantized from `type` as `q` says; else null.
GraphValue* StoredBehind(const GraphValue* value, const Quantization& q, DType type) {
  Node* node = value->producer();
  if (!node || !node->Is("DequantizeLinear") || node->input(0)->type().dtype != type) return nullptr;
  const std::optional<Quantization> own = QuantizationOf(*node);
  return own && own->per_tensor() && *own == q ? node->input(0) : nullptr;
}

// The nodes that store each output of `move`, read by nothing else; none where one is stored otherwise.
std::vector<Node*> StoresOf(const Node& move, const Quantization& q, DType type) {
  std::vector<Node*> stores;
  for (const GraphValue* part : move.outputs()) {
    Node* store = part && part->uses().size() == 1 ? part->uses()[0].node : nullptr;
    if (!store || !store->Is("QuantizeLinear") || store->output(0)->type().dtype != type) return {};
    if (QuantizationOf(*store) != q) return {};
    stores.push_back(store);
  }
  return stores;
}

// Whether none of the nodes is behind this one.
bool IsLastOf(const std::vector<Node*>& nodes, const Node* node) {
  for (const Node* n = nodes.size() > 1 ? node->next() : nullptr; n; n = n->next()) {
    if (std::ranges::find(nodes, n) != nodes.end()) return false;
  }
  return true;
}

bool Skip(Graph& graph, Node* quantize, const CpuConfig& config) {
  if (!quantize->Is("QuantizeLinear")) return false;
  const std::optional<Quantization> q = QuantizationOf(*quantize);
  if (!q || !q->per_tensor()) return false;
  const DType type = quantize->output(0)->type().dtype;
  if (GraphValue* stored = StoredBehind(quantize->input(0), *q, type)) {
    graph.ReplaceAllUses(quantize->output(0), stored);
    RemoveIfDead(graph, quantize);
    return true;
  }
  Node* move = quantize->input(0)->producer();
  if (!move || !Moves(*move)) return false;
  const std::vector<Node*> stores = StoresOf(*move, *q, type);
  if (stores.empty() || !IsLastOf(stores, quantize)) return false;
  std::vector<GraphValue*> inputs = move->inputs();
  const size_t carried = move->Is("Concat") ? inputs.size() : 1;
  Node* quantized = nullptr;
  for (size_t i = 0; i < carried; ++i) {
    GraphValue* stored = StoredBehind(inputs[i], *q, type);
    if (!stored && KeepsAll(*move) && inputs[i]->producer()) {
      quantized = QuantizedAs(graph, inputs[i], *quantize, move);
      stored = quantized->output(0);
    }
    if (!stored) return false;
    inputs[i] = stored;
  }
  // Pools of bytes came with operator set 12; nothing else changed with it.
  const int opset = move->Is("MaxPool") ? std::max(move->opset(), 12) : move->opset();
  NodeSpec spec{.name = move->name(),
                .op_type = move->op_type(),
                .opset = opset,
                .inputs = std::move(inputs),
                .attributes = move->attributes()};
  for (const GraphValue* part : move->outputs()) spec.outputs.push_back(graph.UniqueName(part->name() + "_stored"));
  Node* made = graph.AddNode(std::move(spec), move);
  for (int i = 0; i < made->num_outputs(); ++i) {
    made->output(i)->set_type(ValueType::Tensor(type, move->output(i)->type().shape));
  }
  if (!FindCpuOp("", made->op_type())->reject(*made, config).empty()) {
    graph.Remove(made);
    if (quantized) graph.Remove(quantized);
    return false;
  }
  for (int i = 0; i < made->num_outputs(); ++i) {
    Node* store = stores[static_cast<size_t>(i)];
    graph.ReplaceAllUses(store->output(0), made->output(i));
    RemoveIfDead(graph, store);
  }
  return true;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) changes += Skip(graph, node, context.config);
  return changes;
}

}  // namespace

extern const Pass kSkipRequantization = {"cpu_skip_requantization", "move stored integers without dequantizing", Run};

}  // namespace quern::cpu
