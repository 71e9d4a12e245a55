// Products of int8 rows by block-quantized weights by TDPBSSD, for tile_amx_blocks.h: integer zero points come off the
// weights while they are unpacked, where the difference fits 8 bits. For kernel files of AMX-INT8 only.
#pragma once

#include "ukernel/gemm/tile_amx_blocks.h"

#if QUERN_ISA_HERE
#if QUERN_ISA_EMULATED
#include "ukernel/gemm/dot_blocks_portable.h"
#else
#include "ukernel/gemm/dot_blocks_avx512vnni.h"
#endif
#endif

namespace quern::ukernel {
namespace {

template <Format element, Format kLhs>
struct AmxDotI8 {
  static constexpr Format kElement = element;
#if QUERN_ISA_HERE
  using Bytes = BlockDot<element>;  // knows how to unpack weights and to sum rows
  using V = typename Bytes::V;
  using Int = typename V::Int;
  using Reg = typename V::Reg;
  static constexpr const amx::TileConfig& kConfig = amx::kHalfTiles;
  static constexpr bool kUnpacks = element != Format::kI8, kMinima = element != Format::kI8;
  static constexpr size_t kWeightBytes = 1, kLhsBlock = kLhs == Format::kI8b ? 32 : 0;
  static constexpr size_t kMostSums = kAmxStageK / 32;
  static constexpr size_t kTailBytes = kAmxStageK + 64;  // off a power of two
  static constexpr int kHalfLhs = 2, kHalfRhs = 4, kWholeLhs = 6, kWholeRhs = 7;

  // What the instruction's weights of 8 bits have less than those stored.
  static constexpr int kTurned = element == Format::kU8 ? 128 : 0;
  template <BlockZero kZeros>
  static constexpr bool kSumsRows = kZeros == BlockZero::kMinimum || (kTurned && kZeros == BlockZero::kInteger);

  template <int MR>
  struct Lhs {
    int32_t sums[MR][kMostSums];  // of the elements that the sums of a stage go over; kFloatSums: bits of float32
    int32_t totals[MR];           // of the sum that is not finished yet
    char tail[kAmxTile][kTailBytes];
    float tail_scales[kAmxTile][kMostSums];
  };
  static constexpr bool kFloatSums = kTurned == 0;

  // Rows of a tile, from the stage's first k on.
  struct Panel {
    const char* lhs;
    size_t stride;
    const char* scales;
    size_t scales_stride;
    const int32_t (*sums)[kMostSums];
  };

  static const char* Row(const void* first, const GemmArgs& a, size_t r) {
    return static_cast<const char*>(first) + static_cast<ptrdiff_t>(r) * a.lhs_row_stride;
  }
  static const float* RowScales(const GemmArgs& a, size_t r, size_t k) {
    return reinterpret_cast<const float*>(Row(a.lhs_scales, a, r)) + k / 32;
  }

  template <BlockZero kZeros, int MR>
  static void Prepare(const GemmArgs& a, Lhs<MR>& s, size_t k0, size_t count, size_t length) {
    for (size_t r = a.m / kAmxTile * kAmxTile; r < a.m; ++r) {  // whole tiles are read
      const char* from = Row(a.lhs, a, r) + k0;
      char* to = s.tail[r % kAmxTile];
      for (size_t k = 0; k < count; k += 32) {
        __builtin_memcpy(to + k, from + k, 32);
        if constexpr (kLhsBlock != 0) s.tail_scales[r % kAmxTile][k / 32] = *RowScales(a, r, k0 + k);
      }
    }
    if constexpr (kSumsRows<kZeros>) {
      const bool begins = k0 % length == 0;
      for (size_t r = 0; r < a.m; ++r) {
        if (begins) s.totals[r] = 0;
        SumRow(a, r, k0, count, length, s.sums[r], s.totals[r]);
      }
    }
  }

  static void SumRow(const GemmArgs& a, size_t r, size_t k0, size_t count, size_t length, int32_t* sums,
                     int32_t& total) {
    int32_t pieces[kMostSums] = {};
    Bytes::SumPieces(Row(a.lhs, a, r) + k0, count / 32, 32, pieces);
    const size_t end = count / 32, per_sum = length / 32;
    if (per_sum == 1) {
      for (size_t i = 0; i < kMostSums; ++i) sums[i] = pieces[i];
    } else {
      for (size_t i = 0, n = 0; i < end; ++n) {
        const size_t next = end - i < per_sum ? end : i + per_sum;
        if (n) total = 0;
        for (; i < next; ++i) total += pieces[i];
        sums[n] = total;
      }
    }
    if constexpr (kFloatSums) {
      const float* scales = kLhsBlock ? RowScales(a, r, k0) : nullptr;
      for (size_t i = 0; i < (kLhsBlock ? end : kMostSums); ++i) {
        float x = static_cast<float>(sums[i]);
        if constexpr (kLhsBlock != 0) x *= scales[i];
        __builtin_memcpy(sums + i, &x, sizeof(x));
      }
    }
  }

  template <int MR>
  static Panel At(const GemmArgs& a, const Lhs<MR>& s, size_t r0, size_t k0) {
    const int32_t(*sums)[kMostSums] = s.sums + r0;
    if (a.m - r0 < kAmxTile) {
      const char* scales = reinterpret_cast<const char*>(s.tail_scales);
      return {s.tail[0], kTailBytes, scales, sizeof(s.tail_scales[0]), sums};
    }
    const size_t stride = static_cast<size_t>(a.lhs_row_stride);
    const char* scales = kLhsBlock ? reinterpret_cast<const char*>(RowScales(a, r0, k0)) : nullptr;
    return {Row(a.lhs, a, r0) + k0, stride, scales, stride, sums};
  }

  template <BlockZero kZeros>
  QUERN_INLINE static void Unpack(const char* from, Int zeros, char* to) {
    Int w[8];
    LoadWeightBytes<Bytes>(from, w);
    if constexpr (kZeros != BlockZero::kMinimum) CenterBytes<Bytes, kZeros>(zeros, w);
    QUERN_UNROLL for (int g = 0; g < 8; ++g) {
      V::StoreInt(reinterpret_cast<int32_t*>(to + 64 * g), kTurned ? V::TurnTopBits(w[g]) : w[g]);
    }
  }

  template <int C>
  QUERN_INLINE static void Dots(const Panel& p, const char* weights, size_t k, size_t length) {
    const char* lhs = p.lhs + k;
    const char* rhs = weights + k * kAmxTile;
    for (; length >= 64; length -= 64, lhs += 64, rhs += 64 * kAmxTile) {
      amx::Load<kWholeRhs>(rhs, 64);
      amx::Load<kWholeLhs>(lhs, p.stride);
      amx::DotI8<C, kWholeLhs, kWholeRhs>();
    }
    if (length) {
      amx::Load<kHalfRhs + C>(rhs, 64);
      amx::Load<kHalfLhs + C>(lhs, p.stride);
      amx::DotI8<C, kHalfLhs + C, kHalfRhs + C>();
    }
  }

  template <BlockZero kZeros, class Acc>
  QUERN_INLINE static void Scale(const int32_t* sums, const Panel& p, size_t i, const AmxColumns<V>& columns,
                                 Acc& acc) {
    QUERN_UNROLL for (int v = 0; v < AmxColumns<V>::kVectors; ++v) {
      Int zero = V::Set1Int(128);
      if constexpr (kTurned && kZeros == BlockZero::kInteger) zero = V::SubInt(zero, columns.zero[v]);
      QUERN_UNROLL for (int r = 0; r < static_cast<int>(kAmxTile); ++r) {
        Int sum = V::LoadInt(sums + r * static_cast<int>(kAmxTile) + v * V::kLanes);
        if constexpr (kTurned && kSumsRows<kZeros>) {
          sum = V::AddInt(sum, V::MulInt(zero, V::Set1Int(p.sums[r][i])));
        }
        Reg scale = columns.scale[v];
        if constexpr (kLhsBlock != 0) {
          const char* d = p.scales + static_cast<size_t>(r) * p.scales_stride;
          scale = V::Mul(V::Broadcast(reinterpret_cast<const float*>(d) + i), scale);
        }
        acc[r][v] = V::Add(acc[r][v], V::Mul(V::ToFloat(sum), scale));
        if constexpr (kZeros == BlockZero::kMinimum) {
          const int32_t* total = &p.sums[r][i];
          const Reg q =
              kFloatSums ? V::Broadcast(reinterpret_cast<const float*>(total)) : V::ToFloat(V::Set1Int(*total));
          acc[r][v] = V::Add(acc[r][v], V::Mul(q, columns.minimum[v]));
        }
      }
    }
  }
#endif
};

// A product of 16 x 16 x 32 takes 16 cycles, as one of 64 k does, but what bounds a block of 32 are the three
// operations on each vector of its sums (four with scales of the rows): 24 (32) cycles on two ports, a tenth more for
// what does not overlap. Unpacking takes about 10 cycles for each unit and 32 k.
template <Format element, Format kLhs>
constexpr GemmKernel AmxI8BlocksRow() {
  constexpr int kRows = 64, kColumns = 32, kUnits = kColumns / 16;
  constexpr float kTile = kLhs == Format::kI8b ? 35 : 26, kUnpack = element == Format::kI8 ? 0 : 10;
  return AmxBlocksRow<AmxDotI8<element, kLhs>, kRows, kColumns>(kLhs,
                                                                {.step_row = kUnits * (kTile / 16 + kUnpack / kRows),
                                                                 .step_min = kUnits * (kTile + kUnpack),
                                                                 .row = 12,
                                                                 .tile = 120});
}

}  // namespace
}  // namespace quern::ukernel
