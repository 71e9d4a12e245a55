#include "graph/verifier.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace quern {
namespace {

class Verifier {
 public:
  explicit Verifier(const Limits& limits) : limits_(limits) {}

  Status Check(const Graph& graph, int depth) {
    if (depth > limits_.subgraph_depth) {
      return ResourceExhausted("subgraphs are nested more than " + std::to_string(limits_.subgraph_depth) + " deep");
    }
    if (!graphs_.insert(&graph).second) return InvalidArgument("a subgraph is owned by two nodes");
    UseMap uses;
    for (const GraphValue* v : graph.inputs()) QUERN_RETURN_IF_ERROR(Define(graph, v, nullptr, 0, uses));
    for (const GraphValue* v : graph.constants()) {
      if (v->is_input()) return InvalidArgument("value '" + v->name() + "' is a constant and a graph input");
      QUERN_RETURN_IF_ERROR(Define(graph, v, nullptr, 0, uses));
    }
    const Node* previous = nullptr;
    int count = 0;
    for (const Node* n = graph.first_node(); n != nullptr; previous = n, n = n->next()) {
      if (n->prev() != previous || n->graph() != &graph) return Internal(n->Describe() + ": broken node list");
      QUERN_RETURN_IF_ERROR(CheckNode(graph, *n, uses, depth));
      ++count;
    }
    if (graph.last_node() != previous || graph.num_nodes() != count) return Internal("broken node list");
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const GraphValue* v = graph.outputs()[i];
      const auto it = uses.find(v);
      if (it == uses.end())
        return InvalidArgument("graph output " + std::to_string(i) + " is not a value of the graph");
      it->second.push_back({nullptr, static_cast<int>(i)});
    }
    for (auto& [v, seen] : uses) QUERN_RETURN_IF_ERROR(CheckUses(*v, seen));
    return OkStatus();
  }

 private:
  // The uses seen so far of each value defined so far.
  using UseMap = std::unordered_map<const GraphValue*, std::vector<std::pair<const Node*, int>>>;

  // Compares without following the nodes that the list names: they may be gone.
  static Status CheckUses(const GraphValue& v, std::vector<std::pair<const Node*, int>>& seen) {
    std::vector<std::pair<const Node*, int>> listed;
    for (const Use& u : v.uses()) listed.emplace_back(u.node, u.index);
    std::sort(seen.begin(), seen.end());
    std::sort(listed.begin(), listed.end());
    if (seen == listed) return OkStatus();
    return Internal("value '" + v.name() + "' lists " + std::to_string(listed.size()) + " uses that are not its " +
                    std::to_string(seen.size()) + " uses");
  }

  static Status Define(const Graph& graph, const GraphValue* v, const Node* producer, int index, UseMap& uses) {
    if (v->name().empty()) return InvalidArgument("a value has no name");
    if (!uses.try_emplace(v).second) return InvalidArgument("value '" + v->name() + "' is defined twice");
    if (graph.FindValue(v->name()) != v) return InvalidArgument("two values are named '" + v->name() + "'");
    if (v->producer() != producer || (producer != nullptr && v->producer_index() != index)) {
      return Internal("value '" + v->name() + "' does not know its producer");
    }
    return OkStatus();
  }

  Status CheckNode(const Graph& graph, const Node& n, UseMap& uses, int depth) {
    if (n.op_type().empty()) return InvalidArgument(n.Describe() + ": the operator has no name");
    const int num_captures = static_cast<int>(n.captures().size());
    for (int i = 0; i < n.num_inputs() + num_captures; ++i) {
      const GraphValue* v = i < n.num_inputs() ? n.input(i) : n.captures()[i - n.num_inputs()];
      if (v == nullptr && i < n.num_inputs()) continue;
      const auto it = uses.find(v);
      if (it == uses.end()) {
        // A value of this graph that comes later may be named; any other pointer must not be followed.
        std::string later;
        for (const Node* m = &n; m != nullptr && later.empty(); m = m->next()) {
          for (const GraphValue* o : m->outputs()) {
            if (o == v && v != nullptr) later = " ('" + v->name() + "', made by it or a later " + m->Describe() + ")";
          }
        }
        return InvalidArgument(n.Describe() + ": input " + std::to_string(i) + " is not defined before it" + later);
      }
      it->second.push_back({&n, i});
    }
    for (int i = 0; i < n.num_outputs(); ++i) {
      if (n.output(i) == nullptr) continue;
      if (Status s = Define(graph, n.output(i), &n, i, uses); !s.ok()) return s.WithContext(n.Describe());
    }
    const auto subgraphs = n.subgraphs();
    if (num_captures > 0 && subgraphs.empty()) {
      return InvalidArgument(n.Describe() + ": it has captures but no subgraph");
    }
    for (const auto& [attribute, subgraph] : subgraphs) {
      const auto context = [&, &key = attribute](const Status& s) {
        return s.WithContext(n.Describe() + ", subgraph '" + key + "'");
      };
      if (subgraph == nullptr) return context(InvalidArgument("it is missing"));
      if (Status s = Check(*subgraph, depth + 1); !s.ok()) return context(s);
      const size_t formal = subgraph->inputs().size();
      if (formal < n.captures().size()) {
        return context(InvalidArgument("it has " + std::to_string(formal) + " inputs for " +
                                       std::to_string(num_captures) + " captures"));
      }
      for (int i = 0; i < num_captures; ++i) {
        const GraphValue* inner = subgraph->inputs()[formal - n.captures().size() + static_cast<size_t>(i)];
        const Result<ValueType> both = MergeTypes(inner->type(), n.captures()[i]->type());
        if (!both.ok()) {
          return context(both.status().WithContext("input '" + inner->name() + "' for the captured '" +
                                                   n.captures()[i]->name() + "'"));
        }
      }
    }
    return OkStatus();
  }

  const Limits& limits_;
  std::unordered_set<const Graph*> graphs_;
};

}  // namespace

Status Verify(const Graph& graph, const Limits& limits) { return Verifier(limits).Check(graph, 0); }

}  // namespace quern
