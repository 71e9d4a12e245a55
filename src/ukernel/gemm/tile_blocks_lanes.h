// The register tile of dynamic int8 rows by block-quantized weights on NEON: the dot products of tile_i8_lanes.h within
// a block, float32 over blocks in the order of K, the same bits as tile_blocks.h. For kernel files only: everything has
// internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/tile_i8_lanes.h"

namespace quern::ukernel {
namespace {

// acc = acc + float(sum of q * (w - zero)) * scale for each block, then + float(sum of q) * minimum where the weights
// have float offsets; every operation rounds on its own. Nibbles are multiplied as they are stored; their zero points
// come off by the sums of the rows. Rows are read up to a multiple of 16 k, where they hold zeros.
template <class D, int MR, int NU, bool kNibbles>
struct TileBlocksLanes : TileEpilogueI32<typename D::V, MR, NU> {
  using V = typename D::V;
  using Base = TileEpilogueI32<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  using typename Base::Acc;
  using typename Base::Int;
  using typename Base::Reg;
  using typename Base::Tail;

  static constexpr int kStepK = 16;
  static constexpr int kGroups = kStepK / D::kGroup;
  static constexpr int kBlocks = (MR + D::kRows - 1) / D::kRows;  // an odd last row is computed twice
  static constexpr int kWeights = NU * D::kWeights;
  static constexpr size_t kStepBytes = kStepK * V::kUnit / (kNibbles ? 2 : 1);  // of a unit
  static constexpr int kRows = kBlocks * D::kRows;
  static constexpr size_t kSpread = D::kPairs ? D::kRows : 1;  // bytes from k to k
  static constexpr int kPerVector = kWeights * D::kSums / kVectors;

  struct Sums {
    Int dots[kBlocks][kWeights * D::kSums];
    Int rows[kBlocks][D::kSums];  // over the elements of the rows themselves
  };
  struct Rows {
    const char* p[kRows];
  };

  QUERN_INLINE static void Step(Sums& sums, const Rows& rows, size_t k, const char* rhs, size_t unit_stride) {
    typename D::X x[kBlocks];
    QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
      const char* p[D::kRows];
      QUERN_UNROLL for (int r = 0; r < D::kRows; ++r) p[r] = rows.p[b * D::kRows + r] + k * kSpread;
      x[b] = D::Load(p, kGroups);
    }
    const auto multiply = [&](int w, int8x16_t weights, int g) __attribute__((always_inline)) {
      QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) D::Dot(sums.dots[b] + w * D::kSums, x[b], weights, g);
    };
    QUERN_UNROLL for (int g = 0; g < kGroups; g += kNibbles ? 2 : 1) {
      QUERN_UNROLL for (int w = 0; w < kWeights; ++w) {
        const int line = (kNibbles ? g / 2 : g) * D::kWeights + w % D::kWeights;
        const char* from = rhs + static_cast<size_t>(w / D::kWeights) * unit_stride + line * 16;
        const int8x16_t bytes = D::LoadWeights(from);
        if constexpr (kNibbles) {
          multiply(w, vandq_s8(bytes, vdupq_n_s8(15)), g);
          multiply(w, vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(bytes), 4)), g + 1);
        } else {
          multiply(w, bytes, g);
        }
      }
    }
    if constexpr (kNibbles) {
      QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) D::AddRow(sums.rows[b], x[b]);
    }
  }

  static Reg LoadScale(const char* p, Format format) {
    if (format == Format::kF32) return vld1q_f32(reinterpret_cast<const float*>(p));
    uint16x4_t half;
    __builtin_memcpy(&half, p, sizeof(half));
    if (format == Format::kF16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
  }
  static Int LoadZeros(const char* p) {
    uint32_t four;
    __builtin_memcpy(&four, p, 4);
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(four));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
  }

  // Scales the sums of a block; offsets and scales of the unit's columns at `column`.
  QUERN_INLINE static void Finish(const GemmArgs& a, size_t block, const Sums& sums, Acc& acc) {
    Int row_sum[MR];
    if constexpr (kNibbles) {
      QUERN_UNROLL for (int r = 0; r < MR; ++r) row_sum[r] = D::RowSum(sums.rows[r / D::kRows], r % D::kRows);
    }
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const size_t unit = static_cast<size_t>(v / kPerUnit) * a.rhs_unit_stride;
      const size_t column = block * V::kUnit + v % kPerUnit * V::kLanes;
      const char* scales = static_cast<const char*>(a.rhs_scales) + unit;
      const char* offsets = static_cast<const char*>(a.rhs_offsets) + unit;
      const Reg scale = LoadScale(scales + column * FormatBytes(a.rhs_scale), a.rhs_scale);
      Int zero = vdupq_n_s32(a.rhs_offset == Format::kF32 ? 0 : 8);
      if (kNibbles && a.rhs_offset == Format::kU8) zero = LoadZeros(offsets + column);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        Int sum = D::Reduce(sums.dots[r / D::kRows] + v * kPerVector, r % D::kRows);
        if constexpr (kNibbles) sum = vmlsq_s32(sum, zero, row_sum[r]);
        acc[r][v] = V::Add(acc[r][v], V::Mul(V::ToFloat(sum), scale));
      }
      if (kNibbles && a.rhs_offset == Format::kF32) {
        const Reg minimum = LoadScale(offsets + column * 4, Format::kF32);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          acc[r][v] = V::Add(acc[r][v], V::Mul(V::ToFloat(row_sum[r]), minimum));
        }
      }
    }
  }

  static void Run(const GemmArgs& a) {
    const Tail tail = Base::MakeTail(a.n);
    Acc acc;
    if (a.first_k) {
      Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    } else {
      Base::Read(a.acc, a.acc_row_stride, acc, tail);
    }
    Rows rows;
    QUERN_UNROLL for (int r = 0; r < kRows; ++r) {
      const int row = r < MR ? r : MR - 1;
      rows.p[r] = static_cast<const char*>(a.lhs) + (D::kPairs ? row / D::kRows : row) * a.lhs_row_stride;
    }
    const char* rhs = static_cast<const char*>(a.rhs);
    for (size_t begin = 0, block = 0; begin < a.k; begin += a.block, ++block) {
      const size_t end = a.k - begin < a.block ? a.k : begin + a.block;
      Sums sums;
      QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
        QUERN_UNROLL for (int i = 0; i < kWeights * D::kSums; ++i) sums.dots[b][i] = V::ZeroInt();
        QUERN_UNROLL for (int i = 0; i < D::kSums; ++i) sums.rows[b][i] = V::ZeroInt();
      }
      for (size_t k = begin; k < end; k += kStepK, rhs += kStepBytes) Step(sums, rows, k, rhs, a.rhs_unit_stride);
      Finish(a, block, sums, acc);
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
template <class D, int MR, int NU, bool kNibbles>
void DispatchTileBlocksLanes(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * D::V::kUnit)) return DispatchTileBlocksLanes<D, MR, NU - 1, kNibbles>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileBlocksLanes<D, MR - 1, NU, kNibbles>(a);
  }
  TileBlocksLanes<D, MR, NU, kNibbles>::Run(a);
}

}  // namespace
}  // namespace quern::ukernel
