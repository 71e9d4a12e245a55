// A few float32 rows by block-quantized weights on x86, by dot products of bytes: each 32 elements of a row become
// integers of 24 bits times a power of two, and these three signed bytes each. Products and their sums within a block
// are exact; what is left out of an element is at most 2^-23 of the largest beside it, less than a loop of
// multiply-adds rounds. For kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/gemm/tile_blocks.h"
#include "ukernel/gemm/tile_f32_blocks_few.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr int kSplitTerms = 3;
[[maybe_unused]] constexpr size_t kSplitBlock = 32;

// The bits of the largest magnitude of n elements.
inline uint32_t LargestBits(const float* x, size_t n) {
  uint32_t most = 0;
  QUERN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return most;
}

// A block as bytes of three rows `pitch` apart, and their scales likewise; false where it cannot be split: not all are
// numbers, or the largest is so small that its scale would not have full precision.
inline bool SplitBlock(const float* x, char* rows, char* scales, size_t pitch) {
  constexpr uint32_t kInfinity = 0x7f800000u, kLeast = 27u << 23;  // 2^-100
  const uint32_t most = LargestBits(x, kSplitBlock);
  if (most >= kInfinity || (most != 0 && most < kLeast)) return false;
  // The largest integer whose bytes are all signed ones is 127 * 0x10101: numbers above it count in the next binary
  // order.
  const uint32_t exponent = (most + 0x10101u) >> 23;
  const float to_integer = most ? __builtin_bit_cast(float, (276 - exponent) << 23) : 0.0f;
  const auto row = [&](size_t t) { return reinterpret_cast<uint8_t*>(rows + t * pitch); };
  uint8_t *const low = row(0), *const middle = row(1), *const high = row(2);
  QUERN_INDEPENDENT
  for (size_t i = 0; i < kSplitBlock; ++i) {
    // Bytes from -128 on, counted from 0: none borrows from the next.
    const auto q = static_cast<uint32_t>(static_cast<int32_t>(__builtin_nearbyintf(x[i] * to_integer)) + 0x808080);
    const uint32_t bytes = q ^ 0x808080u;
    low[i] = static_cast<uint8_t>(bytes);
    middle[i] = static_cast<uint8_t>(bytes >> 8);
    high[i] = static_cast<uint8_t>(bytes >> 16);
  }
  for (uint32_t t = 0; t < kSplitTerms; ++t) {
    StoreAs(scales + t * pitch, most ? __builtin_bit_cast(float, (exponent - 22 + 8 * t) << 23) : 0.0f);
  }
  return true;
}

// D: the dot products of a TileBlocks; kOtherwise computes rows that cannot be split.
template <class D, int MR, int NR, GemmRun kOtherwise>
struct F32BlocksSplit {
  static constexpr int kRows = 12;  // that a stage of K has room for: 4096 k of three, 2048 of six
  using Tile = TileBlocks<D, Format::kI8b, false, kRows, NR, kSplitTerms>;
  using V = typename D::V;
  using Accumulators = BlockAccumulators<V, false, MR, NR>;
  static_assert(MR * kSplitTerms <= kRows);

  template <int R>
  static constexpr size_t kStage = FewRows<Tile, R>::kStaged * kSplitBlock;
  // Bytes from row to row: a stage and its scales, and a line, so that rows fall into sets of L1 of their own.
  template <int R>
  static constexpr size_t kPitch = kStage<R> + kStage<R> / kSplitBlock * sizeof(float) + 64;

  struct Scratch {
    typename Tile::Scratch tile;
    alignas(64) char rows[kSplitTerms * MR * kPitch<kSplitTerms * MR>];
  };
  static_assert(kSplitTerms * kPitch<kSplitTerms> <= sizeof(Scratch::rows));

  // R / kSplitTerms rows over [k0, k0 + count); false where one cannot be split.
  template <int R>
  static bool Stage(const GemmArgs& a, size_t k0, size_t count, char* rows) {
    for (size_t r = 0; r < R / kSplitTerms; ++r) {
      const auto* x = reinterpret_cast<const float*>(static_cast<const char*>(a.lhs) +
                                                     static_cast<ptrdiff_t>(r) * a.lhs_row_stride);
      char* to = rows + r * kSplitTerms * kPitch<R>;
      for (size_t k = 0; k < count; k += kSplitBlock) {
        const float* from = x + k0 + k;
        float last[kSplitBlock] = {};
        if (k0 + k + kSplitBlock > a.k) {
          for (size_t i = 0; k0 + k + i < a.k; ++i) last[i] = from[i];
          from = last;
        }
        char* scales = to + kStage<R> + k / kSplitBlock * sizeof(float);
        if (!SplitBlock(from, to + k, scales, kPitch<R>)) return false;
      }
    }
    return true;
  }

  // False as Stage.
  template <int R, bool kWhole, BlockZero kZeros>
  static bool Product(const GemmArgs& a, Scratch& s) {
    using Few = FewRows<Tile, R>;
    constexpr int kGroups = kSplitBlock / 4;
    GemmArgs part = a;
    part.m = R;
    part.lhs = s.rows;
    part.lhs_row_stride = kPitch<R>;
    part.lhs_scales = s.rows + kStage<R>;
    for (size_t i = 0; !kWhole && i < R * NR; i += V::kLanes) V::StoreInt(s.tile.ints + i, V::ZeroInt());
    const size_t end = RoundUp(a.k, kSplitBlock);
    for (size_t k0 = 0; k0 < end; k0 += kStage<R>) {
      const size_t count = end - k0 < kStage<R> ? end - k0 : kStage<R>;
      if (!Stage<R>(a, k0, count, s.rows)) return false;
      if constexpr (Tile::template kSubtracts<kZeros> || kZeros == BlockZero::kMinimum) {
        Tile::template Sums<kZeros, Few::kStaged>(part, s.tile, k0, count, kSplitBlock);
      }
      for (size_t n = 0; n < a.n; n += V::kUnit) {
        Few::template Unit<kGroups, kWhole, kZeros>(part, s.tile, n, k0, count);
      }
    }
    return true;
  }

  template <int R, BlockZero kZeros>
  static bool Products(const GemmArgs& a, Scratch& s) {
    return a.block == kSplitBlock ? Product<R, true, kZeros>(a, s) : Product<R, false, kZeros>(a, s);
  }

  template <int R>
  static bool Sums(const GemmArgs& a, Scratch& s) {
    if (a.rhs_offset == Format::kF32) return Products<R, BlockZero::kMinimum>(a, s);
    if (a.rhs_offset == Format::kU8) return Products<R, BlockZero::kInteger>(a, s);
    return Products<R, BlockZero::kConstant>(a, s);
  }

  static void Run(const GemmArgs& a) {
    auto& s = *static_cast<Scratch*>(a.scratch);
    auto* sums = reinterpret_cast<int32_t*>(s.tile.floats);
    PrefetchColumnOperands(a);
    Accumulators::Start(a, sums);
    static_assert(MR <= 2);
    const bool splits = a.m == 1 ? Sums<kSplitTerms>(a, s) : Sums<MR * kSplitTerms>(a, s);
    if (!splits) return kOtherwise(a);
    Accumulators::Finish(a, sums);
  }
};

// The descriptor of such a row; `few` is that of kOtherwise. Split: F32BlocksSplit.
template <class Split>
constexpr GemmKernel F32BlocksSplitRow(GemmKernel few) {
  few.kr = kSplitBlock;
  few.block_divisor = kSplitBlock;
  few.one_tile = true;
  few.sum_order = SumOrder::kSplitBlocks;
  const auto bytes = static_cast<uint32_t>(RoundUp(sizeof(typename Split::Scratch), 64));
  if (few.scratch_bytes < bytes) few.scratch_bytes = bytes;
  return few;
}

}  // namespace
}  // namespace quern::ukernel
