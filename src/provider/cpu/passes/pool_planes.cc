// A pool that no channels-last region took in is one of planes, without the transposes around it:
//   Transpose(quern.cpu.MaxPool(Transpose(x, [0, 2, ..., 1])), [0, n-1, 1, ...])  ->  quern.cpu.MaxPool(x) {planes}
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool Rewrite(Graph& graph, Node* node) {
  const std::optional<Permutation> last = TransposePermutation(node);
  if (!last || *last != ToChannelsFirst(static_cast<int>(last->size()))) return false;
  Node* pool = node->input(0)->producer();
  if (!pool || (!pool->Is("MaxPool", kCpuDomain) && !pool->Is("AveragePool", kCpuDomain))) return false;
  if (!OnlyUsedBy(pool->output(0), node)) return false;
  const Node* turned = pool->input(0)->producer();
  const std::optional<Permutation> first = TransposePermutation(turned);
  if (!first || *first != ToChannelsLast(static_cast<int>(first->size())) || !OnlyUsedBy(pool->input(0), pool)) {
    return false;
  }
  Node* made = AddInternal(graph, pool->op_type(), *pool, {turned->input(0)}, node->output(0)->type(), node);
  for (const auto& [name, value] : pool->attributes()) made->SetAttribute(name, value);
  made->SetAttribute("planes", int64_t{1});
  graph.ReplaceAllUses(node->output(0), made->output(0));
  RemoveIfDead(graph, node);
  return true;
}

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* node : graph.nodes()) changes += Rewrite(graph, node);
  return changes;
}

}  // namespace

extern const Pass kPoolPlanes = {"cpu_pool_planes", "pools between transposes as pools of planes", Run};

}  // namespace quern::cpu
