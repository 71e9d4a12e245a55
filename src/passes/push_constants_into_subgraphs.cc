// Constants that a subgraph captures become constants of the subgraph (sharing the bytes), so that its own passes and
// kernels see them:
//   const %w = ...;  %y = If(%c) captures(%w, %x) {then_branch = graph { input %v; input %u; ... }}
// ->
//   %y = If(%c) captures(%x) {then_branch = graph { const %v = ...; input %u; ... }}
#include <algorithm>

#include "passes/passes.h"

namespace quern {
namespace {

template <typename T>
void AddMissing(const std::vector<T>& from, std::vector<T>& to) {
  for (const T& item : from) {
    if (std::find(to.begin(), to.end(), item) == to.end()) to.push_back(item);
  }
}

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* n = graph.first_node(); n != nullptr; n = n->next()) {
    const auto subgraphs = n->subgraphs();
    for (int i = static_cast<int>(n->captures().size()) - 1; i >= 0; --i) {
      const GraphValue* outer = n->captures()[i];
      if (!outer->is_constant()) continue;
      const size_t from_end = n->captures().size() - static_cast<size_t>(i);
      for (const auto& [attribute, subgraph] : subgraphs) {
        GraphValue* inner = subgraph->inputs()[subgraph->inputs().size() - from_end];
        subgraph->TurnIntoConstant(inner, *outer->constant());
        AddMissing(graph.keep_alive, subgraph->keep_alive);
        AddMissing(graph.mapped_files, subgraph->mapped_files);
      }
      graph.RemoveCapture(n, i);
      ++changes;
    }
  }
  return changes;
}

}  // namespace

extern const Pass kPushConstantsIntoSubgraphs = {"push_constants_into_subgraphs",
                                                 "make captured constants constants of the subgraph", Run};

}  // namespace quern
