// Attention that is written out, as exporters do, becomes one node:
//   %s = MatMul(%q, %kt)   %c = Mul(%s, scale)   %a = Add(%c, %mask)   %p = Softmax(%a) {axis = -1}
//   %y = MatMul(%p, %v)
// ->
//   %k = Transpose(%kt)    %y = Attention(%q, %k, %v, %mask) {scale}
// with the scale before or behind the product, or none, and with or without a mask. Between the nodes nothing else
// reads the values. A mask with one column for all keys, or with columns of another name than the keys, is expanded to
// the keys. A query whose mask is -infinity for all keys gives zeros instead of NaN.
#include <algorithm>
#include <cmath>

#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/formula.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kAttentionSince = 23;

// Skips products with, and divisions by, a number, which `scale` takes.
GraphValue* WithoutScale(GraphValue* v, double* scale) {
  while (HasOneReader(v) && v->type().has_rank()) {
    const int rank = v->type().rank();
    if (const Node* n = ProducerOf(v, "Mul")) {
      const auto left = ScalarOf(n->input(0), rank), right = ScalarOf(n->input(1), rank);
      if (!left && !right) break;
      *scale *= left ? *left : *right;
      v = n->input(left ? 1 : 0);
    } else if (const Node* d = ProducerOf(v, "Div")) {
      const auto divisor = ScalarOf(d->input(1), rank);
      if (!divisor || *divisor == 0) break;
      *scale /= *divisor;
      v = d->input(0);
    } else {
      break;
    }
  }
  return v;
}

struct Scores {
  Node* product = nullptr;
  GraphValue* mask = nullptr;
  double scale = 1;
};

// What the softmax reads, taken apart; nothing when it is something else.
std::optional<Scores> ReadScores(GraphValue* v) {
  const auto product_of = [](GraphValue* scaled) -> std::optional<Scores> {
    Scores s;
    GraphValue* bare = WithoutScale(scaled, &s.scale);
    s.product = HasOneReader(bare) ? ProducerOf(bare, "MatMul") : nullptr;
    return s.product != nullptr ? std::optional(s) : std::nullopt;
  };
  if (std::optional<Scores> s = product_of(v)) return s;
  const Node* add = HasOneReader(v) ? ProducerOf(v, "Add") : nullptr;
  if (add == nullptr) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    if (std::optional<Scores> s = product_of(add->input(i))) {
      s->mask = add->input(1 - i);
      return s;
    }
  }
  return std::nullopt;
}

bool IsLastAxis(const Node& softmax, int rank) {
  const int64_t axis = softmax.GetInt("axis", softmax.opset() < 13 ? 1 : -1);
  return axis == -1 || axis == rank - 1;
}

// The dimensions of the mask but the last go with those of the scores as Attention takes them.
bool MaskFits(const Dims& mask, const Dims& scores) {
  if (mask.size() < 2 || mask.size() > scores.size()) return false;
  for (size_t d = 0; d + 1 < mask.size(); ++d) {
    const Dim& to = scores[scores.size() - mask.size() + d];
    if (!mask[d].is_constant(1) && !(mask[d] == to)) return false;
  }
  return true;
}

class Fuser {
 public:
  Fuser(Graph& graph, Node* last) : graph_(graph), last_(last) {}

  bool Fuse() {
    Node* softmax = ProducerOf(last_->input(0), "Softmax");
    if (softmax == nullptr || !HasOneReader(softmax->output(0)) || !softmax->output(0)->type().has_rank()) return false;
    const int rank = softmax->output(0)->type().rank();
    if ((rank != 3 && rank != 4) || !IsLastAxis(*softmax, rank)) return false;
    std::optional<Scores> scores = ReadScores(softmax->input(0));
    if (!scores || !std::isfinite(scores->scale)) return false;
    GraphValue* q = WithoutScale(scores->product->input(0), &scores->scale);
    GraphValue* kt = WithoutScale(scores->product->input(1), &scores->scale);
    GraphValue* v = last_->input(1);
    for (const GraphValue* x : {q, kt, v}) {
      if (!x->type().is_tensor() || !x->type().has_rank() || x->type().rank() != rank) return false;
      if (!IsFloatType(x->type().dtype) || x->type().dtype != q->type().dtype) return false;
    }
    const Dims &dq = *q->type().shape, &dk = *kt->type().shape, &dv = *v->type().shape;
    const size_t row = dq.size() - 2;
    for (size_t d = 0; d < row; ++d) {  // broadcast batches and heads are no attention
      if (!(dq[d] == dk[d]) || !(dq[d] == dv[d])) return false;
    }
    if (!(dk[row + 1] == dv[row]) || !(dq[row + 1] == dk[row])) return false;
    Dims of_scores(dq.begin(), dq.end() - 1);
    of_scores.push_back(dk[row + 1]);
    GraphValue* mask = scores->mask;
    if (mask != nullptr) {
      const ValueType& t = mask->type();
      if (!t.is_tensor() || t.dtype != q->type().dtype || !t.has_rank() || !MaskFits(*t.shape, of_scores)) return false;
      mask = Masked(mask, v, of_scores, rank);
    }
    std::map<std::string, Attribute, std::less<>> attributes = {{"scale", static_cast<float>(scores->scale)}};
    if (rank == 3) attributes["q_num_heads"] = attributes["kv_num_heads"] = int64_t{1};
    std::vector<GraphValue*> inputs = {q, Keys(kt, rank), v};
    if (mask != nullptr) inputs.push_back(mask);
    ReplaceNode(graph_, last_,
                {.name = last_->name(),
                 .op_type = "Attention",
                 .opset = kAttentionSince,
                 .inputs = std::move(inputs),
                 .attributes = std::move(attributes)});
    return true;
  }

 private:
  GraphValue* Add(const char* op_type, int opset, std::vector<GraphValue*> inputs, ValueType type,
                  std::map<std::string, Attribute, std::less<>> attributes = {}) {
    Node* n = graph_.AddNode({.op_type = op_type,
                              .opset = opset,
                              .inputs = std::move(inputs),
                              .outputs = {graph_.UniqueName(last_->output(0)->name() + "_part")},
                              .attributes = std::move(attributes)},
                             last_);
    n->output(0)->set_type(std::move(type));
    return n->output(0);
  }

  // The keys as rows: what was transposed for the product, transposed in another order or not at all.
  GraphValue* Keys(GraphValue* kt, int rank) {
    std::vector<int64_t> perm;
    for (int i = 0; i < rank; ++i) perm.push_back(i);
    GraphValue* from = kt;
    if (const Node* t = ProducerOf(kt, "Transpose")) {
      if (Result<std::vector<int64_t>> given = ReadPermutation(*t, rank); given.ok()) {
        perm = std::move(given).value();
        from = t->input(0);
      }
    }
    std::swap(perm[static_cast<size_t>(rank) - 2], perm[static_cast<size_t>(rank) - 1]);
    if (std::is_sorted(perm.begin(), perm.end())) return from;
    Dims dims = *kt->type().shape;
    std::swap(dims[dims.size() - 2], dims[dims.size() - 1]);
    return Add("Transpose", 13, {from}, ValueType::Tensor(kt->type().dtype, std::move(dims)), {{"perm", perm}});
  }

  // The mask with a column for each key; of 3-D scores, for the one head.
  GraphValue* Masked(GraphValue* mask, GraphValue* values, const Dims& scores, int rank) {
    Dims dims = *mask->type().shape;
    if (!(dims.back() == scores.back())) {
      GraphValue* shape = Add("Shape", 15, {values}, ValueType::Tensor(DType::kI64, Dims{Dim(1)}),
                              {{"start", int64_t{rank - 2}}, {"end", int64_t{rank - 1}}});
      dims.back() = scores.back();
      mask = Add("Expand", 13, {mask, shape}, ValueType::Tensor(mask->type().dtype, dims));
    }
    if (rank == 4 || dims.size() < 3) return mask;
    GraphValue* axis = graph_.AddConstant(graph_.UniqueName(last_->output(0)->name() + "_axis"),
                                          Tensor::FromValues<int64_t>(Shape{1}, std::vector<int64_t>{1}));
    axis->set_type(ValueType::Tensor(DType::kI64, Dims{Dim(1)}));
    dims.insert(dims.begin() + 1, Dim(1));
    return Add("Unsqueeze", 13, {mask, axis}, ValueType::Tensor(mask->type().dtype, std::move(dims)));
  }

  Graph& graph_;
  Node* last_;
};

Result<int> Run(Graph& graph, const void* context) {
  if (NewestOpset(context) < kAttentionSince) return 0;
  return RewriteNodes(graph,
                      [](Graph& g, Node* n) -> Result<bool> { return IsWhole(*n, "MatMul") && Fuser(g, n).Fuse(); });
}

}  // namespace

extern const Pass kFuseAttention = {"fuse_attention", "products around a softmax to attention", Run};

}  // namespace quern
