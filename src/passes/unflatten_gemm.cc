// A Gemm whose rows are flattened before it and given their dimensions back behind it takes them as they are:
//   %r = Reshape(%x, [n * m, k])   %g = Gemm(%r, %w, %c)   %y = Reshape(%g, [n, m, j])     %x: [n,m,k]
// ->
//   %p = MatMul(%x, %w)   %y = Add(%p, %c)
// so that what follows (an activation, a residual) meets the product. With transB the weights are transposed once,
// which must be a constant of a size that folding takes.
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

// Whether the shapes are the same but for the last extent.
bool SameRows(const Dims& a, const Dims& b) {
  return a.size() == b.size() && a.size() > 2 && std::equal(a.begin(), a.end() - 1, b.begin());
}

bool IsPlain(const Node& gemm) {
  return gemm.opset() >= 7 && gemm.GetFloat("alpha", 1) == 1 && gemm.GetFloat("beta", 1) == 1 &&
         gemm.GetInt("transA", 0) == 0;
}

// The bias is one number per column, if there is one.
bool HasRowBias(const Node& gemm) {
  const GraphValue* c = gemm.input(2);
  if (c == nullptr) return true;
  const Dims& columns = *gemm.output(0)->type().shape;
  return c->type().has_rank() && c->type().rank() == 1 && c->type().shape->back() == columns.back();
}

Result<bool> Unflatten(Graph& graph, Node* n, int64_t most_bytes) {
  Node* gemm = IsWhole(*n, "Reshape") ? ProducerOf(n->input(0), "Gemm") : nullptr;
  if (gemm == nullptr || !HasOneReader(gemm->output(0)) || !IsPlain(*gemm)) return false;
  const Node* flat = ProducerOf(gemm->input(0), "Reshape");
  if (flat == nullptr) return false;
  GraphValue *x = flat->input(0), *w = gemm->input(1);
  if (!x->type().has_rank() || !n->output(0)->type().has_rank() || !gemm->output(0)->type().has_rank()) return false;
  const Dims &from = *x->type().shape, &to = *n->output(0)->type().shape;
  const Dims& rows = *gemm->input(0)->type().shape;
  if (!SameRows(from, to) || !(from.back() == rows.back()) || !(to.back() == gemm->output(0)->type().shape->back()) ||
      !HasRowBias(*gemm)) {
    return false;
  }
  if (!w->type().has_rank() || w->type().rank() != 2) return false;
  const bool transposed = gemm->GetInt("transB", 0) != 0;
  const bool folds = w->is_constant() && w->constant()->is_tensor() && !IsBlockType(w->type().dtype) &&
                     static_cast<int64_t>(w->constant()->tensor().bytes()) <= most_bytes;
  if (IsBlockType(w->type().dtype) || (transposed && !folds)) return false;
  const DType dtype = x->type().dtype;
  const auto add = [&](const char* op_type, std::vector<GraphValue*> inputs, Dims shape,
                       std::map<std::string, Attribute, std::less<>> attributes) {
    Node* made = graph.AddNode({.name = gemm->name(),
                                .op_type = op_type,
                                .opset = 13,
                                .inputs = std::move(inputs),
                                .outputs = {graph.UniqueName(gemm->output(0)->name() + "_rows")},
                                .attributes = std::move(attributes)},
                               n);
    made->output(0)->set_type(ValueType::Tensor(dtype, std::move(shape)));
    return made->output(0);
  };
  if (transposed) {
    Dims turned = *w->type().shape;
    std::swap(turned[0], turned[1]);
    w = add("Transpose", {w}, std::move(turned), {{"perm", std::vector<int64_t>{1, 0}}});
  }
  if (gemm->input(2) == nullptr) {
    ReplaceNode(graph, n, {.name = gemm->name(), .op_type = "MatMul", .opset = 13, .inputs = {x, w}});
    return true;
  }
  GraphValue* product = add("MatMul", {x, w}, to, {});
  ReplaceNode(graph, n, {.name = gemm->name(), .op_type = "Add", .opset = 13, .inputs = {product, gemm->input(2)}});
  return true;
}

Result<int> Run(Graph& graph, const void* context) {
  const int64_t most = LimitsOf(context).folded_bytes;
  return RewriteNodes(graph, [most](Graph& g, Node* n) { return Unflatten(g, n, most); });
}

}  // namespace

extern const Pass kUnflattenGemm = {"unflatten_gemm", "products of flattened rows on the rows as they are", Run};

}  // namespace quern
