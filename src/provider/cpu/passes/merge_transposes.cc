// Transposes of transposes become one or none, equal ones of a value are shared:
//   Transpose(Transpose(x, p), q)  ->  Transpose(x, p then q), or x when that is the identity
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* node : graph.nodes()) {
    const std::optional<Permutation> second = TransposePermutation(node);
    if (!second) continue;
    Node* inner = node->input(0)->producer();
    const std::optional<Permutation> first = TransposePermutation(inner);
    GraphValue* source = first ? inner->input(0) : node->input(0);
    const Permutation p = first ? Compose(*first, *second) : *second;
    if (!first && !IsIdentity(p) && !FindTranspose(source, p, node)) continue;
    graph.ReplaceAllUses(node->output(0), TransposeValue(graph, source, p, node));
    RemoveIfDead(graph, node);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kMergeTransposes = {"cpu_merge_transposes", "merge, cancel and share transposes", Run};

}  // namespace quern::cpu
