#include "provider/cpu/common/quantization.h"

#include <algorithm>
#include <cmath>

#include "provider/cpu/common/constants.h"

namespace quern::cpu {

bool DividesInFloat(const Node& node) {
  const int64_t precision = node.GetInt("precision", 0);
  return precision == 0 || precision == static_cast<int64_t>(DType::kF32);
}

std::optional<Quantization> QuantizationOf(const Node& node) {
  const bool to_real = node.Is("DequantizeLinear");
  if ((!to_real && !node.Is("QuantizeLinear")) || node.GetInt("block_size", 0) != 0) return std::nullopt;
  if (node.input(to_real ? 1 : 0)->type().dtype != DType::kF32) return std::nullopt;
  if (to_real && node.output(0)->type().dtype != DType::kF32) return std::nullopt;
  const GraphValue* stored = to_real ? node.input(0) : node.output(0);
  if (!IsIntegerType(stored->type().dtype) || !DividesInFloat(node)) return std::nullopt;
  const Tensor* given = ConstantTensor(node.input(1));
  if (!given || given->dtype() != DType::kF32 || given->rank() > 1) return std::nullopt;
  const Result<Tensor> scale = given->Contiguous();
  if (!scale.ok() || scale->num_elements() == 0) return std::nullopt;
  Quantization q;
  for (float s : scale->values<float>()) {
    if (!std::isfinite(s) || s <= 0) return std::nullopt;
    q.scales.push_back(s);
  }
  q.zero_points.assign(q.scales.size(), 0);
  if (node.input(2)) {
    const Tensor* zero = ConstantTensor(node.input(2));
    if (!zero || zero->num_elements() != static_cast<int64_t>(q.scales.size())) return std::nullopt;
    const Result<Tensor> dense = zero->Contiguous();
    if (!dense.ok()) return std::nullopt;
    const Result<std::vector<int64_t>> values = ToInt64s(*dense);
    if (!values.ok()) return std::nullopt;
    std::transform(values->begin(), values->end(), q.zero_points.begin(),
                   [](int64_t z) { return static_cast<int32_t>(z); });
  }
  if (q.scales.size() > 1) {
    const ValueType& x = node.input(0)->type();
    if (!x.shape) return std::nullopt;
    const int64_t axis = node.GetInt("axis", 1);
    q.axis = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
  }
  return q;
}

std::optional<Quantization> ByteQuantizationOf(const Node& node) {
  std::optional<Quantization> q = QuantizationOf(node);
  if (!q || !q->per_tensor()) return std::nullopt;
  const GraphValue* stored = node.Is("QuantizeLinear") ? node.output(0) : node.input(0);
  return IsByte(stored->type().dtype) ? q : std::nullopt;
}

const Node* DequantizedConstant(const GraphValue* value, const CpuConfig& config) {
  const Node* node = value ? value->producer() : nullptr;
  if (!node || !node->Is("DequantizeLinear")) return nullptr;
  for (const GraphValue* v : node->inputs()) {
    if (v && !ConstantTensor(v)) return nullptr;
  }
  return FindCpuOp("", "DequantizeLinear")->reject(*node, config).empty() ? node : nullptr;
}

DType ProductType(const Node& node) {
  return static_cast<DType>(node.GetInt("y_type", static_cast<int64_t>(DType::kF32)));
}

Result<ProductZeroPoints> ZeroPointsOf(const Node& node) {
  ProductZeroPoints z;
  z.x = static_cast<int32_t>(node.GetInt("x_zero_point", 0));
  if (const GraphValue* x = node.input(kInputZeroInput)) z.x_of_run = x->type().dtype;
  const GraphValue* w = node.input(kWeightZeroInput);
  if (w && w->type().dtype != DType::kI32) {
    z.w_of_run = w->type().dtype;
  } else if (const Tensor* given = ConstantTensor(w)) {
    QUERN_ASSIGN_OR_RETURN(const Tensor each, given->Clone());
    const auto values = each.values<int32_t>();
    z.w = values[0];
    if (std::any_of(values.begin(), values.end(), [&](int32_t v) { return v != z.w; })) z.w_each = each;
  }
  return z;
}

}  // namespace quern::cpu
