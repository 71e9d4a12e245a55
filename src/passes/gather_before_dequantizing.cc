// Rows are chosen among the integers that are stored, so that no others are dequantized:
//   %w = DequantizeLinear(%table, %scale, %zero)   %y = Gather(%w, %ids)
// ->
//   %part = Gather(%table, %ids)   %y = DequantizeLinear(%part, %scale, %zero)
// where the result has no more elements than the table. Scales of another axis than that of Gather stay; those of its
// own axis, where one index chooses, and of blocks are gathered likewise. Exact.
#include <optional>

#include "graph/rewriter.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

// Integers of 4 bits and less, of which few providers gather, stay.
bool IsWholeByte(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16 || dtype == DType::kU16 ||
         dtype == DType::kI32;
}

bool Grows(const Dims& from, const Dims& to) {
  const Dim before = Product(from), after = Product(to);
  return !before.is_constant() || (after.is_constant() && after.value() > before.value());
}

class Mover {
 public:
  Mover(Graph& graph, Node* gather, const Node& dequantize)
      : graph_(graph), gather_(gather), dequantize_(dequantize), inserter_(graph, gather) {}

  bool Move() {
    const GraphValue &table = *dequantize_.input(0), &scale = *dequantize_.input(1);
    const Dims& extents = *table.type().shape;
    const int rank = static_cast<int>(extents.size());
    const int axis = Axis(gather_->GetInt("axis", 0), rank);
    const int added = gather_->input(1)->type().rank() - 1;
    Attributes attributes = dequantize_.attributes();
    bool gathers_scales = false;
    if (const std::optional<Dims>& shape = scale.type().shape; !shape) {
      return false;
    } else if (dequantize_.GetInt("block_size", 0) != 0) {
      const int of_blocks = Axis(dequantize_.GetInt("axis", 1), rank);
      if (static_cast<int>(shape->size()) != rank || of_blocks == axis) return false;
      gathers_scales = true;
      attributes["axis"] = int64_t{of_blocks < axis ? of_blocks : of_blocks + added};
    } else if (shape->size() == 1) {
      const int of_scales = Axis(dequantize_.GetInt("axis", 1), rank);
      gathers_scales = of_scales == axis;
      if (gathers_scales && added != -1) return false;
      if (!gathers_scales) attributes["axis"] = int64_t{of_scales < axis ? of_scales : of_scales + added};
    } else if (!shape->empty()) {
      return false;
    }
    GraphValue* zero = dequantize_.input(2);
    if (zero && zero->type().shape != scale.type().shape) return false;
    std::vector<GraphValue*> inputs = {Gathered(dequantize_.input(0))};
    inputs.push_back(gathers_scales ? Gathered(dequantize_.input(1)) : dequantize_.input(1));
    if (zero) inputs.push_back(gathers_scales ? Gathered(zero) : zero);
    ReplaceNode(graph_, gather_,
                {.name = gather_->name(),
                 .op_type = "DequantizeLinear",
                 .opset = dequantize_.opset(),
                 .inputs = std::move(inputs),
                 .attributes = std::move(attributes)});
    return true;
  }

 private:
  static int Axis(int64_t given, int rank) { return static_cast<int>(given < 0 ? given + rank : given); }

  GraphValue* Gathered(GraphValue* from) {
    const Dims &x = *from->type().shape, &ids = *gather_->input(1)->type().shape;
    const int axis = Axis(gather_->GetInt("axis", 0), static_cast<int>(x.size()));
    Dims dims(x.begin(), x.begin() + axis);
    dims.insert(dims.end(), ids.begin(), ids.end());
    dims.insert(dims.end(), x.begin() + axis + 1, x.end());
    return inserter_.Add("Gather", gather_->opset(), {from, gather_->input(1)},
                         ValueType::Tensor(from->type().dtype, std::move(dims)), {{"axis", int64_t{axis}}});
  }

  Graph& graph_;
  Node* gather_;
  const Node& dequantize_;
  Inserter inserter_;
};

Result<bool> Rewrite(Graph& graph, Node* n) {
  if (!n->Is("Gather") || !n->input(0) || !n->input(1)) return false;
  const Node* dequantize = n->input(0)->producer();
  if (!dequantize || !dequantize->Is("DequantizeLinear") || !dequantize->input(0) || !dequantize->input(1))
    return false;
  const ValueType &table = dequantize->input(0)->type(), &ids = n->input(1)->type(), &y = n->output(0)->type();
  if (!table.has_rank() || !ids.has_rank() || !y.has_rank() || !IsWholeByte(table.dtype)) return false;
  if (Grows(*table.shape, *y.shape)) return false;
  return Mover(graph, n, *dequantize).Move();
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Rewrite); }

}  // namespace

extern const Pass kGatherBeforeDequantizing = {"gather_before_dequantizing",
                                               "rows of stored integers dequantized alone", Run};

}  // namespace quern
