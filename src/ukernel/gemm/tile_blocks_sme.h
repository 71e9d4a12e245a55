// int8 rows by block-quantized weights on SME: outer products of the integers of a block into two of ZA's tiles, which
// then are scaled and added to float32 sums in the other two; blocks in the order of K, the same bits as tile_blocks.h.
// A call covers a whole panel, so that streaming mode is entered once. For kernel files only: everything has internal
// linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/scales_sve.h"
#include "ukernel/gemm/tile_sme.h"

namespace quern::ukernel {
namespace {

// For each block: acc = acc + float(sum of q * (w - zero)) * scale, then + float(sum of q) * minimum where the weights
// have float offsets; every operation rounds on its own. kLhs kI8b: sums over 32 k, times the rows' scales too. Weights
// are multiplied as signed numbers, their bits less half of what those count to; what zero points differ from that
// comes off by the rows' sums. Tiles are two vectors of rows by one of columns, so that a weight's bits become a byte
// once for both, or one by two where a panel has rows in its first vector alone.
//
// S: the loads of tile_sme.h as L, and kRows rows of ZA's tiles at a time, lanes / kRows apart from `row` on:
// Read<T>(row) as float32, Add<T>(row, x), Times. Keep(x, p) stores a number of each row, of which Outer(p, row,
// columns) takes those of such rows, times the columns'. kExcess: it has an outer product of the sums, S::TakeOff<T>;
// else groups take the excess off as they come. (slices_sme.h, slices_sme2.h)
template <class S, Format kLhs, Format kElement>
struct TileBlocksSme {
  static constexpr int kBits = static_cast<int>(FormatBits(kElement));
  static constexpr size_t kLhsBlock = 32;
  static constexpr size_t kStepK = 16;
  static constexpr size_t kMostLanes = 64;
  static constexpr size_t kMostSums = 4096;  // of a panel's rows, on the stack
  using L = typename S::L;

  // A panel of two vectors of rows.
  struct Panel {
    const int8_t* lhs;
    const float* scales;  // kI8b: of each block and row
    int32_t* sums;        // of blocks' rows: of the first `summed` blocks, and room for another
    size_t summed;
  };

  // Group kAt of a step: the weights' vector of bytes that has it, of the group before or a new one.
  template <int kAt>
  QUERN_SVE_INLINE svuint8_t Stored(const uint8_t* rhs, svuint8_t before) __arm_streaming {
    constexpr int kPerByte = 8 / kBits;
    const svbool_t all = svptrue_b8();
    if constexpr (kAt % kPerByte > 0) return before;
    const svuint8_t x = svld1_vnum(all, rhs, kAt / kPerByte * 2);
    if constexpr (kElement == Format::kI8) return x;
    return sveor_x(all, x, kBits == 8 ? 0x80 : kBits == 4 ? 0x88 : 0xaa);  // fields become signed numbers
  }
  // 4 k of a vector of columns from what Stored gave.
  template <int kAt>
  QUERN_SVE_INLINE svint8_t Weights(svuint8_t x) __arm_streaming {
    constexpr int kAbove = 8 - (kAt % (8 / kBits) + 1) * kBits;
    if constexpr (kBits == 8) return svreinterpret_s8(x);
    const svbool_t all = svptrue_b8();
    if constexpr (kAbove > 0) x = svlsl_x(all, x, kAbove);
    return svasr_x(all, svreinterpret_s8(x), 8 - kBits);
  }

  // Group kAt; x: both vectors of rows; w: what is stored for the tiles' columns; e: what each byte has too much.
  template <int kAt, int kRows, bool kOffsets>
  QUERN_SVE_INLINE void Group(svint8_t x0, svint8_t x1, const uint8_t* rhs, svuint8_t& w0, svuint8_t& w1, svint8_t e0,
                              svint8_t e1) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b8();
    w0 = Stored<kAt>(rhs, w0);
    if constexpr (kRows == 1) {
      w1 = Stored<kAt>(rhs + svcntb(), w1);
      x1 = x0;
    } else {
      w1 = w0;
    }
    svmopa_za32_m(0, all, all, x0, Weights<kAt>(w0));
    svmopa_za32_m(1, all, all, x1, Weights<kAt>(w1));
    if constexpr (kOffsets && !S::kExcess) {
      svmops_za32_m(0, all, all, x0, e0);
      svmops_za32_m(1, all, all, x1, e1);
    }
  }
  // 16 k.
  template <int kRows, bool kOffsets>
  QUERN_SVE_INLINE void Step(const int8_t* lhs, const uint8_t* rhs, svint8_t e0,
                             svint8_t e1) __arm_streaming __arm_inout("za") {
    const auto x = L::Four(lhs, 0), y = L::Four(lhs, 4);
    svuint8_t w0 = svundef_u8(), w1 = svundef_u8();
    Group<0, kRows, kOffsets>(svget4(x, 0), svget4(x, 1), rhs, w0, w1, e0, e1);
    Group<1, kRows, kOffsets>(svget4(x, 2), svget4(x, 3), rhs, w0, w1, e0, e1);
    Group<2, kRows, kOffsets>(svget4(y, 0), svget4(y, 1), rhs, w0, w1, e0, e1);
    Group<3, kRows, kOffsets>(svget4(y, 2), svget4(y, 3), rhs, w0, w1, e0, e1);
  }

  // The sums of both vectors of rows over `length` k.
  QUERN_SVE_INLINE void SumRows(const int8_t* lhs, size_t length, int32_t* sums) __arm_streaming {
    const svint8_t one = svdup_s8(1);
    svint32_t sum0 = svdup_s32(0), sum1 = sum0;
    for (size_t k = 0; k < length; k += kStepK, lhs += 8 * svcntb()) {
      const auto x = L::Four(lhs, 0), y = L::Four(lhs, 4);
      sum0 = svdot(svdot(sum0, svget4(x, 0), one), svget4(x, 2), one);
      sum1 = svdot(svdot(sum1, svget4(x, 1), one), svget4(x, 3), one);
      sum0 = svdot(svdot(sum0, svget4(y, 0), one), svget4(y, 2), one);
      sum1 = svdot(svdot(sum1, svget4(y, 1), one), svget4(y, 3), one);
    }
    svst1(svptrue_b32(), sums, sum0);
    svst1_vnum(svptrue_b32(), sums, 1, sum1);
  }

  // What the multiplied weights of a vector of columns have too much: numbers of 8 bits.
  QUERN_SVE_INLINE svint32_t Excess(const GemmArgs& a, const char* offsets, int64_t vector) __arm_streaming {
    const svint32_t half = svdup_s32(1 << (kBits - 1));
    if (a.rhs_offset == Format::kF32) return svneg_x(svptrue_b32(), half);
    return svsub_x(svptrue_b32(), LoadZeroPoints(offsets, vector), half);
  }
  // In each byte of the columns' lanes.
  QUERN_SVE_INLINE svint8_t FourTimes(svint32_t e) __arm_streaming {
    const svbool_t all = svptrue_b32();
    return svreinterpret_s8(svmul_x(all, svand_x(all, e, 255), 0x01010101));
  }

  // Adds tiles 0 and 1, times their columns' scales, to those of the blocks before. rows: Keep's of the tiles' scales.
  QUERN_SVE_INLINE void Scale(svfloat32_t columns0, svfloat32_t columns1, const float* rows0,
                              const float* rows1) __arm_streaming __arm_inout("za") {
    const uint64_t end = svcntw() / S::kRows;
    for (uint64_t row = 0; row < end; ++row) {
      const auto x = S::template Read<0>(row), y = S::template Read<1>(row);
      if constexpr (kLhs == Format::kI8b) {
        S::template Add<2>(row, S::Times(x, S::Outer(rows0, row, columns0)));
        S::template Add<3>(row, S::Times(y, S::Outer(rows1, row, columns1)));
      } else {
        S::template Add<2>(row, S::Times(x, columns0));
        S::template Add<3>(row, S::Times(y, columns1));
      }
    }
  }
  // Adds the columns' minima times the rows' sums.
  QUERN_SVE_INLINE void AddMinima(svfloat32_t columns0, svfloat32_t columns1, const float* rows0,
                                  const float* rows1) __arm_streaming __arm_inout("za") {
    const uint64_t end = svcntw() / S::kRows;
    for (uint64_t row = 0; row < end; ++row) {
      S::template Add<2>(row, S::Outer(rows0, row, columns0));
      S::template Add<3>(row, S::Outer(rows1, row, columns1));
    }
  }

  // A panel by vector `vector` of the unit that lies `unit` bytes from the first; kRows 1: by both. kOffsets: the
  // weights have zero points or minima.
  template <int kRows, bool kOffsets>
  QUERN_SVE_INLINE void Product(const GemmArgs& a, const Panel& panel, size_t unit,
                                int64_t vector) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b32();
    const size_t length = kLhs == Format::kI8b ? kLhsBlock : a.block;
    const int64_t vector1 = kRows == 1 ? 1 : vector;
    const BlockColumns first = ColumnsOfBlock(a, 0), second = ColumnsOfBlock(a, 1);
    const char *scales = first.scales + unit, *offsets = first.offsets + unit;
    const int8_t* lhs = panel.lhs;
    const auto* rhs = static_cast<const uint8_t*>(a.rhs) + unit + static_cast<uint64_t>(vector) * svcntb();
    const uint64_t lhs_step = 8 * svcntb(), rhs_step = kBits * svcntb();
    const float* row_scales = panel.scales;
    int32_t* sums = panel.sums;
    size_t block_end = a.block;
    for (size_t begin = 0, i = 0; begin < a.k; begin += length, ++i) {
      if (begin == block_end) {
        block_end += a.block;
        scales += second.scales - first.scales;
        offsets += second.offsets - first.offsets;
      }
      const size_t part = a.k - begin < length ? a.k - begin : length;
      svint8_t e0 = svdup_s8(0), e1 = e0;
      if constexpr (kOffsets) {
        if (i >= panel.summed) SumRows(lhs, part, sums);
        if constexpr (!S::kExcess) {
          e0 = FourTimes(Excess(a, offsets, vector));
          e1 = FourTimes(Excess(a, offsets, vector1));
        }
      }
      svzero_mask_za(0x33);  // the tiles 0 and 1
      size_t k = 0;
      for (; k + kStepK < part; k += 2 * kStepK, lhs += 2 * lhs_step, rhs += 2 * rhs_step) {
        Step<kRows, kOffsets>(lhs, rhs, e0, e1);
        Step<kRows, kOffsets>(lhs + lhs_step, rhs + rhs_step, e0, e1);
      }
      if (k < part) {
        Step<kRows, kOffsets>(lhs, rhs, e0, e1);
        lhs += lhs_step;
        rhs += rhs_step;
      }
      constexpr int kSecond = kRows - 1;  // the second tile's vector of rows
      if constexpr (kOffsets && S::kExcess) {
        S::template TakeOff<0>(svld1(all, sums), Excess(a, offsets, vector));
        S::template TakeOff<1>(svld1_vnum(all, sums, kSecond), Excess(a, offsets, vector1));
      }
      float rows[2][kMostLanes];
      if constexpr (kLhs == Format::kI8b) {
        for (int r = 0; r < kRows; ++r) S::Keep(svld1_vnum(all, row_scales, r), rows[r]);
      }
      Scale(LoadScale(scales, a.rhs_scale, vector), LoadScale(scales, a.rhs_scale, vector1), rows[0], rows[kSecond]);
      if constexpr (kOffsets) {
        if (a.rhs_offset == Format::kF32) {
          for (int r = 0; r < kRows; ++r) {
            svfloat32_t x = svcvt_f32_x(all, svld1_vnum(all, sums, r));
            if constexpr (kLhs == Format::kI8b) x = svmul_x(all, x, svld1_vnum(all, row_scales, r));
            S::Keep(x, rows[r]);
          }
          const auto* minima = reinterpret_cast<const float*>(offsets);
          AddMinima(svld1_vnum(all, minima, vector), svld1_vnum(all, minima, vector1), rows[0], rows[kSecond]);
        }
        if (i < panel.summed) sums += 2 * svcntw();
      }
      if constexpr (kLhs == Format::kI8b) row_scales += 2 * svcntw();
    }
  }

  // Sums from what was accumulated so far.
  template <int T>
  QUERN_SVE_INLINE void Fetch(const GemmArgs& a, size_t m, size_t n) __arm_streaming __arm_inout("za") {
    const svbool_t pg = ColumnsFrom(a, n);
    for (uint64_t r = 0; r < svcntw() && m + r < a.m; ++r) {
      svld1_hor_za32(T, static_cast<uint32_t>(r), pg, RowAt(a.acc, m + r, a.acc_row_stride, n));
    }
  }

  // A panel of rows from m on by all columns.
  template <int kRows, bool kOffsets>
  QUERN_SVE_INLINE void Columns(const GemmArgs& a, const Panel& panel, size_t m) __arm_streaming __arm_inout("za") {
    const uint64_t lanes = svcntw();
    for (size_t n = 0, unit = 0; n < a.n; n += 2 * lanes, unit += a.rhs_unit_stride) {
      for (size_t vector = 0; vector < kRows && n + vector * lanes < a.n; ++vector) {
        const size_t n0 = n + vector * lanes;
        const size_t m1 = kRows == 1 ? m : m + lanes, n1 = kRows == 1 ? n0 + lanes : n0;
        svzero_za();
        if (!a.first_k) {
          Fetch<2>(a, m, n0);
          Fetch<3>(a, m1, n1);
        }
        Product<kRows, kOffsets>(a, panel, unit, static_cast<int64_t>(vector));
        TileSme<L, float>::template Finish<2>(a, m, n0, nullptr, 0, true);
        TileSme<L, float>::template Finish<3>(a, m1, n1, nullptr, 0, true);
      }
    }
  }

  template <bool kOffsets>
  QUERN_SVE_INLINE void Panels(const GemmArgs& a) __arm_streaming __arm_inout("za") {
    const uint64_t lanes = svcntw();
    const size_t length = kLhs == Format::kI8b ? kLhsBlock : a.block;
    alignas(64) int32_t sums[kOffsets ? kMostSums : 1];
    const char* lhs = static_cast<const char*>(a.lhs);
    const char* scales = static_cast<const char*>(a.lhs_scales);
    for (size_t m = 0; m < a.m; m += 2 * lanes, lhs += a.lhs_row_stride, scales += a.lhs_row_stride) {
      Panel panel{reinterpret_cast<const int8_t*>(lhs), reinterpret_cast<const float*>(scales), sums, 0};
      if constexpr (kOffsets) {
        const int8_t* x = panel.lhs;
        const size_t most = kMostSums / (2 * lanes) - 1;
        for (size_t k = 0; k < a.k && panel.summed < most; k += length, x += length * 2 * lanes, ++panel.summed) {
          SumRows(x, a.k - k < length ? a.k - k : length, sums + panel.summed * 2 * lanes);
        }
      }
      if (a.m - m <= lanes) {
        Columns<1, kOffsets>(a, panel, m);
      } else {
        Columns<2, kOffsets>(a, panel, m);
      }
    }
  }

  static void Body(void* argument) __arm_streaming __arm_inout("za") {
    const GemmArgs& a = *static_cast<const GemmArgs*>(argument);
    if (kElement == Format::kI8 || a.rhs_offset == Format::kNone) {
      Panels<false>(a);
    } else {
      Panels<true>(a);
    }
  }

  static void Run(const GemmArgs& a) { quern_sme_call(Body, const_cast<GemmArgs*>(&a)); }
};

}  // namespace
}  // namespace quern::ukernel
