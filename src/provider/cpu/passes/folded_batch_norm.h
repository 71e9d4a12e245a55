// The scale and the bias of each channel that a BatchNormalization in inference comes to.
#pragma once

#include <optional>

#include "provider/cpu/passes/edit.h"
#include "tensor/tensor.h"

namespace quern::cpu {

struct FoldedBatchNorm {
  Tensor scale, bias;  // float32 [channels]: y = x * scale + bias
};

// scale = s / sqrt(var + epsilon), bias = b - mean * scale, computed in double. Nothing for other operators, other
// types than float32, inputs of unknown rank or without channels, parameters that are no constants, and what the CPU's
// operator rejects (training).
std::optional<FoldedBatchNorm> FoldBatchNorm(const Node& norm, const CpuConfig& config);

}  // namespace quern::cpu
