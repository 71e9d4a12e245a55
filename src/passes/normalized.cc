#include "passes/normalized.h"

#include <algorithm>
#include <vector>

#include "base/checked_math.h"
#include "passes/formula.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

// The first of the last dimensions that a ReduceMean with kept dimensions is over; nothing for other nodes.
std::optional<int> FirstReduced(const Node* n) {
  if (n == nullptr || n->GetInt("keepdims", 1) == 0 || !n->input(0)->type().has_rank()) return std::nullopt;
  const int rank = n->input(0)->type().rank();
  std::vector<int64_t> axes = n->GetInts("axes");
  if (const GraphValue* given = n->input(1); n->opset() >= 18 && given != nullptr) {
    const auto numbers = IntsOf(given);
    if (!numbers) return std::nullopt;
    axes = *numbers;
  }
  for (int64_t& a : axes) a += a < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || static_cast<int>(axes.size()) > rank) return std::nullopt;
  const int first = rank - static_cast<int>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != first + static_cast<int64_t>(i)) return std::nullopt;
  }
  return first;
}

// What the factor 1 / sqrt(mean(d * d) + epsilon) normalizes d as; nothing when `root` is no such root.
std::optional<Normalized> ReadRoot(GraphValue* root, GraphValue* d) {
  const Node* sqrt = HasOneReader(root) ? ProducerOf(root, "Sqrt") : nullptr;
  if (sqrt == nullptr || !HasOneReader(sqrt->input(0))) return std::nullopt;
  const auto sum = ShiftedOf(sqrt->input(0));
  if (!sum || !HasOneReader(sum->value) || sum->number < 0) return std::nullopt;
  const Node* variance = ProducerOf(sum->value, "ReduceMean");
  const std::optional<int> axis = FirstReduced(variance);
  if (!axis || !HasOneReader(variance->input(0)) || !FactorsOf(variance->input(0)).Is(1, {d, d})) return std::nullopt;
  Normalized n{.x = d, .centered = false, .axis = *axis, .epsilon = static_cast<float>(sum->number)};
  const Node* centered = ProducerOf(d, "Sub");
  if (centered == nullptr) return n;
  const Node* mean = ProducerOf(centered->input(1), "ReduceMean");
  if (mean == nullptr || mean->input(0) != centered->input(0) || FirstReduced(mean) != axis) return n;
  n.x = centered->input(0);
  n.centered = true;
  return n;
}

}  // namespace

std::optional<Normalized> ReadNormalized(GraphValue* v) {
  if (const Node* div = ProducerOf(v, "Div")) return ReadRoot(div->input(1), div->input(0));
  const Node* mul = ProducerOf(v, "Mul");
  for (int i = 0; mul != nullptr && i < 2; ++i) {
    GraphValue* inverse = mul->input(i);
    if (!HasOneReader(inverse)) continue;
    const Node *reciprocal = ProducerOf(inverse, "Reciprocal"), *div = ProducerOf(inverse, "Div");
    GraphValue* root = reciprocal != nullptr ? reciprocal->input(0) : nullptr;
    if (div != nullptr && ScalarOf(div->input(0), 16) == 1.0) root = div->input(1);
    if (root == nullptr) continue;
    if (auto n = ReadRoot(root, mul->input(1 - i))) return n;
  }
  return std::nullopt;
}

namespace {

// A constant of float32 that broadcasts to [N, C, ...] as one number for each channel.
bool IsOfChannels(const GraphValue* v, const GraphValue* to) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return false;
  const Tensor& t = v->constant()->tensor();
  const Dims& shape = *to->type().shape;
  const int ahead = static_cast<int>(shape.size()) - t.rank();
  if (t.dtype() != DType::kF32 || !t.is_contiguous() || ahead < 0 || !shape[1].is_constant(t.num_elements())) {
    return false;
  }
  for (int d = 0; d < t.rank(); ++d) {
    if (t.dim(d) != 1 && ahead + d != 1) return false;
  }
  return true;
}

// Takes the parameter off that the operator puts to the value; null when there is none.
GraphValue* TakeParameter(const char* op_type, bool is_root, GraphValue*& v) {
  const Node* n = is_root || HasOneReader(v) ? ProducerOf(v, op_type) : nullptr;
  for (int i = 0; n != nullptr && i < 2; ++i) {
    GraphValue* other = n->input(1 - i);
    if (!IsOfChannels(n->input(i), v) || !other->type().has_rank() || *other->type().shape != *v->type().shape)
      continue;
    v = other;
    return n->input(i);
  }
  return nullptr;
}

}  // namespace

ChannelAffine ChannelAffineOf(GraphValue* v) {
  ChannelAffine a{v};
  if (!v->type().is_tensor() || !v->type().has_rank() || v->type().rank() < 2) return a;
  a.bias = TakeParameter("Add", true, a.of);
  a.scale = TakeParameter("Mul", a.bias == nullptr, a.of);
  return a;
}

GraphValue* AddFilled(Graph& graph, const std::string& name, const Shape& shape, float number) {
  constexpr int64_t kMostElements = int64_t{1} << 24;  // types may promise any extent
  const std::optional<int64_t> elements = CheckedProduct(shape.span());
  if (!elements || *elements > kMostElements) return nullptr;
  Result<Tensor> filled = Tensor::Allocate(DType::kF32, shape);
  if (!filled.ok()) return nullptr;
  for (float& v : filled->values<float>()) v = number;
  return graph.AddConstant(graph.UniqueName(name), *std::move(filled));
}

GraphValue* ChannelVector(Graph& graph, GraphValue* parameter, int64_t channels, float missing,
                          const std::string& name) {
  if (parameter == nullptr) return AddFilled(graph, name, Shape{channels}, missing);
  const Tensor& t = parameter->constant()->tensor();
  if (t.rank() == 1) return parameter;
  return graph.AddConstant(graph.UniqueName(name), t.Reshaped(Shape{channels}));
}

}  // namespace quern
