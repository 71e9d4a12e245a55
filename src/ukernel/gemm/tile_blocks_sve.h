// The register tile of int8 rows by block-quantized weights on SVE: a unit of two vectors of columns, the dot products
// of tile_i8_sve.h within a block, float32 over blocks in the order of K, the same bits as tile_blocks.h. For kernel
// files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/tile_i8_sve.h"

#define QUERN_SVE_MODE
#include "ukernel/gemm/registers.h"
#include "ukernel/gemm/scales_sve.h"

namespace quern::ukernel {
namespace {

template <int I>
struct Index {
  static constexpr int value = I;
};
// f(Index<0>) ... f(Index<N - 1>)
template <int N, class F>
QUERN_INLINE void ForEach(const F& f) {
  if constexpr (N > 0) {
    ForEach<N - 1>(f);
    f(Index<N - 1>{});
  }
}

// One of several registers.
template <int I, class T, class... Rest>
QUERN_INLINE auto& Pick(T& first, Rest&... rest) {
  if constexpr (I == 0) {
    return first;
  } else {
    return Pick<I - 1>(rest...);
  }
}

// For each block: acc = acc + float(sum of q * (w - zero)) * scale, then + float(sum of q) * minimum where the weights
// have float offsets; every operation rounds on its own. kLhs kI8b: sums over 32 k, times the rows' scales too. Zero
// points come off the weights where the difference fits 8 bits. Where it does not, weights have their top bit turned
// over, which takes off 128, and what is left comes off by the sum of the row.
template <class D, Format kLhs, Format kElement, int MR>
struct TileBlocksSve {
  static constexpr int kBits = static_cast<int>(FormatBits(kElement));
  static constexpr bool kBytes = kBits == 8;
  static constexpr bool kSums = kElement == Format::kU8;  // of the rows, for zero points
  static constexpr size_t kLhsBlock = 32;
  static constexpr int kBlocks = (MR + D::kRows - 1) / D::kRows;  // an odd last row is computed twice
  static constexpr int kZeros = kBytes ? 0 : SveFields<kBits, D::kGroup>::kVectors;
  using Fields = SveFields<kBits, D::kGroup>;
  using Float = svfloat32_t;
  using Int = svint32_t;

  struct Rows {
    const char* p[kBlocks * D::kRows];
  };

  template <int kIndex>
  QUERN_INLINE static svint8_t Weight(const char* p, svuint8_t* const* zeros) {
    const svbool_t all = svptrue_b8();
    svuint8_t x = Fields::template One<kIndex>(p);
    if constexpr (kElement == Format::kU8) x = sveor_x(all, x, 0x80);
    if constexpr (!kBytes) x = svsub_x(all, x, *zeros[kIndex % Fields::kVectors]);
    return svreinterpret_s8(x);
  }
  template <int kFirst>
  QUERN_INLINE static svint8x4_t Weights(const char* p, svuint8_t* const* zeros) {
    return svcreate4(Weight<kFirst>(p, zeros), Weight<kFirst + 1>(p, zeros), Weight<kFirst + 2>(p, zeros),
                     Weight<kFirst + 3>(p, zeros));
  }

  // k [k, k + kStepK), of which rows may lack whole 16 after `end`.
  template <class... Dots>
  QUERN_INLINE static void Step(const Rows& rows, size_t k, size_t end, const char* rhs, svuint8_t* const* zeros,
                                Dots&... dots) {
    ForEach<Fields::kStepK / 16>([&](auto part) __attribute__((always_inline)) {
      constexpr int kPart = decltype(part)::value;
      if (kPart > 0 && k + 16 * kPart >= end) return;
      const svint8x4_t low = Weights<8 * kPart>(rhs, zeros), high = Weights<8 * kPart + 4>(rhs, zeros);
      ForEach<kBlocks>([&](auto block) __attribute__((always_inline)) {
        constexpr int kBlock = decltype(block)::value;
        const char* const* p = rows.p + kBlock * D::kRows;
        constexpr int kFirst = kBlock * D::kSums;
        if constexpr (D::kSums == 2) {
          D::template Multiply<1, 0>(p, k + 16 * kPart, 16, low, high, Pick<kFirst>(dots...),
                                     Pick<kFirst + 1>(dots...));
        } else {
          D::template Multiply<1, 0>(p, k + 16 * kPart, 16, low, high, Pick<kFirst>(dots...), Pick<kFirst + 1>(dots...),
                                     Pick<kFirst + 2>(dots...), Pick<kFirst + 3>(dots...));
        }
      });
    });
  }

  // Sum of row r over k [begin, end), whole 16.
  static int32_t RowSum(const Rows& rows, int r, size_t begin, size_t end) {
    const svbool_t piece = D::kPairs ? svptrue_pat_b8(SV_VL8) : svptrue_pat_b8(SV_VL16);
    const auto* p = reinterpret_cast<const int8_t*>(rows.p[r]) + (D::kPairs ? 2 * begin + r % 2 * 8 : begin);
    Int sum = svdup_s32(0);
    for (size_t k = begin; k < end; k += D::kPairs ? 8 : 16, p += 16) {
      sum = svdot(sum, svld1(piece, p), svdup_s8(1));
    }
    return static_cast<int32_t>(svaddv(svptrue_b32(), sum));
  }

  // The zero points in every byte of their columns' groups. kOwn: blocks may have zero points or minima of their own.
  template <bool kOwn>
  QUERN_INLINE static void LoadZeros(const GemmArgs& a, const BlockColumns& columns, svuint8_t* const* zeros) {
    const uint8_t constant = kOwn && a.rhs_offset == Format::kF32 ? 0 : 1 << (kBits - 1);
    ForEach<kZeros>([&](auto v) __attribute__((always_inline)) { *zeros[decltype(v)::value] = svdup_u8(constant); });
    if (!kOwn || a.rhs_offset != Format::kU8) return;
    const auto* p = reinterpret_cast<const uint8_t*>(columns.offsets);
    ForEach<kZeros>([&](auto v) __attribute__((always_inline)) {
      constexpr int kVector = decltype(v)::value;
      if constexpr (D::kGroup == 4) {
        const svuint32_t z = svld1ub_vnum_u32(svptrue_b32(), p, kVector);
        *zeros[kVector] = svreinterpret_u8(svmul_x(svptrue_b32(), z, 0x01010101u));
      } else {
        const svuint64_t z = svld1ub_vnum_u64(svptrue_b64(), p, kVector);
        *zeros[kVector] = svreinterpret_u8(svmul_x(svptrue_b64(), z, uint64_t{0x0101010101010101}));
      }
    });
  }

  // What an integer sum has too much after 128 is off, as a multiple of the row's sum.
  static Int Excess(const GemmArgs& a, const BlockColumns& columns, int64_t vector) {
    if (a.rhs_offset == Format::kF32) return svdup_s32(-128);
    return svsub_x(svptrue_b32(), LoadZeroPoints(columns.offsets, vector), 128);
  }

  static float LhsScale(const GemmArgs& a, int r, size_t k) {
    if (kLhs != Format::kI8b) return 1;
    constexpr int kUnit = D::kPairs ? 2 : 1;
    const char* rows = static_cast<const char*>(a.lhs_scales) + r / kUnit * a.lhs_row_stride;
    return reinterpret_cast<const float*>(rows)[k / kLhsBlock * kUnit + static_cast<size_t>(r % kUnit)];
  }

  // Vector v of row r. Compilers would read the sums as what they are cast to, and so keep them in memory.
  template <int r, int v, class... Dots>
  QUERN_INLINE static Int SumOf(const Dots&... dots) {
    constexpr int kFirst = r / D::kRows * D::kSums;
    if constexpr (D::kSums == 2) {
      return D::template Get<r % D::kRows, v>(Pick<kFirst>(dots...), Pick<kFirst + 1>(dots...));
    } else {
      Int p = Pick<kFirst>(dots...), q = Pick<kFirst + 1>(dots...);
      Int s = Pick<kFirst + 2>(dots...), t = Pick<kFirst + 3>(dots...);
      asm("" : "+w"(p), "+w"(q), "+w"(s), "+w"(t));
      return D::template Get<r % D::kRows, v>(p, q, s, t);
    }
  }

  // Where the sums over blocks are from block to block, in the end the call's: integers take the registers.
  struct Place {
    char* rows;
    size_t stride;  // bytes
  };
  QUERN_INLINE static float* RowOf(const Place& at, int r) {
    return reinterpret_cast<float*>(at.rows + static_cast<size_t>(r) * at.stride);
  }

  // Scales the sums over k [begin, end).
  template <class... Dots>
  QUERN_INLINE static void Finish(const GemmArgs& a, const BlockColumns& columns, const Rows& rows, size_t begin,
                                  size_t end, const Place& at, const Dots&... dots) {
    const svbool_t all = svptrue_b32();
    const svbool_t left = ColumnsFrom(a, 0), right = ColumnsFrom(a, svcntw());
    const Float low = LoadScale(columns.scales, a.rhs_scale, 0), high = LoadScale(columns.scales, a.rhs_scale, 1);
    ForEach<MR>([&](auto row) __attribute__((always_inline)) {
      constexpr int r = decltype(row)::value;
      Int p = SumOf<r, 0>(dots...), q = SumOf<r, 1>(dots...);
      if constexpr (kSums) {
        if (a.rhs_offset != Format::kNone) {
          const int32_t sum = RowSum(rows, r, begin, end);
          p = svmls_x(all, p, Excess(a, columns, 0), sum);
          q = svmls_x(all, q, Excess(a, columns, 1), sum);
        }
      }
      Float x = low, y = high;
      if constexpr (kLhs == Format::kI8b) {
        const float d = LhsScale(a, r, begin);
        x = svmul_x(all, x, d);
        y = svmul_x(all, y, d);
      }
      float* to = RowOf(at, r);
      svst1(left, to, svadd_x(all, svld1(left, to), svmul_x(all, svcvt_f32_x(all, p), x)));
      svst1_vnum(right, to, 1, svadd_x(all, svld1_vnum(right, to, 1), svmul_x(all, svcvt_f32_x(all, q), y)));
    });
    if (a.rhs_offset != Format::kF32) return;
    const auto* minima = reinterpret_cast<const float*>(columns.offsets);
    const Float first = svld1(all, minima), second = svld1_vnum(all, minima, 1);
    for (int r = 0; r < MR; ++r) {
      const float sum = static_cast<float>(RowSum(rows, r, begin, end)) * LhsScale(a, r, begin);
      float* to = RowOf(at, r);
      svst1(left, to, svadd_x(all, svld1(left, to), svmul_x(all, first, sum)));
      svst1_vnum(right, to, 1, svadd_x(all, svld1_vnum(right, to, 1), svmul_x(all, second, sum)));
    }
  }

  QUERN_INLINE static void Product(const GemmArgs& a, const Rows& rows, const Place& at) {
    const char* rhs = static_cast<const char*>(a.rhs);
    const size_t step = Fields::kStepVectors * svcntb();
    const size_t length = kLhs == Format::kI8b ? kLhsBlock : a.block;
    size_t block = 0, block_end = a.block;
    for (size_t begin = 0; begin < a.k; begin += length) {
      if (begin == block_end) {
        block_end += a.block;
        ++block;
      }
      const BlockColumns columns = ColumnsOfBlock(a, block);
      const size_t end = a.k - begin < length ? a.k : begin + length;
      WithRegisters<kZeros, svuint8_t>([&](svuint8_t* const* zeros) __attribute__((always_inline)) {
        LoadZeros<true>(a, columns, zeros);
        WithZeros<kBlocks * D::kSums>([&](auto&... dots) __attribute__((always_inline)) {
          for (size_t k = begin; k < end; k = Opaque(k + Fields::kStepK), rhs += step) {
            Step(rows, k, end, rhs, zeros, dots...);
          }
          Finish(a, columns, rows, begin, end, at, dots...);
        });
      });
    }
  }

  static void Run(const GemmArgs& a) {
    Rows rows;
    QUERN_UNROLL for (int r = 0; r < kBlocks * D::kRows; ++r) {
      const int row = r < MR ? r : MR - 1;
      rows.p[r] = static_cast<const char*>(a.lhs) + (D::kPairs ? row / D::kRows : row) * a.lhs_row_stride;
    }
    const Place at = a.last_k ? Place{static_cast<char*>(a.dst), a.dst_row_stride}
                              : Place{static_cast<char*>(a.acc), a.acc_row_stride};
    EachVector(a, [&](svbool_t pg, size_t r, size_t n) __attribute__((always_inline)) {
      StoreRow(a, pg, r, n, a.first_k ? svdup_f32(0) : FetchRow(a, pg, r, n));
    });
    Product(a, rows, at);
    if (!a.last_k || !a.op_count) return;
    EachVector(a, [&](svbool_t pg, size_t r, size_t n) __attribute__((always_inline)) {
      FinishRow(a, pg, r, n, svld1(pg, RowAt(a.dst, r, a.dst_row_stride, n)));
    });
  }

  template <class F>
  QUERN_INLINE static void EachVector(const GemmArgs& a, const F& f) {
    for (size_t r = 0; r < MR; ++r) {
      for (size_t n = 0; n < a.n; n += svcntw()) f(ColumnsFrom(a, n), r, n);
    }
  }
};

// The body for the call's m.
template <class D, Format kLhs, Format kElement, int MR>
void DispatchTileBlocksSve(const GemmArgs& a) {
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileBlocksSve<D, kLhs, kElement, MR - 1>(a);
  }
  TileBlocksSve<D, kLhs, kElement, MR>::Run(a);
}

}  // namespace
}  // namespace quern::ukernel
