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
  if (is_root || HasOneReader(v)) {
    if (const Node* mul = ProducerOf(v, "Mul")) {
      Multiply(mul->input(0), false, rank, product);
      Multiply(mul->input(1), false, rank, product);
      return;
    }
    const Node *div = ProducerOf(v, "Div"), *power = ProducerOf(v, "Pow");
    const std::optional<double> divisor = div != nullptr ? ScalarOf(div->input(1), rank) : std::nullopt;
    if (divisor && *divisor != 0) {
      product.number /= *divisor;
      return Multiply(div->input(0), false, rank, product);
    }
    if (const Node* neg = ProducerOf(v, "Neg")) {
      product.number = -product.number;
      return Multiply(neg->input(0), false, rank, product);
    }
    const std::optional<double> exponent = power != nullptr ? ScalarOf(power->input(1), rank) : std::nullopt;
    if (exponent == 2.0 || exponent == 3.0) {
      product.factors.insert(product.factors.end(), static_cast<size_t>(*exponent), power->input(0));
      return;
    }
  }
  product.factors.push_back(v);
}

}  // namespace

bool HasOneReader(const GraphValue* v) { return v != nullptr && v->uses().size() == 1 && v->uses()[0].node != nullptr; }

bool IsWhole(const Node& n, std::string_view op_type) {
  if (!n.Is(op_type) || n.output(0) == nullptr) return false;
  static constexpr std::string_view kBinary[] = {"Add", "Div", "Expand", "Gemm", "MatMul", "Mul", "Pow", "Sub", "Tile"};
  const bool is_binary = std::find(std::begin(kBinary), std::end(kBinary), op_type) != std::end(kBinary);
  const bool is_ternary = op_type == "Attention" || op_type == "Where";
  const int operands = is_binary ? 2 : is_ternary ? 3 : op_type == "BatchNormalization" ? 5 : 1;
  for (int i = 0; i < operands; ++i) {
    if (n.input(i) == nullptr) return false;
  }
  return true;
}

Node* ProducerOf(const GraphValue* v, std::string_view op_type) {
  Node* n = v != nullptr ? v->producer() : nullptr;
  return n != nullptr && n->output(0) == v && IsWhole(*n, op_type) ? n : nullptr;
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

std::optional<std::vector<int64_t>> IntsOf(const GraphValue* v) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return std::nullopt;
  Result<std::vector<int64_t>> numbers = ToInt64s(v->constant()->tensor());
  return numbers.ok() ? std::optional(std::move(numbers).value()) : std::nullopt;
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
