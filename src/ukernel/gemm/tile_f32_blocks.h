// The tile of float32 rows by block-quantized weights: weights become float32 in registers, for few rows (on x86 that
// of tile_f32_blocks_few.h). For kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/tile_fma.h"

namespace quern::ukernel {
namespace {

// acc = acc + scale * (sum of x * (q - zero)) for each block, then + minimum * (sum of x) where the weights have float
// offsets; sums by FMA in several parts.
//
// V has float32 and int32 lanes (vector_i32_*.h).
template <class V, Format kElement, int MR, int NU>
struct TileF32Blocks : TileEpilogue<V, MR, NU> {
  using Base = TileEpilogue<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  using typename Base::Acc;
  using typename Base::Reg;
  using Int = typename V::Int;

  static constexpr int kBits = static_cast<int>(FormatBits(kElement));
  static constexpr int kPerLine = 32 / kBits;     // k of a unit in a line
  static constexpr size_t kLine = V::kUnit * 4;   // bytes
  static constexpr int kLhsBlock = V::kLhsBlock;  // k values of a row that are loaded at once, if more than one
  // Few sums wait for each other's latency, more do not fit beside the weights where registers are 16.
  static constexpr bool kManyRegisters = kLhsBlock > 1;  // NEON
  static constexpr int kMostSums = kManyRegisters ? 8 : kBits > 2 ? 4 : 1;
  static constexpr int kSets = 4 * MR * kVectors <= kMostSums ? 4 : 2 * MR * kVectors <= kMostSums ? 2 : 1;
  // As stored; int8 has its top bit turned over, which makes it unsigned.
  static constexpr float kZero = static_cast<float>(1 << (kBits - 1));

  template <int I>
  QUERN_INLINE static void Steps(Acc (&sum)[kSets], const Int (&line)[kVectors], const Reg (&zero)[kVectors],
                                 Reg (&left)[MR], const float* x, size_t stride) {
    if constexpr (I < kPerLine) {
      if constexpr (kLhsBlock > 1 && I % kLhsBlock == 0) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) left[r] = V::Load(x + static_cast<size_t>(r) * stride + I);
      }
      Reg w[kVectors];
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        constexpr int kShift = I % 4 * 8 + I / 4 * kBits;
        w[v] = V::Sub(V::template Number<kShift, kBits>(line[v]), zero[v]);
      }
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        Reg* to = sum[I % kSets][r];
        if constexpr (kLhsBlock > 1) {
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
            to[v] = V::template FmaLane<I % kLhsBlock>(to[v], w[v], left[r]);
          }
        } else {
          const Reg y = V::Broadcast(x + static_cast<size_t>(r) * stride + I);
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) to[v] = V::Fma(y, w[v], to[v]);
        }
      }
      Steps<I + 1>(sum, line, zero, left, x, stride);
    }
  }

  // A line of each unit, against kPerLine k at x.
  QUERN_INLINE static void Line(Acc (&sum)[kSets], const char* const (&weights)[kVectors], const Reg (&zero)[kVectors],
                                const float* x, size_t stride) {
    Int line[kVectors];
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      line[v] = V::LoadInt(reinterpret_cast<const int32_t*>(weights[v]));
      if (V::kPrefetch) __builtin_prefetch(weights[v] + V::kPrefetch);
      if constexpr (kElement == Format::kI8) line[v] = V::TurnTopBits(line[v]);
    }
    Reg left[MR];
    Steps<0>(sum, line, zero, left, x, stride);
  }

  static float SumOf(const float* x, size_t count) {
    constexpr size_t kParts = 8;
    float part[kParts] = {};
    size_t k = 0;
    for (; k + kParts <= count; k += kParts) {
      for (size_t i = 0; i < kParts; ++i) part[i] += x[k + i];
    }
    for (size_t i = 0; k < count; ++k, ++i) part[i] += x[k];
    for (size_t i = 1; i < kParts; ++i) part[0] += part[i];
    return part[0];
  }

  static void Run(const GemmArgs& a) {
    const typename Base::Tail tail = Base::MakeTail(a.n);
    Acc acc;
    if (a.first_k) {
      Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    } else {
      Base::Read(a.acc, a.acc_row_stride, acc, tail);
    }
    const auto* lhs = static_cast<const float*>(a.lhs);
    const size_t stride = static_cast<size_t>(a.lhs_row_stride) / sizeof(float);
    size_t unit[kVectors];
    const char* weights[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      unit[v] = static_cast<size_t>(v / kPerUnit) * a.rhs_unit_stride;
      weights[v] = static_cast<const char*>(a.rhs) + unit[v] + v % kPerUnit * V::kLanes * 4;
    }
    for (size_t k = 0, block = 0; k < a.k; k += a.block, ++block) {
      const size_t count = a.k - k < a.block ? a.k - k : a.block;
      Reg scale[kVectors], zero[kVectors], minimum[kVectors];
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const size_t at = block * V::kUnit + v % kPerUnit * V::kLanes;
        const char* scales = static_cast<const char*>(a.rhs_scales) + unit[v];
        scale[v] = V::LoadScale(scales + at * FormatBytes(a.rhs_scale), a.rhs_scale);
        const char* offsets = static_cast<const char*>(a.rhs_offsets) + unit[v];
        zero[v] = minimum[v] = V::Zero();
        if (a.rhs_offset == Format::kU8) {
          zero[v] = V::ToFloat(V::LoadZeros(offsets + at));
        } else if (a.rhs_offset == Format::kF32) {
          minimum[v] = V::Load(reinterpret_cast<const float*>(offsets) + at);
        } else {
          zero[v] = V::Set1(kZero);
        }
      }
      Acc sum[kSets];
      QUERN_UNROLL for (int s = 0; s < kSets; ++s) Base::Each([&](int r, int v) { sum[s][r][v] = V::Zero(); });
      const float* x = lhs + k;
      const char* at[kVectors];
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) at[v] = weights[v] + k / kPerLine * kLine;
      size_t left = count;
      for (; left >= kPerLine; left -= kPerLine, x += kPerLine) {
        Line(sum, at, zero, x, stride);
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) at[v] += kLine;
      }
      if (left) {  // rows end here
        float rest[MR][kPerLine] = {};
        for (size_t i = 0; i < left; ++i) {
          for (int r = 0; r < MR; ++r) rest[r][i] = x[static_cast<size_t>(r) * stride + i];
        }
        Line(sum, at, zero, rest[0], kPerLine);
      }
      QUERN_UNROLL for (int s = 1; s < kSets; ++s) {
        Base::Each([&](int r, int v) { sum[0][r][v] = V::Add(sum[0][r][v], sum[s][r][v]); });
      }
      Base::Each([&](int r, int v) { acc[r][v] = V::Fma(sum[0][r][v], scale[v], acc[r][v]); });
      if (a.rhs_offset == Format::kF32) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          const Reg total = V::Set1(SumOf(lhs + static_cast<size_t>(r) * stride + k, count));
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = V::Fma(total, minimum[v], acc[r][v]);
        }
      }
    }
    if (a.last_k) {
      Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

// The body for the call's m and number of units.
template <class V, Format kElement, int MR, int NU>
void DispatchTileF32Blocks(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * V::kUnit)) return DispatchTileF32Blocks<V, kElement, MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileF32Blocks<V, kElement, MR - 1, NU>(a);
  }
  TileF32Blocks<V, kElement, MR, NU>::Run(a);
}

// The descriptor of a row that reads the blocks themselves, or, if `expanded`, float32 that a block transform made.
constexpr GemmKernel F32BlocksRow(Format rhs, uint16_t mr, uint16_t nr, bool expanded, GemmCost cost, GemmRun run) {
  GemmKernel row = TileF32Row(kF32x16, mr, nr, cost, run);
  row.rhs = rhs;
  row.lhs_forms = kLhsRows;
  row.block_divisor = 16;
  size_t i = 0;
  if (rhs == Format::kI8) {
    for (Format scale : {Format::kF16, Format::kBf16, Format::kF32}) row.layouts[i++] = Blocks8x16(scale);
  } else {
    for (Format offset : {Format::kNone, Format::kU8, Format::kF32}) {
      for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) {
        row.layouts[i++] = UnsignedBlocks16(rhs, scale, offset);
      }
    }
  }
  if (!expanded) {
    row.consumed = row.layouts[0];
    row.kr = static_cast<uint16_t>(32 / FormatBits(rhs));
  }
  return row;
}

}  // namespace
}  // namespace quern::ukernel
