#include "provider/cpu/passes/folded_batch_norm.h"

#include <array>
#include <cmath>

#include "provider/cpu/common/constants.h"

namespace quern::cpu {
namespace {

// The four parameters, or nothing when they are of another kind.
std::optional<std::array<const Tensor*, 4>> Parameters(const Node& norm) {
  std::array<const Tensor*, 4> p{};
  for (int i = 0; i < 4; ++i) {
    const Tensor* t = ConstantTensor(norm.input(i + 1));
    if (!t || t->dtype() != DType::kF32 || !t->is_contiguous() || t->rank() != 1) return std::nullopt;
    p[static_cast<size_t>(i)] = t;
  }
  return p;
}

}  // namespace

std::optional<FoldedBatchNorm> FoldBatchNorm(const Node& norm, const CpuConfig& config) {
  if (!norm.Is("BatchNormalization") || norm.input(0)->type().dtype != DType::kF32 ||
      !norm.input(0)->type().has_rank() || norm.input(0)->type().rank() < 2) {
    return std::nullopt;
  }
  if (!FindCpuOp("", "BatchNormalization")->reject(norm, config).empty()) return std::nullopt;
  const auto p = Parameters(norm);
  if (!p) return std::nullopt;
  const int64_t channels = (*p)[0]->num_elements();
  const float epsilon = norm.GetFloat("epsilon", 1e-5f);
  FoldedBatchNorm folded{.scale = Tensor::Allocate(DType::kF32, Shape{channels}).value(),
                         .bias = Tensor::Allocate(DType::kF32, Shape{channels}).value()};
  for (int64_t c = 0; c < channels; ++c) {
    const auto of = [&](size_t i) { return static_cast<double>((*p)[i]->data<float>()[c]); };
    const double factor = of(0) / std::sqrt(of(3) + static_cast<double>(epsilon));
    folded.scale.data<float>()[c] = static_cast<float>(factor);
    folded.bias.data<float>()[c] = static_cast<float>(of(1) - of(2) * factor);
  }
  return folded;
}

}  // namespace quern::cpu
