// Shapes of shapes: only the last one counts.
//   %a = Reshape(%x, s)   %y = Reshape(%a, t)   ->   %y = Reshape(%x, t)     where t copies no extent of %a
//   %a = Reshape(%x, s)   %y = Reshape(%a, t)   ->   %y is %x                where %y has the shape of %x
// %a may as well be a Flatten, Squeeze or Unsqueeze; so may %y, where the second rule holds.
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

bool KeepsElements(const Node* n) {
  return n != nullptr && (n->Is("Reshape") || n->Is("Flatten") || n->Is("Squeeze") || n->Is("Unsqueeze")) &&
         n->num_outputs() == 1 && n->output(0) != nullptr && n->input(0) != nullptr && n->input(0)->type().is_tensor();
}

bool SameShape(const GraphValue* a, const GraphValue* b) {
  return a->type().has_rank() && b->type().has_rank() && *a->type().shape == *b->type().shape;
}

// The entries of a list of integers that is constant or follows from shapes.
std::optional<Dims> Entries(const GraphValue* list) {
  if (list == nullptr || !list->is_constant()) return list != nullptr ? list->data() : std::nullopt;
  if (!list->constant()->is_tensor()) return std::nullopt;
  const Result<std::vector<int64_t>> values = ToInt64s(list->constant()->tensor());
  return values.ok() ? std::optional(Dims(values->begin(), values->end())) : std::nullopt;
}

// Whether a Reshape's list names every extent, or leaves one to follow from the number of elements. A zero copies an
// extent of the input, unless `allowzero` says otherwise; what a name stands for may be zero as well.
bool NamesItsShape(const Node& n) {
  const std::optional<Dims> entries = n.opset() >= 5 ? Entries(n.input(1)) : std::nullopt;
  const bool zeros = n.GetInt("allowzero", 0) != 0;
  return entries && std::all_of(entries->begin(), entries->end(),
                                [&](const Dim& d) { return zeros || (d.is_constant() && d.value() != 0); });
}

Result<bool> Merge(Graph& graph, Node* n) {
  if (!KeepsElements(n)) return false;
  Node* inner = n->input(0)->producer();
  if (!KeepsElements(inner)) return false;
  GraphValue* x = inner->input(0);
  for (Node* from = inner; KeepsElements(from); from = from->input(0)->producer()) {
    if (!SameShape(from->input(0), n->output(0)) || !ReplaceValue(graph, n->output(0), from->input(0))) continue;
    RemoveDead(graph, n);
    return true;
  }
  if (!n->Is("Reshape") || !NamesItsShape(*n)) return false;
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "Reshape",
               .opset = n->opset(),
               .inputs = {x, n->input(1)},
               .attributes = n->attributes()});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Merge); }

}  // namespace

extern const Pass kMergeReshapes = {"merge_reshapes", "shapes of shapes", Run};

}  // namespace quern
