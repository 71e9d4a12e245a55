// The register tile of int8 rows by block-quantized weights on NEON: the dot products of tile_i8_lanes.h within a
// block, float32 over blocks in the order of K, the same bits as tile_blocks.h. For kernel files only: everything has
// internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/tile_i8_lanes.h"

namespace quern::ukernel {
namespace {

// acc = acc + float(sum of q * (w - zero)) * scale for each block, then + float(sum of q) * minimum where the weights
// have float offsets; every operation rounds on its own. With rows in blocks (kLhs kI8b) the sums are over 32 k, and
// scale and sum of q are times the row's scale. Weights per channel (kRhs kI4) give int32 sums.
//
// Unsigned weights are multiplied as they are stored (uint8 minus 128); their zero points come off by the sums of the
// rows. Rows are read up to a multiple of a step's k, where they hold zeros.
template <class D, Format kLhs, Format kRhs, int MR, int NU, Columns kColumns>
struct TileBlocksLanes : TileEpilogueI32<typename D::V, MR, NU> {
  using V = typename D::V;
  using Base = TileEpilogueI32<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  using typename Base::Acc;
  using typename Base::Int;
  using typename Base::IntAcc;
  using typename Base::Reg;
  using typename Base::Tail;

  static constexpr bool kChannels = kRhs == Format::kI4, kLhsBlocks = kLhs == Format::kI8b;
  static constexpr size_t kLhsBlock = 32;
  static constexpr int kBits = static_cast<int>(FormatBits(kRhs));
  static constexpr bool kSummed = kRhs != Format::kI8;
  static constexpr int kTurned = kRhs == Format::kU8 ? 128 : 0;  // off each weight
  static constexpr int kPerByte = 8 / kBits;                     // groups in the bytes of one
  static constexpr int kLoadK = 16;                              // of the rows at once
  static constexpr int kStepK = kPerByte * D::kGroup > kLoadK ? kPerByte* D::kGroup : kLoadK;
  static constexpr int kLoads = kStepK / kLoadK;
  static constexpr int kGroups = kStepK / D::kGroup;
  static constexpr int kLoadGroups = kGroups / kLoads;
  static constexpr int kBlocks = (MR + D::kRows - 1) / D::kRows;  // an odd last row is computed twice
  static constexpr int kWeights = NU * D::kWeights;
  static constexpr int kLines = kGroups / kPerByte;  // of groups that share bytes
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
  // Bytes between lines and between units of 8 columns of the weights; columns between blocks.
  struct Strides {
    size_t line, unit, block;
  };
  static Strides StridesOf(const GemmArgs& a) {
    constexpr size_t kLine = static_cast<size_t>(D::kGroup) * V::kUnit;
    if constexpr (kColumns == Columns::kUnits) return {kLine, a.rhs_unit_stride, V::kUnit};
    return {a.vector_bytes / 2 * D::kGroup, kLine, a.vector_bytes / 2};
  }
  // Scales and zero points or minima of a block, and the bytes of one.
  struct Numbers {
    const char *scales, *offsets;
    size_t scale_bytes, offset_bytes;
  };
  static Numbers NumbersOf(const GemmArgs& a) {
    return {static_cast<const char*>(a.rhs_scales), static_cast<const char*>(a.rhs_offsets), FormatBytes(a.rhs_scale),
            FormatBytes(a.rhs_offset)};
  }
  // Where those for the columns of vector v begin.
  static const char* AtVector(const GemmArgs& a, const char* p, int v, size_t bytes) {
    const bool units = kColumns == Columns::kUnits;
    const size_t column = static_cast<size_t>(units ? v % kPerUnit : v) * V::kLanes;
    return p + (units ? static_cast<size_t>(v / kPerUnit) * a.rhs_unit_stride : 0) + column * bytes;
  }

  QUERN_INLINE static void Clear(Sums& sums) {
    QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
      QUERN_UNROLL for (int i = 0; i < kWeights * D::kSums; ++i) sums.dots[b][i] = V::ZeroInt();
      QUERN_UNROLL for (int i = 0; i < D::kSums; ++i) sums.rows[b][i] = V::ZeroInt();
    }
  }

  // Group `field` of those that share bytes.
  static int8x16_t Field(int8x16_t bytes, int field) {
    if constexpr (kRhs == Format::kU8) return veorq_s8(bytes, vdupq_n_s8(-128));
    if constexpr (kPerByte == 1) return bytes;
    uint8x16_t x = vreinterpretq_u8_s8(bytes);
    if (field) x = x >> vdupq_n_u8(static_cast<uint8_t>(field * kBits));
    if (field != kPerByte - 1) x = vandq_u8(x, vdupq_n_u8((1 << kBits) - 1));
    return vreinterpretq_s8_u8(x);
  }

  QUERN_INLINE static void Step(Sums& sums, const Rows& rows, size_t k, const char* rhs, const Strides& stride) {
    typename D::X x[kLoads][kBlocks];
    QUERN_UNROLL for (int i = 0; i < kLoads; ++i) {
      QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
        const char* p[D::kRows];
        QUERN_UNROLL for (int r = 0; r < D::kRows; ++r) p[r] = rows.p[b * D::kRows + r] + (k + i * kLoadK) * kSpread;
        x[i][b] = D::Load(p, kLoadGroups);
      }
    }
    QUERN_UNROLL for (int line = 0; line < kLines; ++line) {
      QUERN_UNROLL for (int w = 0; w < kWeights; ++w) {
        const char* from = rhs + static_cast<size_t>(w / D::kWeights) * stride.unit +
                           static_cast<size_t>(line) * stride.line + w % D::kWeights * 16;
        const int8x16_t bytes = D::LoadWeights(from);
        QUERN_UNROLL for (int field = 0; field < kPerByte; ++field) {
          const int8x16_t weights = Field(bytes, field);
          const int g = line * kPerByte + field;
          QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
            D::Dot(sums.dots[b] + w * D::kSums, x[g / kLoadGroups][b], weights, g % kLoadGroups);
          }
        }
      }
    }
    if constexpr (kSummed) {
      QUERN_UNROLL for (int i = 0; i < kLoads; ++i) {
        QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) D::AddRow(sums.rows[b], x[i][b]);
      }
    }
  }

  QUERN_INLINE static void LoadScales(const GemmArgs& a, const Numbers& block, Reg (&scale)[kVectors]) {
    V::WithScaleFormat(a.rhs_scale, [&](Format format) __attribute__((always_inline)) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        scale[v] = V::LoadScale(AtVector(a, block.scales, v, FormatBytes(format)), format);
      }
    });
  }

  // What the weights stand for zero by, less what they are turned by.
  QUERN_INLINE static Int ConstantZero(Format offset) {
    return V::Set1Int((offset == Format::kF32 ? 0 : 1 << (kBits - 1)) - kTurned);
  }
  QUERN_INLINE static void LoadZeros(const GemmArgs& a, const Numbers& block, Int (&zero)[kVectors]) {
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) zero[v] = ConstantZero(a.rhs_offset);
    if (a.rhs_offset != Format::kU8) return;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      zero[v] = vsubq_s32(V::LoadZeros(AtVector(a, block.offsets, v, 1)), V::Set1Int(kTurned));
    }
  }

  static Int Total(const Sums& sums, int r, int v) {
    return D::Reduce(sums.dots[r / D::kRows] + v * kPerVector, r % D::kRows);
  }
  static Int RowSum(const Sums& sums, int r) { return D::RowSum(sums.rows[r / D::kRows], r % D::kRows); }

  // Scales the sums of a block of the weights, or of the 32 k at `lhs_scales` in it.
  QUERN_INLINE static void Scale(const GemmArgs& a, const Numbers& block, const char* lhs_scales, const Sums& sums,
                                 Acc& acc) {
    Int row_sum[MR], zero[kVectors];
    Reg row_scale[MR], scale[kVectors];
    LoadScales(a, block, scale);
    if constexpr (kSummed) LoadZeros(a, block, zero);
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      if constexpr (kSummed) row_sum[r] = RowSum(sums, r);
      if constexpr (kLhsBlocks) {
        row_scale[r] = V::Broadcast(reinterpret_cast<const float*>(lhs_scales + r * a.lhs_row_stride));
      }
    }
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        Int sum = Total(sums, r, v);
        if constexpr (kSummed) sum = vmlsq_s32(sum, zero[v], row_sum[r]);
        const Reg both = kLhsBlocks ? V::Mul(row_scale[r], scale[v]) : scale[v];
        acc[r][v] = V::Add(acc[r][v], V::Mul(V::ToFloat(sum), both));
      }
    }
    if (!kSummed || a.rhs_offset != Format::kF32) return;
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Reg minimum = V::Load(reinterpret_cast<const float*>(AtVector(a, block.offsets, v, sizeof(float))));
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        const Reg q = V::ToFloat(row_sum[r]);
        acc[r][v] = V::Add(acc[r][v], V::Mul(kLhsBlocks ? V::Mul(q, row_scale[r]) : q, minimum));
      }
    }
  }

  static Rows RowsOf(const GemmArgs& a) {
    Rows rows;
    QUERN_UNROLL for (int r = 0; r < kRows; ++r) {
      const int row = r < MR ? r : MR - 1;
      rows.p[r] = static_cast<const char*>(a.lhs) + (D::kPairs ? row / D::kRows : row) * a.lhs_row_stride;
    }
    return rows;
  }

  QUERN_INLINE static void RunChannels(const GemmArgs& a, const Tail& tail) {
    const Rows rows = RowsOf(a);
    const Strides stride = StridesOf(a);
    const char* rhs = static_cast<const char*>(a.rhs);
    Sums sums;
    Clear(sums);
    for (size_t k = 0; k < a.k; k += kStepK, rhs += kLines * stride.line) Step(sums, rows, k, rhs, stride);
    IntAcc acc;
    Base::Each(
        [&](int r, int v) { acc[r][v] = vmlsq_s32(Total(sums, r, v), ConstantZero(Format::kNone), RowSum(sums, r)); });
    if (!a.first_k) {
      IntAcc before;
      Base::ReadInt(a.acc, a.acc_row_stride, before, tail);
      Base::Each([&](int r, int v) { acc[r][v] = V::AddInt(acc[r][v], before[r][v]); });
    }
    if (a.last_k) {
      Base::Finish(a, acc, tail);
    } else {
      Base::WriteInt(a.acc, a.acc_row_stride, acc, tail);
    }
  }

  static void Run(const GemmArgs& a) {
    const Tail tail = Base::MakeTail(a.n);
    if constexpr (kChannels) return RunChannels(a, tail);
    Acc acc;
    if (a.first_k) {
      Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    } else {
      Base::Read(a.acc, a.acc_row_stride, acc, tail);
    }
    const Rows rows = RowsOf(a);
    const Strides stride = StridesOf(a);
    const char* rhs = static_cast<const char*>(a.rhs);
    const auto* lhs_scales = static_cast<const char*>(a.lhs_scales);
    const size_t length = kLhsBlocks ? kLhsBlock : a.block;  // of a sum
    Numbers block = NumbersOf(a);
    for (size_t begin = 0, next = a.block; begin < a.k; begin += length) {
      const size_t end = a.k - begin < length ? a.k : begin + length;
      Sums sums;
      Clear(sums);
      for (size_t k = begin; k < end; k += kStepK, rhs += kLines * stride.line) Step(sums, rows, k, rhs, stride);
      Scale(a, block, lhs_scales, sums, acc);
      lhs_scales += kLhsBlocks ? sizeof(float) : 0;
      if (!kLhsBlocks || begin + length >= next) {
        block.scales += stride.block * block.scale_bytes;
        block.offsets += stride.block * block.offset_bytes;
        next += a.block;
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
template <class D, Format kLhs, Format kRhs, int MR, int NU, Columns kColumns = Columns::kUnits>
void DispatchTileBlocksLanes(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * D::V::kUnit)) {
      return DispatchTileBlocksLanes<D, kLhs, kRhs, MR, NU - 1, kColumns>(a);
    }
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileBlocksLanes<D, kLhs, kRhs, MR - 1, NU, kColumns>(a);
  }
  TileBlocksLanes<D, kLhs, kRhs, MR, NU, kColumns>::Run(a);
}

// A unit of SME; as many columns at a time as there are registers for.
template <class D, Format kLhs, Format kRhs>
void RunScaledBlocks(const GemmArgs& a) {
  constexpr Format kAcc = kRhs == Format::kI4 ? Format::kI32 : Format::kF32;
  constexpr GemmRun kFour = DispatchTileBlocksLanes<D, kLhs, kRhs, 4, 1, Columns::kScaledUnit>;
  constexpr GemmRun kTwo = DispatchTileBlocksLanes<D, kLhs, kRhs, 2, 2, Columns::kScaledUnit>;
  return a.m > 2 ? RunScaledUnit<D, 1, kAcc, kFour>(a) : RunScaledUnit<D, 2, kAcc, kTwo>(a);
}

}  // namespace
}  // namespace quern::ukernel
