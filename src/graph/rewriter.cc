#include "graph/rewriter.h"

#include <algorithm>

#include "base/check.h"

namespace quern {

bool CanReplaceValue(const GraphValue* from, const GraphValue* to) {
  return from != to && !(from->is_graph_output() && (to->is_input() || to->is_graph_output()));
}

bool ReplaceValue(Graph& graph, GraphValue* from, GraphValue* to) {
  if (!CanReplaceValue(from, to)) return false;
  if (from->is_graph_output()) {
    std::string name = from->name();
    graph.RenameValue(from, graph.UniqueName(name + "_replaced"));
    graph.RenameValue(to, std::move(name));
  }
  // A constant's type is that of its content, an input's belongs to the model's interface.
  if (to->producer() != nullptr) {
    if (Result<ValueType> merged = MergeTypes(to->type(), from->type()); merged.ok()) {
      to->set_type(std::move(merged).value());
    }
  }
  if (!to->data() && from->data()) to->set_data(from->data());
  graph.ReplaceAllUses(from, to);
  return true;
}

Node* ReplaceNode(Graph& graph, Node* node, NodeSpec spec) {
  GraphValue* old = node->output(0);
  QUERN_CHECK(old != nullptr, "the node to replace has no output");
  std::string name = old->name();
  graph.RenameValue(old, graph.UniqueName(name + "_replaced"));
  spec.outputs = {std::move(name)};
  Node* made = graph.AddNode(std::move(spec), node);
  made->output(0)->set_type(old->type());
  made->output(0)->set_data(old->data());
  graph.ReplaceAllUses(old, made->output(0));
  RemoveDead(graph, node);
  return made;
}

int RemoveDead(Graph& graph, Node* node) {
  int removed = 0;
  std::vector<Node*> work = {node};
  while (!work.empty()) {
    Node* n = work.back();
    work.pop_back();
    if (std::any_of(n->outputs().begin(), n->outputs().end(),
                    [](const GraphValue* v) { return v != nullptr && !v->uses().empty(); })) {
      continue;
    }
    std::vector<GraphValue*> inputs = n->inputs();
    inputs.insert(inputs.end(), n->captures().begin(), n->captures().end());
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    graph.Remove(n);
    ++removed;
    std::erase(work, n);
    for (GraphValue* v : inputs) {
      if (v == nullptr || !v->uses().empty()) continue;
      if (v->producer() != nullptr) {
        if (std::find(work.begin(), work.end(), v->producer()) == work.end()) work.push_back(v->producer());
      } else if (v->is_constant()) {
        graph.RemoveValue(v);
      }
    }
  }
  return removed;
}

}  // namespace quern
