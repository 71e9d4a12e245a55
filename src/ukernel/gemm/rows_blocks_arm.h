// Descriptors of the rows of block-quantized weights on Arm, alike for every instruction set. For kernel files only.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"
#include "ukernel/gemm/rows_blocks_passes.h"
#include "ukernel/layouts_arm.h"

namespace quern::ukernel {
namespace {

// rhs: kU2, kU4, kU8 or kI8 blocks, or kI4 (channels). Groups of 8 k go with pairs of dynamic rows. `cost` is for
// steps of 16 k.
constexpr GemmKernel ArmBlocksRow(const Isa& isa, Format lhs, Format rhs, uint16_t k_interleave, uint16_t mr,
                                  uint16_t nr, GemmCost cost, GemmRun run) {
  const bool channels = rhs == Format::kI4, lhs_blocks = lhs == Format::kI8b;
  const bool pairs = k_interleave == 8 && !lhs_blocks;
  GemmKernel row{.isa = isa,
                 .lhs = lhs,
                 .lhs_source = Format::kF32,
                 .rhs = rhs,
                 .dst = channels ? Format::kI32 : Format::kF32,
                 .precision = channels ? Precision::kExact : Precision::kFp32,
                 .mr = mr,
                 .nr = nr,
                 .kr = 16,
                 .lhs_forms = pairs ? kLhsPacked : kLhsRows,
                 .lhs_layout = lhs_blocks ? kI8bRows
                               : pairs    ? kI8dPairs
                                          : kI8dRows,
                 .block_divisor = 16,
                 .fused = channels ? kFusedI32 : kFusedProductF32,
                 .cost = cost,
                 .run = run};
  // The fewest k that lie together, or have a scale of the rows.
  if (lhs_blocks || (rhs == Format::kU2 && k_interleave == 8)) {
    row.kr = row.block_divisor = 32;
    row.cost.step_row *= 2;
    row.cost.step_load *= 2;
    row.cost.step_min *= 2;
  }
  // The order is that of preference, memory being equal.
  size_t i = 0;
  if (channels) {
    row.layouts[i++] = U4Channels(VectorScale::kFixed, 8, k_interleave);
  } else {
    for (Format offset : {Format::kNone, Format::kU8, Format::kF32}) {
      for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) {
        if (rhs == Format::kI8 && offset != Format::kNone) continue;
        row.layouts[i++] = ArmBlocks(rhs, k_interleave, scale, offset);
      }
    }
  }
  row.consumed = row.layouts[i - 1];
  return row;
}

// The tile of many rows.
constexpr GemmKernel ArmBlockPassesRow(const Isa& isa, Format lhs, Format rhs, uint16_t k_interleave, GemmCost cost,
                                       GemmRun run) {
  GemmKernel row = ArmBlocksRow(isa, lhs, rhs, k_interleave, kPassRows, 8, cost, run);
  row.scratch_bytes = static_cast<uint32_t>(RoundUp((2 * 8 + 1) * kPassRows * sizeof(int32_t), 64));
  return row;
}

// Two instructions a cycle: `products` cycles for 16 k of a row and 8 columns, and as much as two for the scaling of
// blocks of 32; the sums of the rows; the scales of rows in blocks; loads and unpacking of weights for all rows.
constexpr GemmCost ArmBlocksCost(Format lhs, Format rhs, int mr, int units, float products, float scaling) {
  const bool channels = rhs == Format::kI4, plain = rhs == Format::kI8;
  const float unpack = plain ? 2 : rhs == Format::kU2 ? 4.5f : 3;
  float row = products + unpack / static_cast<float>(mr);
  if (!plain) row += 0.5f;
  if (!channels) row += scaling;
  if (lhs == Format::kI8b) row += 0.75f;
  const float nu = static_cast<float>(units);
  return {.engine = Engine::kVector,
          .step_row = nu * row,
          .step_min = nu * (plain                ? 4
                            : rhs == Format::kU2 ? 7.0f
                                                 : 6),
          .row = nu * 3 + 4,
          .tile = 30};
}

template <size_t kCount>
struct ArmBlocksRows {
  GemmKernel rows[kCount];
};

}  // namespace
}  // namespace quern::ukernel
