#include "passes/channel_affine.h"

#include <cmath>

#include "tensor/tensor.h"

namespace quern {

std::optional<std::vector<double>> DoublesOf(const GraphValue* v) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return std::nullopt;
  const Result<Tensor> t = v->constant()->tensor().Contiguous();
  if (!t.ok()) return std::nullopt;
  if (t->dtype() == DType::kF64) return std::vector<double>(t->values<double>().begin(), t->values<double>().end());
  if (t->dtype() != DType::kF32) return std::nullopt;
  return std::vector<double>(t->values<float>().begin(), t->values<float>().end());
}

std::optional<ChannelAffine> ChannelAffineOf(const Node& norm) {
  if (norm.GetInt("training_mode", 0) != 0 || norm.GetInt("spatial", 1) != 1 ||
      (norm.opset() < 7 && norm.GetInt("is_test", 0) == 0)) {
    return std::nullopt;
  }
  for (int i = 1; i < norm.num_outputs(); ++i) {
    if (norm.output(i) != nullptr && !norm.output(i)->uses().empty()) return std::nullopt;
  }
  const auto scale = DoublesOf(norm.input(1)), bias = DoublesOf(norm.input(2)), mean = DoublesOf(norm.input(3)),
             variance = DoublesOf(norm.input(4));
  if (!scale || !bias || !mean || !variance || bias->size() != scale->size() || mean->size() != scale->size() ||
      variance->size() != scale->size()) {
    return std::nullopt;
  }
  ChannelAffine a;
  const double epsilon = static_cast<double>(norm.GetFloat("epsilon", 1e-5f));
  for (size_t c = 0; c < scale->size(); ++c) {
    a.factor.push_back((*scale)[c] / std::sqrt((*variance)[c] + epsilon));
    a.offset.push_back((*bias)[c] - (*mean)[c] * a.factor[c]);
    if (!std::isfinite(a.factor[c]) || !std::isfinite(a.offset[c])) return std::nullopt;
  }
  return a;
}

}  // namespace quern
