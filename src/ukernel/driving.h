// What every driver of a row has to respect: where blocks of K may begin, which operations stay with the driver, and
// those that products of dynamic rows need first. Kernel-safe.
#pragma once

#include <cstddef>
#include <numeric>

#include "ukernel/epilogue.h"
#include "ukernel/gemm.h"
#include "ukernel/layout.h"

namespace quern::ukernel {

// Blocks of K begin at multiples of this; `block` elements per scale of the resident layout.
static constexpr size_t KGrain(const GemmKernel& row, const PackLayout& layout, size_t block) {
  size_t grain = std::lcm(std::lcm(RhsGroup(layout), RhsGroup(row.consumed)), size_t{row.kr});
  if (layout.scale != Format::kNone && block) grain = std::lcm(grain, block);
  if (row.lhs_layout.element != Format::kNone) {
    grain = std::lcm(grain, size_t{row.lhs_layout.k_interleave});
    if (FormatTerms(row.lhs_layout.element) > 1) grain = std::lcm(grain, size_t{row.lhs_layout.k_multiple});
  }
  return grain;
}

// What a block transform makes: the vectors after the units are read where they are resident.
static constexpr PackLayout PanelLayout(const GemmKernel& row) {
  PackLayout l = row.consumed;
  l.sums = l.bias = Format::kNone;
  l.channel_scales = false;
  return l;
}

// Length of the prefix of the ops that the row runs.
static constexpr size_t FusedLength(const GemmKernel& row, const EpilogueOp* ops, size_t count) {
  size_t fused = FusedPrefix(row.fused, ops, count);
  if (fused == count) return fused;
  // Reductions see the number before it is stored: where they stay with the driver, so does the conversion.
  while (fused > 0 && (ops[fused - 1].kind == EpilogueKind::kRequantize ||
                       ops[fused - 1].kind == EpilogueKind::kConvert || IsReduction(ops[fused - 1].kind))) {
    --fused;
  }
  return fused;
}

// Kinds of the ops that turn products of dynamic rows into real numbers, which run before all others (numerics.md):
// (acc - zero*sums) / scale [* channel scale]. Returns their number, 0 for other rows.
static constexpr size_t DynamicOps(const GemmKernel& row, const PackLayout& layout, EpilogueOp* out) {
  if (row.lhs != Format::kI8d) return 0;
  out[0].kind = EpilogueKind::kAddOuter;
  out[1].kind = EpilogueKind::kDivVectorM;
  if (!layout.channel_scales) return 2;
  out[2].kind = EpilogueKind::kMulVectorN;
  return 3;
}

}  // namespace quern::ukernel
