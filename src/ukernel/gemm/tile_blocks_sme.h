// int8 rows by block-quantized weights on SME: outer products of the integers of a block into two of ZA's tiles, which
// then are scaled and added to float32 sums in the other two; blocks in the order of K, the same bits as tile_blocks.h.
// A call covers a whole panel, so that streaming mode is entered once. For kernel files only: everything has internal
// linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/scales_sve.h"
#include "ukernel/gemm/tile_sme.h"

namespace quern::ukernel {
namespace {

// A vector of rows by a unit of two vectors of columns. For each block: acc = acc + float(sum of q * (w - zero)) *
// scale, then + float(sum of q) * minimum where the weights have float offsets; every operation rounds on its own.
// kLhs kI8b: sums over 32 k, times the rows' scales too. Weights are multiplied as they are stored, those of 8 bits
// less 128: what that is too much comes off as an outer product of the rows' sums.
// S: the loads of tile_sme.h as L, and kRows rows of ZA's tiles at a time, those from `row` on that are lanes / kRows
// apart: Read<T>(row) as float32, Add<T>(row, x), Scalars(p) of such rows, Times. kExcess: it has an outer product of
// the sums, S::TakeOff; else groups take the excess off as they come. (slices_sme.h, slices_sme2.h)
template <class S, Format kLhs, Format kElement>
struct TileBlocksSme {
  static constexpr int kBits = static_cast<int>(FormatBits(kElement));
  static constexpr bool kRowSums = kElement != Format::kI8;
  static constexpr size_t kLhsBlock = 32;
  static constexpr size_t kStepK = 16;
  static constexpr size_t kMostLanes = 64;
  using L = typename S::L;

  // What a vector of rows has at hand for a block.
  struct Rows {
    const float* scales;        // kI8b: of each row
    float minimum[kMostLanes];  // the factors of the minima
  };

  // 4 k of a vector of rows by both vectors of columns.
  QUERN_SVE_INLINE void Group(const int8_t* lhs, svint8_t w0, svint8_t w1, svint8_t e0, svint8_t e1,
                              svint32_t& row_sums) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b8();
    const svint8_t x = svld1(all, lhs);
    svmopa_za32_m(0, all, all, x, w0);
    svmopa_za32_m(1, all, all, x, w1);
    if constexpr (kRowSums && !S::kExcess) {
      svmops_za32_m(0, all, all, x, e0);
      svmops_za32_m(1, all, all, x, e1);
    }
    if constexpr (kRowSums) row_sums = svdot(row_sums, x, svdup_s8(1));
  }

  // Field kField of the bytes of a vector.
  template <int kField>
  QUERN_SVE_INLINE svint8_t Field(svuint8_t x) __arm_streaming {
    const svbool_t all = svptrue_b8();
    if constexpr (kBits == 8) {
      if constexpr (kElement == Format::kU8) x = sveor_x(all, x, 0x80);
    } else {
      if constexpr (kField > 0) x = svlsr_x(all, x, kField * kBits);
      if constexpr ((kField + 1) * kBits < 8) x = svand_x(all, x, (1 << kBits) - 1);
    }
    return svreinterpret_s8(x);
  }

  // 16 k; panels have two vectors of rows, of which one is multiplied. e0, e1: what each byte has too much.
  QUERN_SVE_INLINE void Step(const int8_t* lhs, const uint8_t* rhs, svint8_t e0, svint8_t e1,
                             svint32_t& row_sums) __arm_streaming __arm_inout("za") {
    const uint64_t group = 2 * svcntb();
    if constexpr (kBits == 2) {
      const svuint8x2_t w = L::Two(rhs);
      Group(lhs, Field<0>(svget2(w, 0)), Field<0>(svget2(w, 1)), e0, e1, row_sums);
      Group(lhs + group, Field<1>(svget2(w, 0)), Field<1>(svget2(w, 1)), e0, e1, row_sums);
      Group(lhs + 2 * group, Field<2>(svget2(w, 0)), Field<2>(svget2(w, 1)), e0, e1, row_sums);
      Group(lhs + 3 * group, Field<3>(svget2(w, 0)), Field<3>(svget2(w, 1)), e0, e1, row_sums);
    } else {
      constexpr int kSecond = kBits == 4 ? 1 : 0;
      constexpr int kThird = kBits == 4 ? 0 : 2;  // vectors of storage of the second group, within four
      svuint8x4_t w = L::Four(rhs, 0);
      Group(lhs, Field<0>(svget4(w, 0)), Field<0>(svget4(w, 1)), e0, e1, row_sums);
      Group(lhs + group, Field<kSecond>(svget4(w, kThird)), Field<kSecond>(svget4(w, kThird + 1)), e0, e1, row_sums);
      if constexpr (kBits == 8) w = L::Four(rhs + 2 * group, 0);
      constexpr int kFourth = kBits == 4 ? 2 : 0;
      Group(lhs + 2 * group, Field<0>(svget4(w, kFourth)), Field<0>(svget4(w, kFourth + 1)), e0, e1, row_sums);
      Group(lhs + 3 * group, Field<kSecond>(svget4(w, 2)), Field<kSecond>(svget4(w, 3)), e0, e1, row_sums);
    }
  }

  // What the weights of a vector of columns have too much: a number of 8 bits.
  QUERN_SVE_INLINE svint32_t Excess(const GemmArgs& a, const BlockColumns& columns, int64_t vector) __arm_streaming {
    svint32_t e = svdup_s32(a.rhs_offset == Format::kF32 ? 0 : 1 << (kBits - 1));
    if (a.rhs_offset == Format::kU8) e = LoadZeroPoints(columns.offsets, vector);
    if constexpr (kBits == 8) e = svsub_x(svptrue_b32(), e, 128);
    return e;
  }
  // In each byte of the columns' lanes.
  QUERN_SVE_INLINE svint8_t FourTimes(svint32_t e) __arm_streaming {
    const svbool_t all = svptrue_b32();
    return svreinterpret_s8(svmul_x(all, svand_x(all, e, 255), 0x01010101));
  }

  // Adds the scaled sums of a block to those of the blocks before.
  QUERN_SVE_INLINE void Scale(const GemmArgs& a, const BlockColumns& columns,
                              const Rows& rows) __arm_streaming __arm_inout("za") {
    const svfloat32_t low = LoadScale(columns.scales, a.rhs_scale, 0), high = LoadScale(columns.scales, a.rhs_scale, 1);
    const auto end = static_cast<uint32_t>(svcntw() / S::kRows);
    for (uint32_t row = 0; row < end; ++row) {
      const auto x = S::template Read<0>(row), y = S::template Read<1>(row);
      if constexpr (kLhs == Format::kI8b) {
        const auto d = S::Scalars(rows.scales + row);
        S::template Add<2>(row, S::Times(x, S::Times(d, low)));
        S::template Add<3>(row, S::Times(y, S::Times(d, high)));
      } else {
        S::template Add<2>(row, S::Times(x, low));
        S::template Add<3>(row, S::Times(y, high));
      }
    }
    if (!kRowSums || a.rhs_offset != Format::kF32) return;
    const auto* minima = reinterpret_cast<const float*>(columns.offsets);
    const svfloat32_t first = svld1(svptrue_b32(), minima), second = svld1_vnum(svptrue_b32(), minima, 1);
    for (uint32_t row = 0; row < end; ++row) {
      const auto sums = S::Scalars(rows.minimum + row);
      S::template Add<2>(row, S::Times(sums, first));
      S::template Add<3>(row, S::Times(sums, second));
    }
  }

  // A vector of rows by a unit. `half`: the vector's place in the panel.
  QUERN_SVE_INLINE void Product(const GemmArgs& a, const int8_t* lhs, const float* lhs_scales, const uint8_t* rhs,
                                size_t unit) __arm_streaming __arm_inout("za") {
    const size_t length = kLhs == Format::kI8b ? kLhsBlock : a.block;
    const uint64_t lhs_step = 8 * svcntb(), rhs_step = kBits * svcntb();
    size_t block = 0, block_end = a.block;
    for (size_t begin = 0; begin < a.k; begin += length) {
      if (begin == block_end) {
        block_end += a.block;
        ++block;
      }
      BlockColumns columns = ColumnsOfBlock(a, block);
      columns.scales += unit;
      columns.offsets += unit;
      svzero_mask_za(0x33);  // the tiles 0 and 1
      svint32_t sums = svdup_s32(0);
      svint8_t e0 = svdup_s8(0), e1 = e0;
      if constexpr (kRowSums && !S::kExcess) {
        e0 = FourTimes(Excess(a, columns, 0));
        e1 = FourTimes(Excess(a, columns, 1));
      }
      const size_t end = a.k - begin < length ? a.k : begin + length;
      for (size_t k = begin; k < end; k += kStepK, lhs += lhs_step, rhs += rhs_step) Step(lhs, rhs, e0, e1, sums);
      Rows rows;
      rows.scales = lhs_scales;
      if constexpr (kRowSums) {
        const svbool_t all = svptrue_b8();
        if constexpr (S::kExcess) {
          if (kBits < 8 || a.rhs_offset != Format::kNone) {
            S::TakeOff(sums, Excess(a, columns, 0), Excess(a, columns, 1));
          }
        }
        if (a.rhs_offset == Format::kF32) {
          svfloat32_t x = svcvt_f32_x(all, sums);
          if constexpr (kLhs == Format::kI8b) x = svmul_x(all, x, svld1(all, lhs_scales));
          svst1(all, rows.minimum, x);
        }
      }
      Scale(a, columns, rows);
      if constexpr (kLhs == Format::kI8b) lhs_scales += 2 * svcntw();
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

  static void Body(void* argument) __arm_streaming __arm_inout("za") {
    const GemmArgs& a = *static_cast<const GemmArgs*>(argument);
    const uint64_t lanes = svcntw();
    for (size_t n = 0, unit = 0; n < a.n; n += 2 * lanes, unit += a.rhs_unit_stride) {
      for (size_t m = 0; m < a.m; m += lanes) {
        const size_t half = m / lanes % 2;
        const ptrdiff_t panel = static_cast<ptrdiff_t>(m / (2 * lanes)) * a.lhs_row_stride;
        const auto* lhs = static_cast<const int8_t*>(a.lhs) + panel + half * svcntb();
        const auto* scales = static_cast<const char*>(a.lhs_scales) + panel + half * svcntb();
        svzero_za();
        if (!a.first_k) {
          Fetch<2>(a, m, n);
          Fetch<3>(a, m, n + lanes);
        }
        Product(a, lhs, reinterpret_cast<const float*>(scales), static_cast<const uint8_t*>(a.rhs) + unit, unit);
        TileSme<L, float>::template Finish<2>(a, m, n, nullptr, 0, true);
        TileSme<L, float>::template Finish<3>(a, m, n + lanes, nullptr, 0, true);
      }
    }
  }

  static void Run(const GemmArgs& a) { quern_sme_call(Body, const_cast<GemmArgs*>(&a)); }
};

}  // namespace
}  // namespace quern::ukernel
