// Transposes of transposes become one:
//   %a = Transpose(%x) {perm = [1, 0]}   %y = Transpose(%a) {perm = [1, 0]}   ->  %y is %x
//   %a = Transpose(%x) {perm = p}        %y = Transpose(%a) {perm = q}        ->  %y = Transpose(%x) {perm = p then q}
#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/passes.h"

namespace quern {
namespace {

// Output dimension i is input dimension perm[i]; nothing when the default is meant and the rank not known.
std::optional<std::vector<int64_t>> Permutation(const Node* n) {
  if (n == nullptr || !n->Is("Transpose") || n->input(0) == nullptr) return std::nullopt;
  const bool ranked = n->input(0)->type().has_rank();
  if (!ranked && !n->attributes().contains("perm")) return std::nullopt;
  const int rank = ranked ? n->input(0)->type().rank() : static_cast<int>(n->GetInts("perm").size());
  Result<std::vector<int64_t>> perm = ReadPermutation(*n, rank);
  if (!perm.ok()) return std::nullopt;
  return std::move(perm).value();
}

Result<bool> Merge(Graph& graph, Node* n) {
  const auto second = Permutation(n);
  if (!second) return false;
  Node* inner = n->input(0)->producer();
  const auto first = Permutation(inner);
  if (!first || first->size() != second->size()) return false;
  std::vector<int64_t> both;
  bool identity = true;
  for (int64_t p : *second) {
    both.push_back((*first)[static_cast<size_t>(p)]);
    identity = identity && both.back() == static_cast<int64_t>(both.size()) - 1;
  }
  if (identity && ReplaceValue(graph, n->output(0), inner->input(0))) {
    RemoveDead(graph, n);
    return true;
  }
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "Transpose",
               .opset = n->opset(),
               .inputs = {inner->input(0)},
               .attributes = {{"perm", std::move(both)}}});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Merge); }

}  // namespace

extern const Pass kCancelTransposes = {"cancel_transposes", "merge transposes of transposes", Run};

}  // namespace quern
