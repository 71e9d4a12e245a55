// What no graph output needs goes: nodes, constants, captures that no subgraph reads, optional outputs without uses.
//   %a = Relu(%x)                                 (%a not used)
//   %y, %mask = Dropout(%x)                   ->  %y, _ = Dropout(%x)
//   %z = If(%c) captures(%p, %q) {...}        ->  %z = If(%c) captures(%q) {...}   (%p not read inside)
// Graph inputs stay: they are the model's interface.
#include <algorithm>

#include "ops/op.h"
#include "passes/passes.h"

namespace quern {
namespace {

bool IsOptionalOutput(const Node& node, int index) {
  const Result<const OpVersion*> version = FindOpVersion(node);
  return version.ok() && index < static_cast<int>((*version)->outputs.size()) &&
         (*version)->outputs[index].arity == Arity::kOptional && index >= (*version)->min_outputs;
}

// Captures that no subgraph of the node reads.
int DropCaptures(Graph& graph, Node* node) {
  int changes = 0;
  const auto subgraphs = node->subgraphs();
  for (int i = static_cast<int>(node->captures().size()) - 1; i >= 0; --i) {
    const size_t from_end = node->captures().size() - static_cast<size_t>(i);
    const auto inner = [&](const Graph& g) { return g.inputs()[g.inputs().size() - from_end]; };
    if (std::any_of(subgraphs.begin(), subgraphs.end(),
                    [&](const auto& s) { return !inner(*s.second)->uses().empty(); })) {
      continue;
    }
    for (const auto& [attribute, subgraph] : subgraphs) subgraph->RemoveValue(inner(*subgraph));
    graph.RemoveCapture(node, i);
    ++changes;
  }
  return changes;
}

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* n = graph.last_node(); n != nullptr;) {
    Node* previous = n->prev();
    const bool dead = std::all_of(n->outputs().begin(), n->outputs().end(),
                                  [](const GraphValue* v) { return v == nullptr || v->uses().empty(); });
    if (dead) {
      graph.Remove(n);
      ++changes;
    } else {
      changes += DropCaptures(graph, n);
      for (int i = 0; i < n->num_outputs(); ++i) {
        if (n->output(i) == nullptr || !n->output(i)->uses().empty() || !IsOptionalOutput(*n, i)) continue;
        graph.OmitOutput(n, i);
        ++changes;
      }
    }
    n = previous;
  }
  for (GraphValue* v : graph.constants()) {
    if (!v->uses().empty()) continue;
    graph.RemoveValue(v);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kEliminateDeadCode = {"eliminate_dead_code", "remove nodes, constants and captures without uses",
                                        Run};

}  // namespace quern
