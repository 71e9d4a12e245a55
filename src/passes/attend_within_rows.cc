// Attention over heads that are split off rows, and joined to rows again, takes and gives the rows:
//   %q4 = Transpose(%q) {perm = [0, 2, 1, 3]} (and keys, values alike)   %y4 = Attention(%q4, %k4, %v4)
//   %y = Transpose(%y4) {perm = [0, 2, 1, 3]}
// ->
//   %qr = Reshape(%q, [0, 0, heads * size]) (and keys, values)
//   %yr = Attention(%qr, %kr, %vr) {q_num_heads = heads, kv_num_heads = heads}   %y = Reshape(%yr, [0, 0, heads, size])
// and with perm = [2, 0, 1, 3] behind the attention, of sequences that come before batches,
//   %yh = Reshape(%yr, [0, 0, heads, size])   %y = Transpose(%yh) {perm = [1, 0, 2, 3]}
// where all number of heads and sizes are known, and nothing else reads the heads of the result. Operands that are no
// such Transpose are transposed, but those of a cache, which lie by heads: that would cost more than the result's.
#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/formula.h"
#include "passes/passes.h"

namespace quern {
namespace {

const std::vector<int64_t> kHeadsApart = {0, 2, 1, 3};
const std::vector<int64_t> kSequencesFirst = {2, 0, 1, 3};
const std::vector<int64_t> kSwapBatch = {1, 0, 2, 3};

bool Permutes(const Node* n, const std::vector<int64_t>& order) {
  if (n == nullptr || !IsWhole(*n, "Transpose") || !n->input(0)->type().has_rank() || n->input(0)->type().rank() != 4) {
    return false;
  }
  const Result<std::vector<int64_t>> perm = ReadPermutation(*n, 4);
  return perm.ok() && *perm == order;
}

bool HasKnownHeads(const GraphValue* v) {
  if (v == nullptr || !v->type().has_rank() || v->type().rank() != 4) return false;
  const Dims& shape = *v->type().shape;
  return shape[1].is_constant() && shape[1].value() > 0 && shape[3].is_constant() && shape[3].value() > 0;
}

// Whether it comes with the run, or is joined along the sequence to what may, under whatever shape.
bool IsOfCache(const GraphValue* v) {
  constexpr int kMostSteps = 8;
  for (int i = 0; i < kMostSteps; ++i) {
    const Node* node = v->producer();
    if (node == nullptr) return true;
    if (node->Is("Concat")) {
      const int64_t axis = node->GetInt("axis", 0), rank = v->type().has_rank() ? v->type().rank() : 0;
      return (axis < 0 ? axis + rank : axis) == rank - 2;
    }
    const bool shows = node->Is("Reshape") || node->Is("Expand") || node->Is("Unsqueeze") || node->Is("Squeeze");
    if (!shows) return false;
    v = node->input(0);
  }
  return false;
}

class Rewriter {
 public:
  Rewriter(Graph& graph, Node* joined) : graph_(graph), node_(joined->input(0)->producer()), joined_(joined) {}

  // Past states have heads of their own.
  bool Rewrite() {
    const GraphValue* y = node_->output(0);
    if (node_->num_inputs() < 3 || node_->input(4) || node_->input(6) || y == nullptr || y->uses().size() != 1) {
      return false;
    }
    for (int i = 1; i < node_->num_outputs(); ++i) {
      if (node_->output(i) != nullptr) return false;
    }
    for (int i = 0; i < 3; ++i) {
      if (!HasKnownHeads(node_->input(i))) return false;
    }
    if (!HasKnownHeads(y)) return false;
    if (IsOfCache(node_->input(1)) || IsOfCache(node_->input(2))) return false;
    std::map<std::string, Attribute, std::less<>> attributes = node_->attributes();
    attributes["q_num_heads"] = (*node_->input(0)->type().shape)[1].value();
    attributes["kv_num_heads"] = (*node_->input(1)->type().shape)[1].value();
    const int opset = node_->opset();
    const Dims& result = *y->type().shape;
    const Dims heads = {result[0], result[2], result[1], result[3]};
    std::vector<GraphValue*> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(Rows(node_->input(i)));
    if (node_->input(3)) inputs.push_back(node_->input(3));
    GraphValue* rows = Add(node_, "Attention", std::move(inputs), Joined(heads), std::move(attributes));
    GraphValue* shape = Constant({0, 0, heads[2].value(), heads[3].value()});
    if (Permutes(joined_, kHeadsApart)) {
      ReplaceNode(graph_, joined_,
                  {.name = joined_->name(), .op_type = "Reshape", .opset = opset, .inputs = {rows, shape}});
    } else {
      GraphValue* apart = Add(nullptr, "Reshape", {rows, shape}, heads, {});
      ReplaceNode(graph_, joined_,
                  {.name = joined_->name(),
                   .op_type = "Transpose",
                   .opset = opset,
                   .inputs = {apart},
                   .attributes = {{"perm", kSwapBatch}}});
    }
    return true;
  }

 private:
  static Dims Joined(const Dims& apart) { return {apart[0], apart[1], apart[2] * apart[3]}; }

  GraphValue* Add(const Node* named, const char* op_type, std::vector<GraphValue*> inputs, Dims shape,
                  std::map<std::string, Attribute, std::less<>> attributes) {
    const DType dtype = inputs[0]->type().dtype;
    Node* n = graph_.AddNode({.name = named != nullptr ? named->name() : std::string(),
                              .op_type = op_type,
                              .opset = node_->opset(),
                              .inputs = std::move(inputs),
                              .outputs = {graph_.UniqueName(node_->output(0)->name() + "_rows")},
                              .attributes = std::move(attributes)},
                             node_);
    n->output(0)->set_type(ValueType::Tensor(dtype, std::move(shape)));
    return n->output(0);
  }
  GraphValue* Constant(const std::vector<int64_t>& numbers) {
    const auto n = static_cast<int64_t>(numbers.size());
    return graph_.AddConstant(graph_.UniqueName(node_->output(0)->name() + "_shape"),
                              Tensor::FromValues<int64_t>(Shape{n}, numbers));
  }
  // [batch, heads, length, size] as [batch, length, heads * size]
  GraphValue* Rows(GraphValue* heads) {
    GraphValue* apart = nullptr;
    if (Permutes(heads->producer(), kHeadsApart)) {
      apart = heads->producer()->input(0);
    } else {
      Dims shape = *heads->type().shape;
      std::swap(shape[1], shape[2]);
      apart = Add(nullptr, "Transpose", {heads}, std::move(shape), {{"perm", kHeadsApart}});
    }
    const Dims& shape = *heads->type().shape;
    const int64_t width = shape[1].value() * shape[3].value();
    return Add(nullptr, "Reshape", {apart, Constant({0, 0, width})}, {shape[0], shape[2], Dim(width)}, {});
  }

  Graph& graph_;
  Node *node_, *joined_;
};

Result<int> Run(Graph& graph, const void*) {
  return RewriteNodes(graph, [](Graph& g, Node* n) -> Result<bool> {
    return (Permutes(n, kHeadsApart) || Permutes(n, kSequencesFirst)) &&
           ProducerOf(n->input(0), "Attention") != nullptr && Rewriter(g, n).Rewrite();
  });
}

}  // namespace

extern const Pass kAttendWithinRows = {"attend_within_rows", "attention on rows instead of heads", Run};

}  // namespace quern
