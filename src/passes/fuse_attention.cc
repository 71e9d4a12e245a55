// Attention that is written out, as exporters do, becomes one node:
//   %s = MatMul(%q, %kt)   %c = Mul(%s, scale)   %a = Add(%c, %mask)   %p = Softmax(%a) {axis = -1}
//   %y = MatMul(%p, %v)
// ->
//   %k = Transpose(%kt)    %y = Attention(%q, %k, %v, %mask) {scale}
// with the scale before or behind the product, or none, and with masks of all forms that attention_scores.h names:
//   %a = Where(%seen, %c, -infinity)                       ->  Attention(..., %seen)
// Keys and values that are repeated for a group of heads are taken as they were. Between the nodes nothing else reads
// the values. A mask with one column for all keys, or with columns of another name than the keys, is expanded to
// the keys. A query whose mask is -infinity for all keys gives zeros instead of NaN.
#include <algorithm>
#include <cmath>

#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/attention_mask.h"
#include "passes/attention_scores.h"
#include "passes/formula.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kAttentionSince = 23;

// Whether a softmax over those dimensions is one over the last. Up to opset 12 it is over all from its axis on.
bool IsOverLast(const Node& softmax, const Dims& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t axis = softmax.GetInt("axis", softmax.opset() < 13 ? 1 : -1);
  if (axis < 0) axis += rank;
  if (axis == rank - 1) return true;
  return softmax.opset() < 13 && axis >= 0 && axis < rank &&
         std::all_of(dims.begin() + axis, dims.end() - 1, [](const Dim& d) { return d.is_constant(1); });
}

// What guards a softmax against rows without a key: Where(IsNaN(%p), 0, %p). Attention gives zeros there.
GraphValue* Guarded(const GraphValue* v) {
  const Node* where = HasOneReader(v) ? ProducerOf(v, "Where") : nullptr;
  if (where == nullptr || ScalarOf(where->input(1), 16) != 0.0) return nullptr;
  GraphValue* p = where->input(2);
  const Node* is_nan = HasOneReader(where->input(0)) ? ProducerOf(where->input(0), "IsNaN") : nullptr;
  return is_nan != nullptr && is_nan->input(0) == p && p->uses().size() == 2 ? p : nullptr;
}

struct Weights {
  Node* softmax = nullptr;
  bool is_reshaped = false, is_cast = false;
};

// The softmax behind which only guards, casts and Reshapes are.
std::optional<Weights> ReadWeights(GraphValue* v) {
  Weights w;
  bool is_guarded = false;
  while (true) {
    if (GraphValue* cast = CastFrom(v)) {
      w.is_cast = true;
      v = cast;
    } else if (GraphValue* reshaped = ReshapedFrom(v)) {
      w.is_reshaped = true;
      v = reshaped;
    } else if (GraphValue* guarded = Guarded(v)) {
      is_guarded = true;
      v = guarded;
      break;
    } else {
      break;
    }
  }
  w.softmax = is_guarded || HasOneReader(v) ? ProducerOf(v, "Softmax") : nullptr;
  if (w.softmax == nullptr || !v->type().has_rank() || v->type().rank() == 0) return std::nullopt;
  return IsOverLast(*w.softmax, *v->type().shape) ? std::optional(w) : std::nullopt;
}

// What [batch, heads, rows, size] was before each head was repeated for a group of queries' heads:
// Reshape(Expand(Unsqueeze(%x, 2), [batch, heads, group, rows, size])), with Tile instead of Expand, or the Expand of
// one head.
GraphValue* Ungrouped(GraphValue* v) {
  if (const Node* all = ProducerOf(v, "Expand")) {
    const ValueType &from = all->input(0)->type(), &to = v->type();
    if (!from.has_rank() || !to.has_rank() || from.rank() != 4 || to.rank() != 4) return v;
    const Dims one = {(*to.shape)[0], Dim(1), (*to.shape)[2], (*to.shape)[3]};
    return *from.shape == one ? all->input(0) : v;
  }
  const Node* merged = ProducerOf(v, "Reshape");
  if (merged == nullptr || !v->type().has_rank() || v->type().rank() != 4) return v;
  const Node *expand = ProducerOf(merged->input(0), "Expand"), *tile = ProducerOf(merged->input(0), "Tile");
  const Node* repeat = expand != nullptr ? expand : tile;
  if (repeat == nullptr || !repeat->output(0)->type().has_rank() || !repeat->input(0)->type().has_rank()) return v;
  const Dims &to = *v->type().shape, &wide = *repeat->output(0)->type().shape, &from = *repeat->input(0)->type().shape;
  if (wide.size() != 5 || from.size() != 5 || !from[2].is_constant(1)) return v;
  for (const size_t d : {0, 1, 3, 4}) {
    if (!(wide[d] == from[d])) return v;
  }
  if (!(to[0] == wide[0]) || !(to[1] == wide[1] * wide[2]) || !(to[2] == wide[3]) || !(to[3] == wide[4])) return v;
  const Node* apart = repeat->input(0)->producer();
  if (apart == nullptr || !(IsWhole(*apart, "Unsqueeze") || IsWhole(*apart, "Reshape"))) return v;
  GraphValue* x = apart->input(0);
  return x->type().has_rank() && *x->type().shape == Dims{wide[0], wide[1], wide[3], wide[4]} ? x : v;
}

class Fuser {
 public:
  Fuser(Graph& graph, Node* last) : graph_(graph), last_(last), inserter_(graph, last) {}

  bool Fuse() {
    const std::optional<Weights> weights = ReadWeights(last_->input(0));
    if (!weights || !last_->input(0)->type().has_rank()) return false;
    std::optional<AttentionScores> scores = ReadScores(weights->softmax->input(0));
    if (!scores) return false;
    scores->is_reshaped |= weights->is_reshaped;
    scores->is_cast |= weights->is_cast;
    q_ = WithoutScale(scores->product->input(0), &scores->scale);
    kt_ = WithoutScale(scores->product->input(1), &scores->scale);
    v_ = last_->input(1);
    if (!std::isfinite(scores->scale) || !ReadShapes()) return false;
    if (scores->is_reshaped && !ComesBack(*scores)) return false;
    if (!MasksFit(*scores, scores_, q_->type().dtype)) return false;
    GraphValue* keys = Keys();
    if (GraphValue* k = Ungrouped(keys), *v = Ungrouped(v_); (*k->type().shape)[1] == (*v->type().shape)[1]) {
      keys = k;
      v_ = v;
    }
    std::vector<GraphValue*> inputs = {q_, keys, v_};
    if (GraphValue* mask = BuildMask(*scores, scores_, q_->type().dtype, inserter_)) inputs.push_back(Placed(mask));
    Attributes attributes = {{"scale", static_cast<float>(scores->scale)}};
    if (rank() == 3) attributes["q_num_heads"] = attributes["kv_num_heads"] = int64_t{1};
    if (scores->is_cast) {
      attributes["softmax_precision"] = static_cast<int64_t>(weights->softmax->output(0)->type().dtype);
    }
    ReplaceNode(graph_, last_,
                {.name = last_->name(),
                 .op_type = "Attention",
                 .opset = std::max(last_->opset(), kAttentionSince),
                 .inputs = std::move(inputs),
                 .attributes = std::move(attributes)});
    return true;
  }

 private:
  int rank() const { return q_->type().rank(); }

  // Whether queries, keys and values are those of one attention; then scores_ are the dimensions of the scores.
  bool ReadShapes() {
    const int rank = q_->type().has_rank() ? q_->type().rank() : 0;
    if (rank != 3 && rank != 4) return false;
    for (const GraphValue* x : {q_, kt_, v_}) {
      if (!x->type().is_tensor() || !x->type().has_rank() || x->type().rank() != rank) return false;
      if (!IsFloatType(x->type().dtype) || x->type().dtype != q_->type().dtype) return false;
    }
    const Dims &q = *q_->type().shape, &k = *kt_->type().shape, &v = *v_->type().shape;
    const size_t row = q.size() - 2;
    for (size_t d = 0; d < row; ++d) {  // broadcast batches are no attention; one head of keys for all queries' is
      const bool shared = d == 1 && k[d].is_constant(1) && v[d].is_constant(1);
      if (!shared && (!(q[d] == k[d]) || !(q[d] == v[d]))) return false;
    }
    if (!(k[row + 1] == v[row]) || !(q[row + 1] == k[row])) return false;
    scores_.assign(q.begin(), q.end() - 1);
    scores_.push_back(k[row + 1]);
    return true;
  }

  // Whether leading dimensions that were split are joined again before the values.
  bool ComesBack(const AttentionScores& scores) const {
    const ValueType& product = scores.product->output(0)->type();
    return product.has_rank() && *product.shape == *last_->input(0)->type().shape;
  }

  // The keys as rows: what was transposed for the product, transposed in another order or not at all.
  GraphValue* Keys() {
    if (GraphValue* keys = KeysBeforeReshape()) return keys;
    std::vector<int64_t> perm;
    for (int i = 0; i < rank(); ++i) perm.push_back(i);
    GraphValue* from = kt_;
    if (const Node* t = ProducerOf(kt_, "Transpose")) {
      if (Result<std::vector<int64_t>> given = ReadPermutation(*t, rank()); given.ok()) {
        perm = std::move(given).value();
        from = t->input(0);
      }
    }
    std::swap(perm[static_cast<size_t>(rank()) - 2], perm[static_cast<size_t>(rank()) - 1]);
    if (std::is_sorted(perm.begin(), perm.end())) return from;
    return inserter_.Add("Transpose", 13, {from}, KeysType(), {{"perm", perm}});
  }
  ValueType KeysType() const {
    Dims dims = *kt_->type().shape;
    std::swap(dims[dims.size() - 2], dims[dims.size() - 1]);
    return ValueType::Tensor(kt_->type().dtype, std::move(dims));
  }
  // Keys that were transposed with their leading dimensions joined: Reshape(Transpose(%k3) {perm = [0, 2, 1]}).
  GraphValue* KeysBeforeReshape() {
    const Node* split = ProducerOf(kt_, "Reshape");
    const Node* t = split != nullptr ? ProducerOf(split->input(0), "Transpose") : nullptr;
    if (t == nullptr || !t->output(0)->type().has_rank() || t->output(0)->type().rank() != 3) return nullptr;
    const Dims &to = *kt_->type().shape, &turned = *t->output(0)->type().shape;
    const Result<std::vector<int64_t>> perm = ReadPermutation(*t, 3);
    if (!perm.ok() || !(to[to.size() - 2] == turned[1]) || !(to.back() == turned[2])) return nullptr;
    GraphValue* rows = t->input(0);
    std::vector<int64_t> turn = *perm;
    std::swap(turn[1], turn[2]);
    const ValueType keys = KeysType();
    if (const Node* joined = ProducerOf(rows, "Reshape");
        std::is_sorted(turn.begin(), turn.end()) && joined != nullptr) {
      const ValueType& before = joined->input(0)->type();
      if (before.has_rank() && *before.shape == *keys.shape) return joined->input(0);
    }
    const auto list = ReshapeList(*keys.shape);
    if (!list) return nullptr;
    if (!std::is_sorted(turn.begin(), turn.end())) {
      const ValueType type = ValueType::Tensor(keys.dtype, Dims{turned[0], turned[2], turned[1]});
      rows = inserter_.Add("Transpose", 13, {rows}, type, {{"perm", turn}});
    }
    return inserter_.Add("Reshape", 13, {rows, inserter_.Ints(*list)}, keys);
  }

  // The mask with a column for each key; of 3-D scores, for the one head.
  GraphValue* Placed(GraphValue* mask) {
    Dims dims = *mask->type().shape;
    if (!(dims.back() == scores_.back())) {
      GraphValue* shape = inserter_.Add("Shape", 15, {v_}, ValueType::Tensor(DType::kI64, Dims{Dim(1)}),
                                        {{"start", int64_t{rank() - 2}}, {"end", int64_t{rank() - 1}}});
      dims.back() = scores_.back();
      mask = inserter_.Add("Expand", 13, {mask, shape}, ValueType::Tensor(mask->type().dtype, dims));
    }
    if (rank() == 4 || dims.size() < 3) return mask;
    dims.insert(dims.begin() + 1, Dim(1));
    const ValueType type = ValueType::Tensor(mask->type().dtype, std::move(dims));
    return inserter_.Add("Unsqueeze", 13, {mask, inserter_.Ints({1})}, type);
  }

  Graph& graph_;
  Node* last_;
  Inserter inserter_;
  GraphValue *q_ = nullptr, *kt_ = nullptr, *v_ = nullptr;
  Dims scores_;
};

Result<int> Run(Graph& graph, const void* context) {
  if (NewestOpset(context) < kAttentionSince) return 0;
  return RewriteNodes(graph,
                      [](Graph& g, Node* n) -> Result<bool> { return IsWhole(*n, "MatMul") && Fuser(g, n).Fuse(); });
}

}  // namespace

extern const Pass kFuseAttention = {"fuse_attention", "products around a softmax to attention", Run};

}  // namespace quern
