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
  static constexpr int kTurned = kRhs == Format::kU8 ? 128 : 0;  // off each weight
  static constexpr int kPerByte = 8 / kBits;                     // groups in the bytes of one
  static constexpr int kLoadK = 16;                              // of the rows at once
  static constexpr int kStepK = kPerByte * D::kGroup > kLoadK ? kPerByte* D::kGroup : kLoadK;
  static constexpr int kLong = 32;  // k of several steps, of which most blocks are multiples
  // Where blocks have offsets: with rows in blocks no loop would be left in a sum, compilers would load the offsets
  // before it, and rows by themselves would run out of registers.
  static constexpr int kLongOffsets = kLhsBlocks && D::kRows == 1 ? kStepK : kLong;
  static constexpr int kLoads = kStepK / kLoadK;
  static constexpr int kGroups = kStepK / D::kGroup;
  static constexpr int kLoadGroups = kGroups / kLoads;
  static constexpr int kBlocks = (MR + D::kRows - 1) / D::kRows;  // an odd last row is computed twice
  static constexpr int kWeights = NU * D::kWeights;
  static constexpr int kLines = kGroups / kPerByte;           // of groups that share bytes
  static constexpr int kTogether = D::kPairs ? D::kRows : 1;  // rows at a pointer
  static constexpr int kPointers = kBlocks * D::kRows / kTogether;
  static constexpr int kPerVector = kWeights * D::kSums / kVectors;

  // What weights stand for zero by where blocks have no offsets, less what they are turned by.
  static constexpr int kZero = kRhs == Format::kI8 ? 0 : (1 << (kBits - 1)) - kTurned;
  // Whether sums of the rows are needed, and times what: as they are where blocks have offsets of their own, else as
  // what comes off for the zero point, which saves a multiplication of every sum.
  template <bool kOffsets>
  static constexpr bool kSummed = kOffsets || kZero != 0;
  template <bool kOffsets>
  static constexpr int8_t kTimes = kOffsets ? 1 : -kZero;

  struct Sums {
    Int dots[kBlocks][kWeights * D::kSums];
    Int rows[kBlocks][D::kSums];  // over the elements of the rows themselves, times kTimes
  };
  struct Rows {
    const char* p[kPointers];
  };
  // Weights of each 8 columns; bytes between lines of them, columns between blocks.
  struct Units {
    const char* p[NU];
    size_t line, block;
  };
  static Units UnitsOf(const GemmArgs& a) {
    constexpr size_t kLine = static_cast<size_t>(D::kGroup) * V::kUnit;
    const bool apart = kColumns == Columns::kUnits;
    Units units{{}, apart ? kLine : a.vector_bytes / 2 * D::kGroup, apart ? V::kUnit : a.vector_bytes / 2};
    QUERN_UNROLL for (int u = 0; u < NU; ++u) {
      units.p[u] = static_cast<const char*>(a.rhs) + u * (apart ? a.rhs_unit_stride : kLine);
    }
    return units;
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

  // Moves a pointer here. Compilers would compute it anew from where it began.
  QUERN_INLINE static void Advance(const char*& p, size_t by) {
    p += by;
    asm("" : "+r"(p));
  }

  // kCount k, after which the operands move on.
  template <int kCount, bool kOffsets>
  QUERN_INLINE static void Steps(Sums& sums, Rows& rows, Units& units) {
    QUERN_UNROLL for (int step = 0; step < kCount / kStepK; ++step) {
      typename D::X x[kLoads][kBlocks];
      QUERN_UNROLL for (int i = 0; i < kLoads; ++i) {
        QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
          constexpr int kEach = kPointers / kBlocks;
          const char* p[kEach];
          QUERN_UNROLL for (int r = 0; r < kEach; ++r) {
            p[r] = rows.p[b * kEach + r] + (step * kStepK + i * kLoadK) * kTogether;
          }
          x[i][b] = D::Load(p, kLoadGroups);
        }
      }
      QUERN_UNROLL for (int line = 0; line < kLines; ++line) {
        QUERN_UNROLL for (int w = 0; w < kWeights; ++w) {
          const char* from = units.p[w / D::kWeights] + static_cast<size_t>(step * kLines + line) * units.line;
          const int8x16_t bytes = D::LoadWeights(from + w % D::kWeights * 16);
          QUERN_UNROLL for (int field = 0; field < kPerByte; ++field) {
            const int8x16_t weights = Field(bytes, field);
            const int g = line * kPerByte + field;
            QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) {
              D::Dot(sums.dots[b] + w * D::kSums, x[g / kLoadGroups][b], weights, g % kLoadGroups);
            }
          }
        }
      }
      if constexpr (kSummed<kOffsets>) {
        QUERN_UNROLL for (int i = 0; i < kLoads; ++i) {
          QUERN_UNROLL for (int b = 0; b < kBlocks; ++b) D::AddRow(sums.rows[b], x[i][b], kTimes<kOffsets>);
        }
      }
    }
    QUERN_UNROLL for (int r = 0; r < kPointers; ++r) Advance(rows.p[r], kCount * kTogether);
    QUERN_UNROLL for (int u = 0; u < NU; ++u) Advance(units.p[u], kCount / kStepK * kLines * units.line);
  }

  QUERN_INLINE static void LoadScales(const GemmArgs& a, const Numbers& block, Reg (&scale)[kVectors]) {
    V::WithScaleFormat(a.rhs_scale, [&](Format format) __attribute__((always_inline)) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        scale[v] = V::LoadScale(AtVector(a, block.scales, v, FormatBytes(format)), format);
      }
    });
  }

  // The zero points, less what weights are turned by.
  QUERN_INLINE static void LoadZeros(const GemmArgs& a, const Numbers& block, Int (&zero)[kVectors]) {
    const Int constant = V::Set1Int(a.rhs_offset == Format::kF32 ? -kTurned : kZero);
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) zero[v] = constant;
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
  template <bool kOffsets>
  QUERN_INLINE static void Scale(const GemmArgs& a, const Numbers& block, const char* lhs_scales, const Sums& sums,
                                 Acc& acc) {
    Int row_sum[MR], zero[kVectors];
    Reg row_scale[MR], scale[kVectors];
    LoadScales(a, block, scale);
    if constexpr (kOffsets) LoadZeros(a, block, zero);
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      if constexpr (kSummed<kOffsets>) row_sum[r] = RowSum(sums, r);
      if constexpr (kLhsBlocks) {
        row_scale[r] = V::Broadcast(reinterpret_cast<const float*>(lhs_scales + r * a.lhs_row_stride));
      }
    }
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        Int sum = Total(sums, r, v);
        if constexpr (kOffsets) {
          sum = vmlsq_s32(sum, zero[v], row_sum[r]);
        } else if constexpr (kZero != 0) {
          sum = V::AddInt(sum, row_sum[r]);
        }
        const Reg both = kLhsBlocks ? V::Mul(row_scale[r], scale[v]) : scale[v];
        acc[r][v] = V::Add(acc[r][v], V::Mul(V::ToFloat(sum), both));
      }
    }
    if (!kOffsets || a.rhs_offset != Format::kF32) return;
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
    QUERN_UNROLL for (int r = 0; r < kPointers; ++r) {
      rows.p[r] = static_cast<const char*>(a.lhs) + (D::kPairs || r < MR ? r : MR - 1) * a.lhs_row_stride;
    }
    return rows;
  }

  QUERN_INLINE static void RunChannels(const GemmArgs& a, const Tail& tail) {
    Rows rows = RowsOf(a);
    Units units = UnitsOf(a);
    Sums sums;
    Clear(sums);
    size_t left = CeilDiv(a.k, kStepK);
    // For three rows and more there are no registers to work on two steps together.
    for (; MR <= 2 && left >= 2; left -= 2) Steps<2 * kStepK, false>(sums, rows, units);
    for (; left > 0; --left) Steps<kStepK, false>(sums, rows, units);
    IntAcc acc;
    Base::Each([&](int r, int v) { acc[r][v] = V::AddInt(Total(sums, r, v), RowSum(sums, r)); });
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

  // Blocks of multiples of kCount k. kOffsets: they have zero points or minima of their own.
  template <int kCount, bool kOffsets>
  QUERN_INLINE static void Product(const GemmArgs& a, Acc& acc) {
    Rows rows = RowsOf(a);
    Units units = UnitsOf(a);
    const auto* lhs_scales = static_cast<const char*>(a.lhs_scales);
    const size_t length = (kLhsBlocks ? kLhsBlock : a.block) / kCount;  // of a sum
    Numbers block = NumbersOf(a);
    size_t in_block = a.block / kLhsBlock;
    for (size_t left = CeilDiv(a.k, kCount); left > 0;) {
      size_t count = left < length ? left : length;
      left -= count;
      Sums sums;
      Clear(sums);
      do {
        Steps<kCount, kOffsets>(sums, rows, units);
      } while (--count > 0);
      Scale<kOffsets>(a, block, lhs_scales, sums, acc);
      lhs_scales += kLhsBlocks ? sizeof(float) : 0;
      if (kLhsBlocks && --in_block > 0) continue;
      in_block = a.block / kLhsBlock;
      block.scales += units.block * block.scale_bytes;
      if constexpr (kOffsets) block.offsets += units.block * block.offset_bytes;
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
    const bool offsets = kRhs != Format::kI8 && a.rhs_offset != Format::kNone;
    if (a.block % kLong != 0) {
      if constexpr (kStepK < kLong && !kLhsBlocks) Product<kStepK, kRhs != Format::kI8>(a, acc);
    } else if (offsets) {
      if constexpr (kRhs != Format::kI8) Product<kLongOffsets, true>(a, acc);
    } else {
      Product<kLong, false>(a, acc);
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
