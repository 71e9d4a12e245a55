// What block-quantized weights stand for zero by. Kernel-safe.
#pragma once

#include <cstdint>

namespace quern::ukernel {

// What weights have too much: a constant, an integer of each block, or what a minimum of each block stands for.
enum class BlockZero : uint8_t { kConstant, kInteger, kMinimum };

}  // namespace quern::ukernel
