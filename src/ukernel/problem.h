// A matrix product as a problem, and what follows from it alone: what selection, packing and drivers ask alike.
// Kernel-safe.
#pragma once

#include <cstddef>

#include "ukernel/gemm.h"
#include "ukernel/layout.h"

namespace quern::ukernel {

// What is multiplied: [M, K] x [K, N] with K = segments * k. M is not part of it.
struct GemmProblem {
  Format lhs = Format::kF32;  // kF32 kF16 kBf16 kI8 kU8, or kI8d, kI8b: float32 rows, quantized at run time
  Format rhs = Format::kF32;  // of the source: kF32 kF16 kBf16 kI8 kU8 kU4 kI4 kU2 kQ4_0 kQ4_1 kQ8_0
  size_t n = 0;
  size_t k = 0;                       // per segment
  size_t segments = 1;                // taps of a convolution
  size_t block = 0;                   // block-quantized sources: elements along K per scale (GGUF: 32)
  Format scale = Format::kNone;       // of their scales: kF32 kF16 kBf16 (GGUF: kF16)
  Format zero_point = Format::kNone;  // kU8: integer zero points given; kF32: float zero points or minima
  bool channel_scales = false;        // kI8d by kI8, kU4, kI4 without blocks: float32 scale per output channel
  Precision precision = Precision::kFp32;
  size_t expected_m = 0;         // 0: unknown
  bool rhs_constant = true;      // else the right side is given at run time and packed (or read in place) per call
  bool rhs_contiguous = false;   // run-time right side: its columns are contiguous, so it may be read in place
  LhsForm lhs_form = kLhsRows;   // how the driver will address the left side
  bool allow_expansion = false;  // block-quantized weights may become float32 in memory (8 times larger)
  bool weights_stay = false;     // in caches from call to call, as those of a recurrence

  constexpr bool operator==(const GemmProblem&) const = default;
};

static constexpr bool IsBlockProblem(const GemmProblem& p) { return p.block != 0 || IsGguf(p.rhs); }
// Elements along K per scale; 0 without blocks.
static constexpr size_t BlockLength(const GemmProblem& p) { return IsGguf(p.rhs) ? kGgufBlock : p.block; }
static constexpr Format BlockScale(const GemmProblem& p) { return IsGguf(p.rhs) ? Format::kF16 : p.scale; }

// The right side as packers and geometry see it; vector_bytes of layouts with scaled units.
static constexpr RhsShape RhsShapeOf(const GemmProblem& p, size_t vector_bytes) {
  return {.k = p.k, .n = p.n, .segments = p.segments, .block = BlockLength(p), .vector_bytes = vector_bytes};
}

// The row computes with bf16 terms of float32 numbers, which not every number splits into.
static constexpr bool ComputesOnTerms(const GemmKernel& r) { return IsSplit(r.lhs) || IsSplit(r.consumed.element); }

// Bytes per cycle that one core reads at most of so many that are read again and again: from L2, L3 or memory. A level
// counts as half its size: other data is there too.
static constexpr double ReadBytesPerCycle(double bytes, const CpuFacts& cpu) {
  return bytes <= static_cast<double>(cpu.l2_bytes) / 2   ? cpu.l2_read
         : bytes <= static_cast<double>(cpu.l3_bytes) / 2 ? cpu.l3_read
                                                          : cpu.memory_read;
}

}  // namespace quern::ukernel
