// In which order rows of products add up: what docs/kernels.md says and tests of the rows compare with. Tests only.
#pragma once

#include <cstring>

#include "ukernel/gemm.h"

namespace quern::ukernel {

struct SumOrderText {
  const char* name;
  const char* text;
};

inline SumOrderText TextOf(SumOrder order) {
  switch (order) {
    case SumOrder::kExact:
      return {"exact", "integers of 32 bits: the order does not matter"};
    case SumOrder::kIntegerBlocks:
      return {"integer blocks",
              "integers within a block of weights (and 32 k of `i8b` rows); then, blocks in the order of K, times the "
              "scale and added to a float32 sum, each rounded: the same bits on every ISA"};
    case SumOrder::kInOrder:
      return {"in order",
              "one sum per element, k after k, by fused multiply-add (portable rows round the product too)"};
    case SumOrder::kInterleaved:
      return {"interleaved",
              "as in order where a call has 8 vectors of results or more; with fewer two sums of every second k, with "
              "fewer than 4 four of every fourth, added up at the end of K or of a tap"};
    case SumOrder::kPairs:
      return {"pairs", "one float32 sum per element, to which the sum of the products of two neighbouring k is added"};
    case SumOrder::kChains:
      return {"chains",
              "float32 sums of 256 k each, which are added up; within one as interleaved, pairs of k in turn"};
    case SumOrder::kOddFirstChains:
      return {"odd-first chains",
              "as chains, but of each pair of k the odd one first (VDPBF16PS; denormals count as zero)"};
    case SumOrder::kApartChains:
      return {"split chains", "as chains, but even and odd k are summed apart and added at the end of each 256 k"};
    case SumOrder::kHalfChains:
      return {"half chains",
              "float16 sums of 32 k each, which are added up in float32; within one as split chains on AVX512-FP16, in "
              "order on NEON"};
    case SumOrder::kHalves:
      return {
          "halves",
          "two float32 sums, each over one half of a call's K, of 4 k (BFMMLA) or 2 (BFMOPA) at once, whose rounding "
          "is the instruction's own"};
    case SumOrder::kOtherPairs:
      return {"other pairs",
              "two float32 sums, of the first and of the second pair of each 4 k, by BFDOT, whose rounding is its own"};
    case SumOrder::kThirtyTwo:
      return {"32 apart",
              "one float32 sum per element and K block, which are added up; of each 32 k the even and the odd ones are "
              "summed "
              "apart and added to it, with two terms for each product of terms in turn, that of the largest ones last; "
              "with "
              "three the products of the largest ones follow those of all others of the K block"};
    case SumOrder::kBlocks:
      return {
          "blocks",
          "1, 2 or 4 interleaved float32 sums over a block of weights by fused multiply-add; those times the scale by "
          "another, blocks in the order of K"};
    case SumOrder::kPieces:
      return {
          "pieces",
          "as blocks, but 2 or 4 sums over 32 k of a block (16 where blocks are no multiple of 32); by 2-bit weights "
          "without zero points of their own on AVX-512, for one or two rows, over two k that are 4 apart"};
    case SumOrder::kTermBlocks:
      return {"term blocks",
              "over a block of weights as 32 apart, three terms by exact integers; then times the scale by fused "
              "multiply-add, blocks in the order of K"};
    case SumOrder::kSplitBlocks:
      return {"split blocks",
              "each 32 elements of a row as integers of 24 bits times a power of two: sums of their products by a "
              "block's numbers are exact; then times both scales by fused multiply-add, in the order of K. Rows as "
              "pieces where elements are no numbers, or the largest of 32 is below 2^-100 and not 0"};
    case SumOrder::kOfItsKind:
    case SumOrder::kCount:
      break;
  }
  return {"?", ""};
}

// As the row says, else what rows of its ISA and types do.
inline SumOrder SumOrderOf(const GemmKernel& r) {
  if (r.sum_order != SumOrder::kOfItsKind) return r.sum_order;
  const auto is = [&](const char* isa) { return std::strncmp(r.isa.name, isa, std::strlen(isa)) == 0; };
  const bool blocks = FormatBits(r.rhs) <= 8, packed = r.lhs_forms & kLhsPacked;
  if (r.dst == Format::kI32) return SumOrder::kExact;
  if (IsDynamic(r.lhs)) return SumOrder::kIntegerBlocks;
  if (r.lhs == Format::kBf16x2 || r.lhs == Format::kBf16x3)
    return blocks ? SumOrder::kTermBlocks : SumOrder::kThirtyTwo;
  if (is("amx")) return SumOrder::kThirtyTwo;
  if (r.precision == Precision::kFp16) return SumOrder::kHalfChains;
  if (r.precision == Precision::kBf16) return packed ? SumOrder::kHalves : SumOrder::kOtherPairs;
  if (is("sme")) return r.lhs == Format::kF16 ? SumOrder::kPairs : SumOrder::kInOrder;
  if (blocks && r.consumed.element != Format::kF32) {
    return is("avx") ? SumOrder::kPieces : SumOrder::kBlocks;
  }
  if (is("sve") || is("neon")) return SumOrder::kInOrder;
  if (r.kr == 1) return SumOrder::kInterleaved;
  if (is("avx512bf16")) return SumOrder::kOddFirstChains;
  return r.rhs == Format::kF16 && !r.isa.any_arch ? SumOrder::kApartChains : SumOrder::kChains;
}

}  // namespace quern::ukernel
