// Products of the same rows with constant weights, as those of queries, keys and values, become one:
//   %a = MatMul(%x, wa)   %q = Add(%a, ba)   %k = MatMul(%x, wk)
// ->
//   %m = MatMul(%x, [wa wk])   %n = Add(%m, [ba 0])   %q, %k = Split(%n) {axis = -1} by columns
// and Gemms alike. Only where nothing behind the results would join a product (activations, residuals), and no weight
// has other readers.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kSizesSince = 13;  // as an input of Split
// Of the new weights. One product of small matrices saves 5 to 10 % of a layer of few rows; of larger ones the time is
// the same, and loading would hold them twice.
constexpr int64_t kMostBytes = int64_t{1} << 20;

const Tensor* Weights(const GraphValue* v, DType dtype) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return nullptr;
  const Tensor& t = v->constant()->tensor();
  const bool is_plain = dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 || dtype == DType::kBF16;
  return is_plain && t.dtype() == dtype && t.is_contiguous() && t.num_elements() > 0 ? &t : nullptr;
}

// Results that move, are scaled, or are multiplied by others, do not join the product that makes them.
bool IsApart(const Use& use) {
  if (use.node == nullptr) return false;
  for (const char* op_type : {"Attention", "MatMul", "Reshape", "Shape", "Transpose", "Unsqueeze"}) {
    if (use.node->Is(op_type)) return true;
  }
  constexpr int kAnyRank = 16;
  return IsWhole(*use.node, "Mul") && ScalarOf(use.node->input(1 - use.index), kAnyRank).has_value();
}
bool AreApart(const std::vector<Use>& uses) { return !uses.empty() && std::all_of(uses.begin(), uses.end(), IsApart); }

struct Product {
  Node* node;  // a MatMul or Gemm
  Node* last;  // the node itself, or the Add of a bias
  const Tensor* weights;
  const Tensor* bias;  // null: none
  bool is_transposed;

  int64_t columns() const { return weights->dim(is_transposed ? 0 : 1); }
};

// The constant row that the only reader of a MatMul adds.
Node* BiasAdd(const Node& matmul, int64_t columns, const Tensor** bias) {
  const GraphValue* v = matmul.output(0);
  Node* add = HasOneReader(v) && IsWhole(*v->uses()[0].node, "Add") ? v->uses()[0].node : nullptr;
  if (add == nullptr) return nullptr;
  *bias = Weights(add->input(add->input(0) == v ? 1 : 0), v->type().dtype);
  const bool is_row = *bias != nullptr && (*bias)->rank() == 1 && (*bias)->dim(0) == columns;
  return is_row ? add : nullptr;
}

bool IsPlainGemm(const Node& n) {
  return n.opset() >= 7 && n.GetFloat("alpha", 1) == 1 && n.GetFloat("beta", 1) == 1 && n.GetInt("transA", 0) == 0;
}

std::optional<Product> ReadProduct(Node* n) {
  const bool is_gemm = IsWhole(*n, "Gemm") && IsPlainGemm(*n);
  if (!is_gemm && !IsWhole(*n, "MatMul")) return std::nullopt;
  const ValueType& x = n->input(0)->type();
  if (!x.is_tensor() || !x.has_rank() || x.rank() < 2 || n->input(0)->is_constant()) return std::nullopt;
  Product p{n, n, Weights(n->input(1), x.dtype), nullptr, is_gemm && n->GetInt("transB", 0) != 0};
  if (p.weights == nullptr || p.weights->rank() != 2 || !HasOneReader(n->input(1))) return std::nullopt;
  if (is_gemm && n->input(2) != nullptr) {
    p.bias = Weights(n->input(2), x.dtype);
    if (p.bias == nullptr || p.bias->rank() != 1 || p.bias->dim(0) != p.columns()) return std::nullopt;
  }
  const Tensor* bias = nullptr;
  if (Node* add = is_gemm ? nullptr : BiasAdd(*n, p.columns(), &bias)) {
    p.last = add;
    p.bias = bias;
  }
  return AreApart(p.last->output(0)->uses()) ? std::optional(p) : std::nullopt;
}

bool IsAlike(const Product& a, const Product& b) {
  const int depth = a.is_transposed ? 1 : 0;
  return a.node->op_type() == b.node->op_type() && a.is_transposed == b.is_transposed &&
         a.weights->dim(depth) == b.weights->dim(depth);
}

// The weights side by side: below each other where they are transposed.
Result<Tensor> JoinWeights(const std::vector<Product>& products, int64_t columns) {
  const Product& first = products[0];
  const int64_t depth = first.weights->dim(first.is_transposed ? 1 : 0);
  const Shape shape = first.is_transposed ? Shape{columns, depth} : Shape{depth, columns};
  QUERN_ASSIGN_OR_RETURN(Tensor joined, Tensor::Allocate(first.weights->dtype(), shape));
  const size_t element = DTypeBytes(joined.dtype());
  const int64_t rows = first.is_transposed ? 1 : depth;
  auto* to = static_cast<std::byte*>(joined.raw_data());
  for (int64_t row = 0; row < rows; ++row) {
    for (const Product& p : products) {
      const size_t bytes = static_cast<size_t>(p.weights->num_elements() / rows) * element;
      std::memcpy(to, static_cast<const std::byte*>(p.weights->raw_data()) + static_cast<size_t>(row) * bytes, bytes);
      to += bytes;
    }
  }
  return joined;
}

// The biases one after the other, with zeros where there is none.
Result<Tensor> JoinBiases(const std::vector<Product>& products, int64_t columns) {
  QUERN_ASSIGN_OR_RETURN(Tensor joined, Tensor::Allocate(products[0].weights->dtype(), Shape{columns}));
  std::memset(joined.raw_data(), 0, joined.bytes());
  auto* to = static_cast<std::byte*>(joined.raw_data());
  for (const Product& p : products) {
    if (p.bias != nullptr) std::memcpy(to, p.bias->raw_data(), p.bias->bytes());
    to += static_cast<size_t>(p.columns()) * DTypeBytes(joined.dtype());
  }
  return joined;
}

Status Merge(Graph& graph, const std::vector<Product>& products, int64_t columns) {
  Node* first = products[0].node;
  GraphValue* x = first->input(0);
  Inserter inserter(graph, first);
  const int opset = std::max(first->opset(), kSizesSince);
  QUERN_ASSIGN_OR_RETURN(Tensor joined, JoinWeights(products, columns));
  std::vector<GraphValue*> operands = {x, inserter.Constant(std::move(joined), "_weights")};
  bool biased = false;
  for (const Product& p : products) biased |= p.bias != nullptr;
  GraphValue* bias = nullptr;
  if (biased) {
    QUERN_ASSIGN_OR_RETURN(Tensor row, JoinBiases(products, columns));
    bias = inserter.Constant(std::move(row), "_bias");
  }
  Dims dims = *x->type().shape;
  dims.back() = columns;
  const ValueType type = ValueType::Tensor(x->type().dtype, dims);
  GraphValue* made = nullptr;
  if (first->Is("Gemm")) {
    if (bias != nullptr) operands.push_back(bias);
    made = inserter.Add("Gemm", opset, operands, type, {{"transB", int64_t{products[0].is_transposed}}});
  } else {
    made = inserter.Add("MatMul", opset, operands, type);
    if (bias != nullptr) made = inserter.Add("Add", opset, {made, bias}, type);
  }
  std::vector<int64_t> sizes;
  std::vector<std::string> names;
  for (const Product& p : products) {
    sizes.push_back(p.columns());
    names.push_back(graph.UniqueName(p.last->output(0)->name() + "_columns"));
  }
  const Node* split = graph.AddNode({.name = first->name(),
                                     .op_type = "Split",
                                     .opset = opset,
                                     .inputs = {made, inserter.Ints(sizes)},
                                     .outputs = std::move(names),
                                     .attributes = {{"axis", int64_t{-1}}}},
                                    first);
  for (size_t i = 0; i < products.size(); ++i) {
    const GraphValue* old = products[i].last->output(0);
    GraphValue* part = split->output(static_cast<int>(i));
    part->set_type(old->type());
    graph.ReplaceAllUses(products[i].last->output(0), part);
    RemoveDead(graph, products[i].last);
  }
  return OkStatus();
}

Result<int> Run(Graph& graph, const void* context) {
  if (NewestOpset(context) < kSizesSince) return 0;
  std::unordered_map<const GraphValue*, size_t> places;
  std::vector<std::vector<Product>> groups;
  for (Node* n = graph.first_node(); n != nullptr; n = n->next()) {
    const std::optional<Product> p = ReadProduct(n);
    if (!p) continue;
    const auto [it, first] = places.emplace(n->input(0), groups.size());
    if (first) groups.emplace_back();
    std::vector<Product>& group = groups[it->second];
    if (group.empty() || IsAlike(group[0], *p)) group.push_back(*p);
  }
  int changes = 0;
  for (const std::vector<Product>& group : groups) {
    int64_t bytes = 0, columns = 0;
    for (const Product& p : group) {
      bytes += static_cast<int64_t>(p.weights->bytes());
      columns += p.columns();
    }
    if (group.size() < 2 || bytes > std::min(kMostBytes, LimitsOf(context).folded_bytes)) continue;
    QUERN_RETURN_IF_ERROR(Merge(graph, group, columns));
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kMergeProducts = {"merge_products", "products of the same rows to one", Run};

}  // namespace quern
