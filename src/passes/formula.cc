#include "passes/formula.h"

#include <algorithm>
#include <cmath>

#include "tensor/tensor.h"

namespace quern {
namespace {

int RankOf(const GraphValue* v) { return v->type().has_rank() ? v->type().rank() : -1; }

// Multiplies `product` by v, or by its inverse where that is a number; false: not taken apart.
void Multiply(GraphValue* v, bool is_root, int rank, Factored& product) {
  if (const std::optional<double> number = ScalarOf(v, rank)) {
    product.number *= *number;
    return;
  }
  Node* n = v->producer();
  if (n != nullptr && n->domain().empty() && (is_root || HasOneReader(v))) {
    if (n->Is("Mul")) {
      Multiply(n->input(0), false, rank, product);
      Multiply(n->input(1), false, rank, product);
      return;
    }
    const std::optional<double> right = n->num_inputs() == 2 ? ScalarOf(n->input(1), rank) : std::nullopt;
    if (n->Is("Div") && right && *right != 0) {
      product.number /= *right;
      return Multiply(n->input(0), false, rank, product);
    }
    if (n->Is("Neg")) {
      product.number = -product.number;
      return Multiply(n->input(0), false, rank, product);
    }
    if (n->Is("Pow") && right && (*right == 2 || *right == 3)) {
      product.factors.insert(product.factors.end(), static_cast<size_t>(*right), n->input(0));
      return;
    }
  }
  product.factors.push_back(v);
}

}  // namespace

bool HasOneReader(const GraphValue* v) { return v->uses().size() == 1 && v->uses()[0].node != nullptr; }

Node* ProducerOf(const GraphValue* v, std::string_view op_type) {
  Node* n = v != nullptr ? v->producer() : nullptr;
  return n != nullptr && n->Is(op_type) ? n : nullptr;
}

std::optional<double> ScalarOf(const GraphValue* v, int rank) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return std::nullopt;
  const Tensor& t = v->constant()->tensor();
  if (t.num_elements() != 1 || t.rank() > rank) return std::nullopt;
  switch (t.dtype()) {
    case DType::kF32:
      return static_cast<double>(*t.data<float>());
    case DType::kF64:
      return *t.data<double>();
    case DType::kF16:
      return static_cast<double>(static_cast<float>(*t.data<Float16>()));
    case DType::kBF16:
      return static_cast<double>(static_cast<float>(*t.data<BFloat16>()));
    case DType::kI64:  // exponents
      return static_cast<double>(*t.data<int64_t>());
    case DType::kI32:
      return static_cast<double>(*t.data<int32_t>());
    default:
      return std::nullopt;
  }
}

bool IsAbout(double x, double expected) { return std::fabs(x - expected) <= 1e-4 * std::fabs(expected); }

bool Factored::Is(double n, std::vector<GraphValue*> of) const {
  return IsAbout(number, n) && factors.size() == of.size() &&
         std::is_permutation(factors.begin(), factors.end(), of.begin());
}

Factored FactorsOf(GraphValue* v) {
  Factored product;
  Multiply(v, true, RankOf(v), product);
  return product;
}

std::optional<Shifted> ShiftedOf(const GraphValue* v) {
  const int rank = RankOf(v);
  if (const Node* add = ProducerOf(v, "Add")) {
    for (int i = 0; i < 2; ++i) {
      if (const auto number = ScalarOf(add->input(i), rank)) return Shifted{add->input(1 - i), *number};
    }
  }
  if (const Node* sub = ProducerOf(v, "Sub")) {
    if (const auto number = ScalarOf(sub->input(1), rank)) return Shifted{sub->input(0), -*number};
  }
  return std::nullopt;
}

}  // namespace quern
