// What the tiles of many rows by block-quantized weights have in common on Arm. For kernel files only.
#pragma once

#include "ukernel/gemm.h"

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr int kPassRows = 64;  // at most, in one call

// For 8 columns and 16 k of a row, two instructions a cycle: `products` cycles, those that scale blocks of 32, the
// scales of rows in blocks. Weights become bytes once for all rows, by instructions that few rows wait for.
constexpr GemmCost ArmBlockPassesCost(Format lhs, Format rhs, float products) {
  const float unpack = rhs == Format::kI8 ? 4 : rhs == Format::kU8 ? 8 : rhs == Format::kU2 ? 14 : 11.5f;
  float row = products + 0.25f;
  if (rhs != Format::kI4) row += 1.5f;
  if (lhs == Format::kI8b) row += 0.75f;
  return {.engine = Engine::kVector, .step_row = row, .step_min = unpack + 4 * row, .row = 12, .tile = 60};
}

}  // namespace
}  // namespace quern::ukernel
