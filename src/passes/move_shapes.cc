// The shape of what a product, a sum or the like gives is read off the operands, so that nothing but the next operator
// reads the result:
//   %y = Div(%x, 2)                                  %s = Shape(%y)  ->  %s = Shape(%x)
//   %y = MatMul(%a: [b,n,k], %b: [b,k,m]): [b,n,m]   %s = Shape(%y)  ->  %s = Concat(Shape(%a) {end = -1},
//                                                                                    Shape(%b) {start = -1})
// where the shapes are known to be those, and something else reads %y, too.
#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kStartSince = 15;  // of Shape's attributes

bool KeepsShape(const Node& n) {
  for (const char* op_type : {"Add", "Cast", "Div", "Mul", "Softmax", "Sub", "Where"}) {
    if (IsWhole(n, op_type)) return true;
  }
  return false;
}

GraphValue* OperandOfShape(const Node& n, const Dims& dims) {
  for (GraphValue* v : n.inputs()) {
    if (v != nullptr && !v->is_constant() && v->type().is_tensor() && v->type().has_rank() &&
        *v->type().shape == dims) {
      return v;
    }
  }
  return nullptr;
}

// Whether the result has the rows of the first operand, leading dimensions included, and the columns of the second.
bool HasOperandsShape(const Node& product, const Dims& dims) {
  const ValueType &a = product.input(0)->type(), &b = product.input(1)->type();
  if (!a.has_rank() || !b.has_rank() || a.shape->size() != dims.size() || b.rank() < 2) return false;
  return std::equal(dims.begin(), dims.end() - 1, a.shape->begin()) && dims.back() == b.shape->back();
}

// Reads the shape of what the node's operand has it from, as far as it goes; false where it reads it already.
bool MoveUp(Graph& graph, Node* shape) {
  GraphValue* v = shape->input(0);
  while (v->producer() != nullptr && KeepsShape(*v->producer())) {
    GraphValue* operand = OperandOfShape(*v->producer(), *shape->input(0)->type().shape);
    if (operand == nullptr) break;
    v = operand;
  }
  if (v == shape->input(0)) return false;
  graph.SetInput(shape, 0, v);
  return true;
}

Result<bool> Move(Graph& graph, Node* n) {
  if (!IsWhole(*n, "Shape") || n->input(0)->uses().size() < 2 || !n->input(0)->type().has_rank()) return false;
  const bool moved = MoveUp(graph, n);
  const Dims dims = *n->input(0)->type().shape;
  const Node* from = ProducerOf(n->input(0), "MatMul");
  if (from == nullptr || dims.size() < 2 || !HasOperandsShape(*from, dims) || !n->attributes().empty()) return moved;
  Inserter inserter(graph, n);
  const auto part = [&](int i, const char* end, int64_t extents) {
    const ValueType type = ValueType::Tensor(DType::kI64, Dims{Dim(extents)});
    return inserter.Add("Shape", kStartSince, {from->input(i)}, type, {{end, int64_t{-1}}});
  };
  GraphValue *rows = part(0, "end", static_cast<int64_t>(dims.size()) - 1), *columns = part(1, "start", 1);
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "Concat",
               .opset = n->opset(),
               .inputs = {rows, columns},
               .attributes = {{"axis", int64_t{0}}}});
  return true;
}

Result<int> Run(Graph& graph, const void* context) {
  return NewestOpset(context) < kStartSince ? Result<int>(0) : RewriteNodes(graph, Move);
}

}  // namespace

extern const Pass kMoveShapes = {"move_shapes", "shapes of results read off the operands", Run};

}  // namespace quern
