// Products of matrices whose batch is samples and heads in one dimension take it apart, as exporters do before and
// behind them, so that masks of samples meet the scores of heads:
//   %p = MatMul(%q: [b*h,n,d], %k: [b*h,d,m])   %y = Reshape(%p): [b,h,n,m]
// ->
//   %qs = Reshape(%q): [b,h,n,d]   %ks = Reshape(%k): [b,h,d,m]   %y = MatMul(%qs, %ks)
// and
//   %j = Reshape(%w: [b,h,n,m]): [b*h,n,m]   %s = Softmax(%j)   %y = MatMul(%s, %v: [b*h,m,d])
// ->
//   %s = Softmax(%w)   %vs = Reshape(%v): [b,h,m,d]   %p = MatMul(%s, %vs)   %y = Reshape(%p): [b*h,n,d]
// with the Softmax, or without it where one follows. The number of heads is known; what was joined by a Reshape is
// taken as it was.
#include <algorithm>

#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/formula.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kListSince = 5;      // as an input of Reshape
constexpr int kShapeSince = 15;    // with attributes
constexpr int kSoftmaxSince = 13;  // over one dimension

const Dims* ShapeOf(const GraphValue* v, size_t rank) {
  if (v == nullptr || !v->type().is_tensor() || !v->type().has_rank()) return nullptr;
  return v->type().shape->size() == rank ? &*v->type().shape : nullptr;
}

// Whether a Reshape between those joins, or splits, the first dimensions only, with a known number of heads.
bool Joins(const Dims& apart, const Dims& joined) {
  return apart[1].is_constant() && apart[1].value() > 0 && joined[0] == apart[0] * apart[1] && joined[1] == apart[2] &&
         joined[2] == apart[3];
}

// Operands of a product with one batch dimension, which both have.
bool HasBatch(const Node& product) {
  const Dims *a = ShapeOf(product.input(0), 3), *b = ShapeOf(product.input(1), 3);
  return a != nullptr && b != nullptr && (*a)[0] == (*b)[0] && !product.input(1)->is_constant();
}

// Nodes before one, with samples and heads apart.
class Splitter {
 public:
  Splitter(Graph& graph, Node* before, Dim samples, Dim heads)
      : inserter_(graph, before), samples_(std::move(samples)), heads_(std::move(heads)) {}

  // `v` of three dimensions with its dimension `axis` split.
  GraphValue* Split(GraphValue* v, size_t axis) {
    const Dims dims = Apart(*v->type().shape, axis);
    if (const Node* t = ProducerOf(v, "Transpose"); t != nullptr && ShapeOf(t->input(0), 3) != nullptr) {
      if (const auto perm = ReadPermutation(*t, 3); perm.ok()) return SplitTurned(t->input(0), *perm, axis, dims);
    }
    if (const Node* joined = ProducerOf(v, "Reshape")) {
      const ValueType& before = joined->input(0)->type();
      if (before.has_rank() && *before.shape == dims) return joined->input(0);
    }
    return Reshape(v, dims, axis);
  }
  GraphValue* Add(const char* op_type, std::vector<GraphValue*> inputs, Dims dims, Attributes attributes = {}) {
    const DType dtype = inputs[0]->type().dtype;
    return inserter_.Add(op_type, kSoftmaxSince, std::move(inputs), ValueType::Tensor(dtype, std::move(dims)),
                         std::move(attributes));
  }
  // The list of a Reshape of `v` that joins its first two dimensions.
  GraphValue* Joined(GraphValue* v) {
    const Dims& dims = *v->type().shape;
    if (const auto list = ReshapeList({dims[0] * dims[1], dims[2], dims[3]})) return inserter_.Ints(*list);
    return Concat({inserter_.Ints({-1}), Part(v, 2, 4)});
  }

 private:
  Dims Apart(const Dims& dims, size_t axis) const {
    Dims apart = dims;
    apart[axis] = heads_;
    apart.insert(apart.begin() + static_cast<ptrdiff_t>(axis), samples_);
    return apart;
  }
  GraphValue* SplitTurned(GraphValue* v, const std::vector<int64_t>& perm, size_t axis, const Dims& dims) {
    const int64_t from = perm[axis];
    std::vector<int64_t> turned;
    for (const int64_t d : perm) {
      turned.push_back(d + (d > from ? 1 : 0));
      if (d == from) turned.push_back(d + 1);
    }
    return Add("Transpose", {Split(v, static_cast<size_t>(from))}, dims, {{"perm", turned}});
  }
  GraphValue* Reshape(GraphValue* v, const Dims& dims, size_t axis) {
    if (const auto list = ReshapeList(dims)) return Add("Reshape", {v, inserter_.Ints(*list)}, dims);
    std::vector<GraphValue*> parts = {inserter_.Ints({-1, heads_.value()})};
    if (axis > 0) parts.insert(parts.begin(), Part(v, 0, static_cast<int64_t>(axis)));
    if (axis < 2) parts.push_back(Part(v, static_cast<int64_t>(axis) + 1, 3));
    return Add("Reshape", {v, Concat(std::move(parts))}, dims);
  }
  GraphValue* Part(GraphValue* v, int64_t start, int64_t end) {
    const ValueType type = ValueType::Tensor(DType::kI64, Dims{Dim(end - start)});
    return inserter_.Add("Shape", kShapeSince, {v}, type, {{"start", start}, {"end", end}});
  }
  GraphValue* Concat(std::vector<GraphValue*> parts) {
    Dim count = 0;
    for (const GraphValue* p : parts) count = count + p->type().shape->front();
    return Add("Concat", std::move(parts), Dims{count}, {{"axis", int64_t{0}}});
  }

  Inserter inserter_;
  Dim samples_, heads_;
};

bool SplitBehind(Graph& graph, Node* n) {
  const Node* product = HasOneReader(n->input(0)) ? ProducerOf(n->input(0), "MatMul") : nullptr;
  const Dims* apart = ShapeOf(n->output(0), 4);
  if (product == nullptr || apart == nullptr || !HasBatch(*product)) return false;
  const Dims* joined = ShapeOf(product->output(0), 3);
  if (joined == nullptr || !Joins(*apart, *joined)) return false;
  Splitter splitter(graph, n, (*apart)[0], (*apart)[1]);
  GraphValue *a = splitter.Split(product->input(0), 0), *b = splitter.Split(product->input(1), 0);
  ReplaceNode(graph, n, {.name = product->name(), .op_type = "MatMul", .opset = n->opset(), .inputs = {a, b}});
  return true;
}

// What follows other products may join them, and keeps its dimensions.
bool GivesScores(const Node& product) {
  const GraphValue* y = product.output(0);
  return HasOneReader(y) && (y->uses()[0].node->Is("Softmax") || y->uses()[0].node->Is("Reshape"));
}

bool SplitBefore(Graph& graph, Node* n) {
  const Node* softmax = HasOneReader(n->input(0)) ? ProducerOf(n->input(0), "Softmax") : nullptr;
  if (softmax != nullptr && (softmax->GetInt("axis", softmax->opset() < 13 ? 1 : -1) + 3) % 3 != 2) return false;
  GraphValue* v = softmax != nullptr ? softmax->input(0) : n->input(0);
  const Node* join = HasOneReader(v) ? ProducerOf(v, "Reshape") : nullptr;
  if (join == nullptr || !HasBatch(*n) || (softmax == nullptr && !GivesScores(*n))) return false;
  const Dims *apart = ShapeOf(join->input(0), 4), *joined = ShapeOf(v, 3);
  if (apart == nullptr || joined == nullptr || !Joins(*apart, *joined)) return false;
  Splitter splitter(graph, n, (*apart)[0], (*apart)[1]);
  GraphValue* lhs = join->input(0);
  if (softmax != nullptr) lhs = splitter.Add("Softmax", {lhs}, *apart, {{"axis", int64_t{-1}}});
  GraphValue* rhs = splitter.Split(n->input(1), 0);
  GraphValue* made =
      splitter.Add("MatMul", {lhs, rhs}, {(*apart)[0], (*apart)[1], (*apart)[2], n->input(1)->type().shape->back()});
  GraphValue* list = splitter.Joined(made);
  ReplaceNode(
      graph, n,
      {.name = n->name(), .op_type = "Reshape", .opset = std::max(n->opset(), kListSince), .inputs = {made, list}});
  return true;
}

Result<bool> Rewrite(Graph& graph, Node* n) {
  if (IsWhole(*n, "Reshape")) return SplitBehind(graph, n);
  return IsWhole(*n, "MatMul") && SplitBefore(graph, n);
}

Result<int> Run(Graph& graph, const void* context) {
  return NewestOpset(context) < kShapeSince ? Result<int>(0) : RewriteNodes(graph, Rewrite);
}

}  // namespace

extern const Pass kSplitBatches = {"split_batches", "products with samples and heads apart", Run};

}  // namespace quern
