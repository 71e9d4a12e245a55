// An Einsum that multiplies matrices of a batch is a MatMul, as other passes look for it:
//   %y = Einsum(%a, %b) {equation = "bqhd,bkhd->bhqk"}
// ->
//   %l = Transpose(%a) {perm = [0, 2, 1, 3]}   %r = Transpose(%b) {perm = [0, 2, 3, 1]}   %y = MatMul(%l, %r)
// Both operands have the letters of the batch, of which there is at least one, and a letter that is summed; each has
// one letter of its own. A result in another order is transposed.
#include <algorithm>

#include "graph/rewriter.h"
#include "ops/common/einsum_equation.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

bool Has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// The letters of a product of matrices.
struct Product {
  std::string batch;
  char m = 0, n = 0, k = 0;
  bool is_swapped = false;  // the second operand has m
};

// Nothing for other equations.
std::optional<Product> ReadProduct(const EinsumEquation& e) {
  Product p;
  for (const char letter : e.output) {
    const bool first = Has(e.inputs[0], letter), second = Has(e.inputs[1], letter);
    if (first && second) {
      p.batch += letter;
    } else if (p.m == 0) {
      p.m = letter;
      p.is_swapped = second;
    } else if (p.n == 0 && p.is_swapped == first) {
      p.n = letter;
    } else {
      return std::nullopt;
    }
  }
  for (const char letter : e.inputs[0]) {
    if (!Has(e.output, letter)) p.k = letter;
  }
  std::string lhs = p.batch + p.m + p.k, rhs = p.batch + p.n + p.k, first = e.inputs[0], second = e.inputs[1];
  if (p.is_swapped) std::swap(first, second);
  for (std::string* letters : {&lhs, &rhs, &first, &second}) std::sort(letters->begin(), letters->end());
  return !p.batch.empty() && p.n != 0 && p.k != 0 && lhs == first && rhs == second ? std::optional(p) : std::nullopt;
}

// From letters to the same letters in another order.
std::vector<int64_t> Order(const std::string& from, const std::string& to) {
  std::vector<int64_t> perm;
  for (const char letter : to) perm.push_back(static_cast<int64_t>(from.find(letter)));
  return perm;
}

Dims Permuted(const Dims& dims, const std::vector<int64_t>& perm) {
  Dims permuted;
  for (const int64_t d : perm) permuted.push_back(dims[static_cast<size_t>(d)]);
  return permuted;
}

bool IsKnown(const GraphValue* v) { return v != nullptr && v->type().is_tensor() && v->type().has_rank(); }

Result<bool> Convert(Graph& graph, Node* n) {
  if (!n->Is("Einsum") || n->num_inputs() != 2 || !IsKnown(n->input(0)) || !IsKnown(n->input(1)) ||
      !IsKnown(n->output(0)) || !IsFloatType(n->output(0)->type().dtype)) {
    return false;
  }
  const auto equation = ParseEinsum(*n, {n->input(0)->type().rank(), n->input(1)->type().rank()});
  if (!equation.ok() || equation->inputs.size() != 2) return false;
  const std::optional<Product> p = ReadProduct(*equation);
  if (!p || n->output(0)->type().rank() != static_cast<int>(equation->output.size())) return false;
  Inserter inserter(graph, n);
  const DType dtype = n->output(0)->type().dtype;
  const auto operand = [&](int i, const std::string& letters) {
    GraphValue* v = n->input(i);
    const std::vector<int64_t> perm = Order(equation->inputs[static_cast<size_t>(i)], letters);
    if (std::is_sorted(perm.begin(), perm.end())) return v;
    const ValueType type = ValueType::Tensor(dtype, Permuted(*v->type().shape, perm));
    return inserter.Add("Transpose", 1, {v}, type, {{"perm", perm}});
  };
  GraphValue* lhs = operand(p->is_swapped ? 1 : 0, p->batch + p->m + p->k);
  GraphValue* rhs = operand(p->is_swapped ? 0 : 1, p->batch + p->k + p->n);
  const std::string letters = p->batch + p->m + p->n;
  if (letters == equation->output) {
    ReplaceNode(graph, n, {.name = n->name(), .op_type = "MatMul", .opset = n->opset(), .inputs = {lhs, rhs}});
    return true;
  }
  const Dims product = Permuted(*n->output(0)->type().shape, Order(equation->output, letters));
  GraphValue* made = inserter.Add("MatMul", 1, {lhs, rhs}, ValueType::Tensor(dtype, product));
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "Transpose",
               .opset = n->opset(),
               .inputs = {made},
               .attributes = {{"perm", Order(letters, equation->output)}}});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Convert); }

}  // namespace

extern const Pass kConvertEinsum = {"convert_einsum", "Einsums of a batch of matrices to products", Run};

}  // namespace quern
