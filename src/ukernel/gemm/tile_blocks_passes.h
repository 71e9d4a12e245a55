// The tile of many int8 rows by block-quantized weights on NEON: integer sums within a block, float32 over blocks in
// the order of K, the same bits as tile_blocks.h. For kernel files only: everything has internal linkage and is
// compiled with their flags.
#pragma once

#include "ukernel/gemm/block_accumulators.h"
#include "ukernel/gemm/block_zero.h"
#include "ukernel/gemm/tile_i8_lanes.h"

namespace quern::ukernel {
namespace {

// As on x86, a piece of K of a unit of 8 columns becomes bytes once and stays in registers while the rows pass by;
// their sums are in the call's scratch between pieces. Weights per channel (kRhs kI4) give int32 sums. Zero points come
// off the weights where the difference fits 8 bits; of 8 bits they come off by the sums of the rows, after 128.
//
// D describes dot products as in tile_i8_lanes.h (kSums 1), and here
//   LoadPiece<kLoads>(p, stride, x)  16 k of kRows rows, kLoads times; p moves on by as many strides as it reads rows
//   LoadOdd<kLoads>(p, x)            the same of a last row that has none beside it
//   ByColumns(a, b, out)             numbers of the 8 columns as sums have them
//   Column(p, i)                     of the numbers at p, as sum i has them
//   ByRows(p, stride, last)          numbers of the rows likewise; p moves on; `last`: there is but one row
//   kTogether       how many times kRows rows are worked on together
//   kSlots[kWeights]                 the place of each sum among those of kRows rows in memory
//   Turn(p)                          in memory, sums of kRows rows by 8 columns to rows of columns, and back
//   RowSums(x, total), StoreSums(p, total)  sums of the elements of the rows themselves
template <class D, Format kLhs, Format kRhs, int MR>
struct TileBlocksPasses {
  using V = typename D::V;
  using Int = typename V::Int;
  using Reg = typename V::Reg;

  static constexpr bool kChannels = kRhs == Format::kI4, kLhsBlocks = kLhs == Format::kI8b;
  static constexpr int kBits = static_cast<int>(FormatBits(kRhs));
  static constexpr int kPerByte = 8 / kBits;  // groups in the bytes of one
  static constexpr int kSums = D::kWeights;   // of kRows rows
  static constexpr int kColumns = V::kUnit;
  static constexpr size_t kSpread = D::kPairs ? D::kRows : 1;  // bytes from k to k
  static constexpr bool kHolds = kSums == 2;                   // registers hold the minima too
  static constexpr size_t kAtOnce = 8;                         // rows
  // K of a piece: as much as registers hold, or what blocks may have.
  static constexpr int kLong = 32, kShort = kPerByte * D::kGroup > 16 ? 32 : 16;
  template <int kPiece>
  static constexpr int kGroups = kPiece / D::kGroup;
  template <int kPiece>
  static constexpr size_t kPieceBytes = static_cast<size_t>(kPiece) * kColumns * kBits / 8;
  using Accumulators = BlockAccumulators<V, kChannels, MR, kColumns>;
  static_assert(MR % D::kRows == 0 && D::kSums == 1);  // and a block of the rows is a long piece

  struct Scratch {
    int32_t sums[MR * kColumns];  // of the product: float32, or int32 of channels
    int32_t dots[MR * kColumns];  // of a block that takes several pieces
    int32_t rows[MR];             // over their own elements
  };

  // Scales and zero points or minima of a block.
  struct Numbers {
    const char *scales, *offsets;
  };

  // Where pieces begin: rows as they lie, or in pairs.
  struct Left {
    const char* rows;
    ptrdiff_t stride;
    const char* scales;
  };

  template <int kPiece>
  using Weights = int8x16_t[kGroups<kPiece>][D::kWeights];

  template <int kPiece, BlockZero kZeros>
  QUERN_INLINE static void LoadWeights(const GemmArgs& a, const char* p, const char* zeros, Weights<kPiece>& w) {
    uint8x16_t zero[D::kWeights] = {};
    if constexpr (kBits < 8 && kZeros != BlockZero::kMinimum) {
      QUERN_UNROLL for (int i = 0; i < D::kWeights; ++i) zero[i] = vdupq_n_u8(1 << (kBits - 1));
      if (a.rhs_offset == Format::kU8) D::SpreadZeros(zeros, zero);
    }
    QUERN_UNROLL for (int g = 0; g < kGroups<kPiece>; ++g) {
      QUERN_UNROLL for (int i = 0; i < D::kWeights; ++i) {
        const int field = g % kPerByte;
        uint8x16_t x = vld1q_u8(reinterpret_cast<const uint8_t*>(p) + 16 * (g / kPerByte * D::kWeights + i));
        if constexpr (kRhs == Format::kU8) x = veorq_u8(x, vdupq_n_u8(128));
        if constexpr (kBits < 8) {
          if (field) x = x >> vdupq_n_u8(static_cast<uint8_t>(field * kBits));
          if (field != kPerByte - 1) x = vandq_u8(x, vdupq_n_u8((1 << kBits) - 1));
          if constexpr (kZeros != BlockZero::kMinimum) x = vsubq_u8(x, zero[i]);
        }
        w[g][i] = vreinterpretq_s8_u8(x);
      }
    }
  }

  QUERN_INLINE static void LoadScales(const GemmArgs& a, const char* p, Reg (&scale)[kSums]) {
    V::WithScaleFormat(a.rhs_scale, [&](Format format) __attribute__((always_inline)) {
      D::ByColumns(V::LoadScale(p, format), V::LoadScale(p + V::kLanes * FormatBytes(format), format), scale);
    });
  }

  // Of a block, for all columns.
  template <BlockZero kZeros>
  struct Columns {
    Reg scale[kSums];
    Reg minimum[kSums];
    const float* minima;
    Reg zero[kSums];  // int32, less 128
  };
  template <BlockZero kZeros>
  QUERN_INLINE static void LoadColumns(const GemmArgs& a, const Numbers& block, Columns<kZeros>& c) {
    LoadScales(a, block.scales, c.scale);
    if constexpr (kZeros == BlockZero::kMinimum) {
      c.minima = reinterpret_cast<const float*>(block.offsets);
      if constexpr (kHolds) D::ByColumns(V::Load(c.minima), V::Load(c.minima + V::kLanes), c.minimum);
    }
    if constexpr (kZeros == BlockZero::kInteger && kBits == 8) {
      const Int turned = V::Set1Int(128);
      D::ByColumns(vreinterpretq_f32_s32(vsubq_s32(V::LoadZeros(block.offsets), turned)),
                   vreinterpretq_f32_s32(vsubq_s32(V::LoadZeros(block.offsets + V::kLanes), turned)), c.zero);
    }
  }

  // Adds the scaled sums of kRows rows over a block to those of the blocks before it.
  template <BlockZero kZeros>
  QUERN_INLINE static void AddBlock(const Columns<kZeros>& c, Int (&dots)[kSums], float* to, const int32_t*& rows,
                                    Left& left, bool last) {
    constexpr bool kMinimum = kZeros == BlockZero::kMinimum;
    Int row_sum = V::ZeroInt();
    if constexpr (kMinimum || (kZeros == BlockZero::kInteger && kBits == 8)) {
      const char* p = reinterpret_cast<const char*>(rows);
      row_sum = vreinterpretq_s32_f32(D::ByRows(p, sizeof(int32_t), false));
      rows += D::kRows;
    }
    Reg row_scale = V::Zero();
    if constexpr (kLhsBlocks) row_scale = D::ByRows(left.scales, left.stride, last);
    Reg q = V::ToFloat(row_sum);
    if constexpr (kLhsBlocks) q = V::Mul(q, row_scale);
    QUERN_UNROLL for (int i = 0; i < kSums; ++i) {
      if constexpr (kBits == 8 && kMinimum) dots[i] = vmlaq_s32(dots[i], row_sum, V::Set1Int(128));
      if constexpr (kBits == 8 && kZeros == BlockZero::kInteger) {
        dots[i] = vmlsq_s32(dots[i], row_sum, vreinterpretq_s32_f32(c.zero[i]));
      }
      float* at = to + D::kSlots[i] * V::kLanes;
      const Reg scale = kLhsBlocks ? V::Mul(row_scale, c.scale[i]) : c.scale[i];
      Reg sum = V::Add(V::Load(at), V::Mul(V::ToFloat(dots[i]), scale));
      if constexpr (kMinimum) sum = V::Add(sum, V::Mul(q, kHolds ? c.minimum[i] : D::Column(c.minima, i)));
      V::Store(at, sum);
    }
  }

  // f(Count<how many times kRows>, whether but one row is left) for the rows, kRows of which always have sums.
  template <int N>
  struct Count {
    static constexpr int value = N;
  };
  template <class F>
  QUERN_INLINE static void EachRows(size_t m, const F& f) {
    constexpr size_t kRows = D::kTogether * D::kRows;
    for (; m >= kAtOnce; m -= kAtOnce) {
      QUERN_UNROLL for (size_t i = 0; i < kAtOnce; i += kRows) f(Count<D::kTogether>{}, false);
    }
    for (; D::kTogether > 1 && m >= kRows; m -= kRows) f(Count<D::kTogether>{}, false);
    for (; m >= D::kRows; m -= D::kRows) f(Count<1>{}, false);
    if (m) f(Count<1>{}, true);
  }

  // A piece of all rows. kWhole: it is a block's only one; else its sums are added to those in `to`.
  template <int kPiece, bool kWhole, BlockZero kZeros>
  QUERN_INLINE static void Pass(const GemmArgs& a, Left left, const char* rhs, const Numbers& block,
                                const int32_t* rows, int32_t* to) {
    constexpr int kLoads = kPiece / 16, kPerLoad = 16 / D::kGroup;
    Weights<kPiece> w;
    LoadWeights<kPiece, kZeros>(a, rhs, block.offsets, w);
    Columns<kZeros> c;
    if constexpr (kWhole) LoadColumns<kZeros>(a, block, c);
    EachRows(a.m, [&](auto count, bool last) __attribute__((always_inline)) {
      constexpr int kCount = decltype(count)::value;
      typename D::X x[kCount][kLoads];
      Int dots[kCount][kSums];
      QUERN_UNROLL for (int b = 0; b < kCount; ++b) {
        if (last) {
          D::template LoadOdd<kLoads>(left.rows, x[b]);
        } else {
          D::template LoadPiece<kLoads>(left.rows, left.stride, x[b]);
        }
        QUERN_UNROLL for (int i = 0; i < kSums; ++i) {
          dots[b][i] = kWhole ? V::ZeroInt() : V::LoadInt(to + (b * kSums + D::kSlots[i]) * V::kLanes);
        }
      }
      QUERN_UNROLL for (int g = 0; g < kGroups<kPiece>; ++g) {
        QUERN_UNROLL for (int b = 0; b < kCount; ++b) {
          QUERN_UNROLL for (int i = 0; i < kSums; ++i) D::Dot(dots[b] + i, x[b][g / kPerLoad], w[g][i], g % kPerLoad);
        }
      }
      QUERN_UNROLL for (int b = 0; b < kCount; ++b) {
        if constexpr (kWhole) {
          AddBlock<kZeros>(c, dots[b], reinterpret_cast<float*>(to), rows, left, last);
        } else {
          QUERN_UNROLL for (int i = 0; i < kSums; ++i) V::StoreInt(to + D::kSlots[i] * V::kLanes, dots[b][i]);
        }
        to += kSums * V::kLanes;
      }
    });
  }

  // Scales the sums of a block's pieces, which are zero then.
  template <BlockZero kZeros>
  static void FinishBlock(const GemmArgs& a, Left left, const Numbers& block, Scratch& s) {
    Columns<kZeros> c;
    LoadColumns<kZeros>(a, block, c);
    int32_t *from = s.dots, *to = s.sums;
    const int32_t* rows = s.rows;
    EachRows(a.m, [&](auto count, bool last) __attribute__((always_inline)) {
      QUERN_UNROLL for (int b = 0; b < decltype(count)::value; ++b) {
        Int dots[kSums];
        QUERN_UNROLL for (int i = 0; i < kSums; ++i) {
          dots[i] = V::LoadInt(from + D::kSlots[i] * V::kLanes);
          V::StoreInt(from + D::kSlots[i] * V::kLanes, V::ZeroInt());
        }
        AddBlock<kZeros>(c, dots, reinterpret_cast<float*>(to), rows, left, last);
        from += kSums * V::kLanes;
        to += kSums * V::kLanes;
      }
    });
  }

  // Sums of the rows' own elements over `count` k, a multiple of 16.
  static void SumRows(const GemmArgs& a, Left left, size_t count, int32_t* to) {
    const auto sum = [&](bool last) __attribute__((always_inline)) {
      Int total = V::ZeroInt();
      const char* next = left.rows;
      for (size_t k = 0; k < count; k += 16) {
        typename D::X x[1];
        next = left.rows + k * kSpread;
        if (last) {
          D::template LoadOdd<1>(next, x);
        } else {
          D::template LoadPiece<1>(next, left.stride, x);
        }
        total = D::AddRows(total, x[0]);
      }
      left.rows = next - (count - 16) * kSpread;
      D::StoreSums(to, total);
      to += D::kRows;
    };
    size_t m = a.m;
    for (; m >= D::kRows; m -= D::kRows) sum(false);
    if (m) sum(true);
  }

  // kWhole: sums are over a piece.
  template <int kPiece, bool kWhole, BlockZero kZeros>
  static void Product(const GemmArgs& a, Scratch& s) {
    constexpr bool kSummed = kZeros == BlockZero::kMinimum || (kZeros == BlockZero::kInteger && kBits == 8);
    const char* rhs = static_cast<const char*>(a.rhs);
    Left left{static_cast<const char*>(a.lhs), a.lhs_row_stride, static_cast<const char*>(a.lhs_scales)};
    Numbers block{static_cast<const char*>(a.rhs_scales), static_cast<const char*>(a.rhs_offsets)};
    const size_t scale_bytes = kColumns * FormatBytes(a.rhs_scale);
    const size_t offset_bytes = kColumns * FormatBytes(a.rhs_offset);
    const size_t end = RoundUp(a.k, kPiece);
    for (size_t i = 0; !kWhole && i < RoundUp(a.m, D::kRows) * kColumns; ++i) s.dots[i] = 0;
    for (size_t k = 0, next = a.block; k < end;) {
      const size_t count = kWhole ? kPiece : end - k < a.block ? end - k : a.block;
      if constexpr (kSummed) SumRows(a, left, count, s.rows);
      for (size_t i = 0; i < count; i += kPiece) {
        Pass<kPiece, kWhole, kZeros>(a, left, rhs, block, s.rows, kWhole ? s.sums : s.dots);
        rhs += kPieceBytes<kPiece>;
        left.rows += kPiece * kSpread;
      }
      if constexpr (!kWhole) FinishBlock<kZeros>(a, left, block, s);
      k += count;
      if (kLhsBlocks) left.scales += sizeof(float);
      if (kLhsBlocks && k < next) continue;
      next += a.block;
      block.scales += scale_bytes;
      block.offsets += offset_bytes;
    }
  }

  // Sums over all of K.
  static void Channels(const GemmArgs& a, Scratch& s) {
    const char* rhs = static_cast<const char*>(a.rhs);
    Left left{static_cast<const char*>(a.lhs), a.lhs_row_stride, nullptr};
    size_t k = 0;
    for (; k + kLong <= a.k; k += kLong, left.rows += kLong * kSpread, rhs += kPieceBytes<kLong>) {
      Pass<kLong, false, BlockZero::kInteger>(a, left, rhs, {}, nullptr, s.sums);
    }
    for (; k < a.k; k += kShort, left.rows += kShort * kSpread, rhs += kPieceBytes<kShort>) {
      Pass<kShort, false, BlockZero::kInteger>(a, left, rhs, {}, nullptr, s.sums);
    }
  }

  template <BlockZero kZeros>
  static void Blocks(const GemmArgs& a, Scratch& s) {
    if (kLhsBlocks || a.block == kLong) return Product<kLong, true, kZeros>(a, s);
    if constexpr (!kLhsBlocks) {
      if (a.block % kLong == 0) return Product<kLong, false, kZeros>(a, s);
      if constexpr (kShort != kLong) Product<kShort, false, kZeros>(a, s);
    }
  }

  static void TurnAll(const GemmArgs& a, Scratch& s) {
    for (size_t r = 0; r < a.m; r += D::kRows) D::Turn(s.sums + r * kColumns);
  }

  static void Run(const GemmArgs& a) {
    auto& s = *static_cast<Scratch*>(a.scratch);
    Accumulators::Start(a, s.sums);
    for (size_t i = a.m * kColumns; i < RoundUp(a.m, D::kRows) * kColumns; ++i) s.sums[i] = 0;
    if (!a.first_k) TurnAll(a, s);
    if constexpr (kChannels) {
      Channels(a, s);
    } else if constexpr (kRhs == Format::kI8) {
      Blocks<BlockZero::kConstant>(a, s);
    } else if (a.rhs_offset == Format::kF32) {
      Blocks<BlockZero::kMinimum>(a, s);
    } else if (kBits < 8 || a.rhs_offset == Format::kU8) {
      Blocks<BlockZero::kInteger>(a, s);
    } else {
      Blocks<BlockZero::kConstant>(a, s);
    }
    TurnAll(a, s);
    Accumulators::Finish(a, s.sums);
  }
};

}  // namespace
}  // namespace quern::ukernel
