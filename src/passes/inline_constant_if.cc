// An If whose condition is a constant becomes the nodes of the branch that it takes:
//   const %c = bool[] {true}
//   %y = If(%c) captures(%x) {then_branch = graph { input %v; %r = Neg(%v); return %r }, else_branch = ...}
// ->
//   %y = Neg(%x)
#include "graph/rewriter.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace quern {
namespace {

std::optional<bool> ConstantCondition(const Node& n) {
  if (!n.Is("If") || n.num_inputs() != 1 || n.input(0) == nullptr || n.input(0)->constant() == nullptr) {
    return std::nullopt;
  }
  const Value& v = *n.input(0)->constant();
  if (!v.is_tensor() || v.tensor().dtype() != DType::kBool || v.tensor().num_elements() != 1) return std::nullopt;
  return *static_cast<const uint8_t*>(v.tensor().raw_data()) != 0;
}

// Copies a branch before `node`; gives the outer value of each branch output.
std::vector<GraphValue*> Splice(Graph& graph, Node* node, const Graph& branch) {
  std::unordered_map<const GraphValue*, GraphValue*> outer = {{nullptr, nullptr}};
  for (size_t i = 0; i < branch.inputs().size(); ++i) outer[branch.inputs()[i]] = node->captures()[i];
  for (const GraphValue* c : branch.constants()) {
    outer[c] = graph.AddConstant(graph.UniqueName(c->name()), *c->constant());
    outer[c]->set_type(c->type());
  }
  for (const Node* n = branch.first_node(); n != nullptr; n = n->next()) {
    NodeSpec spec{.name = n->name(), .domain = n->domain(), .op_type = n->op_type(), .opset = n->opset()};
    for (const GraphValue* v : n->inputs()) spec.inputs.push_back(outer.at(v));
    for (const GraphValue* v : n->captures()) spec.captures.push_back(outer.at(v));
    spec.attributes = n->attributes();
    Node* copy = graph.AddNode(std::move(spec), node);
    copy->set_opset(n->opset());
    for (const GraphValue* v : n->outputs()) {
      GraphValue* made = graph.AddNodeOutput(copy, v == nullptr ? "" : graph.UniqueName(v->name()));
      if (v == nullptr) continue;
      made->set_type(v->type());
      made->set_data(v->data());
      outer[v] = made;
    }
  }
  graph.keep_alive.insert(graph.keep_alive.end(), branch.keep_alive.begin(), branch.keep_alive.end());
  graph.mapped_files.insert(graph.mapped_files.end(), branch.mapped_files.begin(), branch.mapped_files.end());
  std::vector<GraphValue*> results;
  for (const GraphValue* v : branch.outputs()) results.push_back(outer.at(v));
  return results;
}

Result<bool> Inline(Graph& graph, Node* node) {
  const std::optional<bool> condition = ConstantCondition(*node);
  if (!condition) return false;
  const GraphPtr* branch = node->FindAttribute<GraphPtr>(*condition ? "then_branch" : "else_branch");
  if (branch == nullptr || (*branch)->inputs().size() != node->captures().size() ||
      static_cast<int>((*branch)->outputs().size()) != node->num_outputs()) {
    return false;
  }
  const std::vector<GraphValue*> results = Splice(graph, node, **branch);
  for (int i = 0; i < node->num_outputs(); ++i) {
    GraphValue* v = node->output(i);
    if (v == nullptr || v->uses().empty()) continue;
    GraphValue* result = results[static_cast<size_t>(i)];
    // A captured value, or one that two outputs give, cannot carry the output's name: a node of its own does.
    if (!ReplaceValue(graph, v, result)) {
      Node* identity = graph.AddNode(
          {.op_type = "Identity", .opset = node->opset(), .inputs = {result}, .outputs = {graph.UniqueName("inlined")}},
          node);
      identity->output(0)->set_type(result->type());
      ReplaceValue(graph, v, identity->output(0));
    }
  }
  RemoveDead(graph, node);
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Inline); }

}  // namespace

extern const Pass kInlineConstantIf = {"inline_constant_if", "replace If of a constant condition by its branch", Run};

}  // namespace quern
