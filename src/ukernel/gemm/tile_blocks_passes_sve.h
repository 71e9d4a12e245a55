// The tile of many int8 rows by block-quantized weights on SVE: a unit of two vectors of columns, integer sums within a
// block, float32 over blocks in the order of K, the same bits as tile_blocks.h. For kernel files only: everything has
// internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/tile_blocks_sve.h"

namespace quern::ukernel {
namespace {

// 32 k of a unit become bytes once, in sixteen vectors, and stay in registers while the rows pass by, two at a time;
// their four sums are in the call's scratch between pieces. Weights whose zero points or minima need the sums of the
// rows, and blocks that are no multiple of 32, take the tiles of kFew rows (DispatchTileBlocksSve).
template <class D, Format kLhs, Format kElement, int kFew>
struct TileBlocksPassesSve {
  using Few = TileBlocksSve<D, kLhs, kElement, 1>;
  using Float = svfloat32_t;
  using Int = svint32_t;

  static constexpr bool kLhsBlocks = kLhs == Format::kI8b;
  static constexpr bool kPairs = D::kPairs;  // of rows: their sums by two columns are in every 128 bits
  static constexpr size_t kPiece = 32, kSpread = kPairs ? 2 : 1;
  static constexpr int kScales = kPairs ? 4 : 2;

  // Two rows at the piece's first k, the same where there is but one. Pairs are at `first` alone. Scales are `scales`
  // floats from there in all rows of a packed left side, so that they need no pointers of their own.
  struct Left {
    const char *first, *second;
    ptrdiff_t scales;
  };

  QUERN_INLINE static svint8_t Load(const char* p) { return svld1rq(svptrue_b8(), reinterpret_cast<const int8_t*>(p)); }

  template <int kGroup>
  QUERN_INLINE static void Multiply(svint8_t* const* w, const svint8_t& x, const svint8_t& y, Int* const* sums) {
    if constexpr (kPairs) {
      ForEach<4>([&](auto i) __attribute__((always_inline)) {
        constexpr int kSum = decltype(i)::value;
        *sums[kSum] = svmmla(*sums[kSum], x, *w[kGroup * 4 + kSum]);
      });
    } else {
      *sums[0] = svdot_lane(*sums[0], *w[kGroup * 2], x, kGroup % 4);
      *sums[1] = svdot_lane(*sums[1], *w[kGroup * 2 + 1], x, kGroup % 4);
      *sums[2] = svdot_lane(*sums[2], *w[kGroup * 2], y, kGroup % 4);
      *sums[3] = svdot_lane(*sums[3], *w[kGroup * 2 + 1], y, kGroup % 4);
    }
  }

  QUERN_INLINE static void MultiplyAll(svint8_t* const* w, const Left& left, Int* const* sums) {
    const char *p = left.first, *q = left.second;
    if constexpr (kPairs) {
      const svint8_t a = Load(p), b = Load(p + 16), c = Load(p + 32), d = Load(p + 48);
      Multiply<0>(w, a, a, sums);
      Multiply<1>(w, b, b, sums);
      Multiply<2>(w, c, c, sums);
      Multiply<3>(w, d, d, sums);
    } else {
      const svint8_t p0 = Load(p), p1 = Load(p + 16), q0 = Load(q), q1 = Load(q + 16);
      ForEach<4>([&](auto g) __attribute__((always_inline)) { Multiply<decltype(g)::value>(w, p0, q0, sums); });
      ForEach<4>([&](auto g) __attribute__((always_inline)) { Multiply<4 + decltype(g)::value>(w, p1, q1, sums); });
    }
  }

  QUERN_INLINE static Float Twice(Float x, int half) {
    const svfloat64_t y = svreinterpret_f64(x);
    Float twice = svreinterpret_f32(half ? svzip2(y, y) : svzip1(y, y));
    asm("" : "+w"(twice));  // what is kept as another type than it is used as, compilers keep in memory
    return twice;
  }

  // Of a block's columns, as sums have them.
  QUERN_INLINE static void LoadScales(const GemmArgs& a, const char* p, Float* const* scale) {
    const Float low = LoadScale(p, a.rhs_scale, 0), high = LoadScale(p, a.rhs_scale, 1);
    if constexpr (kPairs) {
      *scale[0] = Twice(low, 0);
      *scale[1] = Twice(low, 1);
      *scale[2] = Twice(high, 0);
      *scale[3] = Twice(high, 1);
    } else {
      *scale[0] = low;
      *scale[1] = high;
    }
  }

  // The lanes of the first or of the second row.
  QUERN_INLINE static svbool_t HalvesOf(size_t row) {
    return svtrn1_b64(row ? svpfalse() : svptrue_b8(), row ? svptrue_b8() : svpfalse());
  }

  // The scales of two rows, for the lanes of the first two sums and of the others.
  QUERN_INLINE static Float ScalesAt(const char* rows, ptrdiff_t at) {
    const float* p = reinterpret_cast<const float*>(rows) + at;
    if constexpr (!kPairs) return svld1rq(svptrue_pat_b32(SV_VL1), p);
    const svbool_t all = svptrue_b32();
    const svuint32_t from = svand_x(all, svlsr_x(all, svindex_u32(0, 1), 1), 1);  // 0 0 1 1 in every 128 bits
    return svtbl(svld1(svptrue_pat_b32(SV_VL2), p), from);
  }
  QUERN_INLINE static Float TimesRow(Float x, Float row) {
    if constexpr (!kPairs) return svmul_lane(x, row, 0);
    return svmul_x(svptrue_b32(), x, row);
  }

  // Adds the scaled sums of a block to those at vector kAt.
  template <int kAt>
  QUERN_INLINE static void AddBlock(Float* const* scale, const Left& left, Int* const* sums, float* to) {
    const svbool_t all = svptrue_b32();
    Float first = svdup_f32(1), next = first;
    if constexpr (kLhsBlocks) first = next = ScalesAt(left.first, left.scales);
    if constexpr (kLhsBlocks && !kPairs) next = ScalesAt(left.second, left.scales);
    ForEach<4>([&](auto i) __attribute__((always_inline)) {
      constexpr int kSum = decltype(i)::value, kTo = kAt + kSum;
      Float x = *scale[kSum % kScales];
      if constexpr (kLhsBlocks) x = TimesRow(x, kSum < 2 ? first : next);
      x = svmul_x(all, svcvt_f32_x(all, *sums[kSum]), x);
      svst1_vnum(all, to, kTo, svadd_x(all, svld1_vnum(all, to, kTo), x));
    });
  }

  // Moves a pointer where it is used. Compilers would move but one, and add to it for the others.
  template <bool kUsed>
  QUERN_INLINE static void Advance(const char*& p, ptrdiff_t by) {
    if constexpr (kUsed) {
      p += by;
      asm("" : "+r"(p));
    }
  }

  // f(Index<vector>) for two rows after two, the vectors of whose sums are that many from `to`.
  template <class F>
  QUERN_INLINE static void EachTwo(const GemmArgs& a, Left& left, float*& to, const F& f) {
    const ptrdiff_t two = kPairs ? a.lhs_row_stride : 2 * a.lhs_row_stride;
    // Loads and stores reach from 8 vectors before a pointer to 7 after it: the sums of four times two rows.
    constexpr int kTimes = 4, kFirst = -8;
    const auto next = [&](auto at) __attribute__((always_inline)) {
      f(at);
      Advance<true>(left.first, two);
      Advance<!kPairs>(left.second, two);
    };
    to -= kFirst * static_cast<int64_t>(svcntw());
    asm("" : "+r"(to));  // compilers would take it off again, and reach half as far
    for (size_t i = a.m / (2 * kTimes); i > 0; --i) {
      ForEach<kTimes>([&](auto j) __attribute__((always_inline)) { next(Index<kFirst + 4 * decltype(j)::value>{}); });
      to += 4 * kTimes * svcntw();
    }
    for (size_t i = a.m % (2 * kTimes) / 2; i > 0; --i, to += 4 * svcntw()) next(Index<kFirst>{});
    left.second = left.first;
    if (a.m % 2) f(Index<kFirst>{});
  }

  // A piece of all rows: a whole block, scaled and added to float32 in `to`, or added to int32 there. kOwnZeros: blocks
  // have zero points of their own.
  template <bool kWhole, bool kOwnZeros>
  QUERN_INLINE static void Pass(const GemmArgs& a, Left left, const char* rhs, const BlockColumns& columns, float* to) {
    const svbool_t all = svptrue_b32();
    WithRegisters<16, svint8_t>([&](svint8_t* const* w) __attribute__((always_inline)) {
      WithRegisters<Few::kZeros, svuint8_t>([&](svuint8_t* const* zeros) __attribute__((always_inline)) {
        Few::template LoadZeros<kOwnZeros>(a, columns, zeros);
        ForEach<16>([&](auto i) __attribute__((always_inline)) {
          *w[decltype(i)::value] = Few::template Weight<decltype(i)::value>(rhs, zeros);
        });
      });
      WithRegisters<kScales, Float>([&](Float* const* scale) __attribute__((always_inline)) {
        if constexpr (kWhole) LoadScales(a, columns.scales, scale);
        EachTwo(a, left, to, [&](auto at) __attribute__((always_inline)) {
          constexpr int kAt = decltype(at)::value;
          WithRegisters<4, Int>([&](Int* const* sums) __attribute__((always_inline)) {
            auto* ints = reinterpret_cast<int32_t*>(to);
            ForEach<4>([&](auto i) __attribute__((always_inline)) {
              constexpr int kSum = decltype(i)::value;
              *sums[kSum] = kWhole ? svdup_s32(0) : svld1_vnum(all, ints, kAt + kSum);
            });
            MultiplyAll(w, left, sums);
            if constexpr (kWhole) {
              AddBlock<kAt>(scale, left, sums, to);
            } else {
              ForEach<4>([&](auto i) __attribute__((always_inline)) {
                constexpr int kSum = decltype(i)::value;
                svst1_vnum(all, ints, kAt + kSum, *sums[kSum]);
              });
            }
          });
        });
      });
    });
  }

  // Scales the sums of a block's pieces, which are zero then.
  static void FinishBlock(const GemmArgs& a, const Left& left, const BlockColumns& columns, int32_t* from, float* to) {
    const svbool_t all = svptrue_b32();
    WithRegisters<kScales, Float>([&](Float* const* scale) __attribute__((always_inline)) {
      LoadScales(a, columns.scales, scale);
      for (size_t r = 0; r < a.m; r += 2, from += 4 * svcntw(), to += 4 * svcntw()) {
        WithRegisters<4, Int>([&](Int* const* sums) __attribute__((always_inline)) {
          ForEach<4>([&](auto i) __attribute__((always_inline)) {
            *sums[decltype(i)::value] = svld1_vnum(all, from, decltype(i)::value);
            svst1_vnum(all, from, decltype(i)::value, svdup_s32(0));
          });
          AddBlock<0>(scale, left, sums, to);
        });
      }
    });
  }

  template <bool kWhole, bool kOwnZeros>
  static void Product(const GemmArgs& a, float* sums, int32_t* dots) {
    const char* rhs = static_cast<const char*>(a.rhs);
    const size_t piece_bytes = kPiece / 16 * 8 * svcntb() * Few::kBits / 8;
    const auto* rows = static_cast<const char*>(a.lhs);
    Left left{rows, rows + a.lhs_row_stride, 0};
    if constexpr (kLhsBlocks) left.scales = (static_cast<const char*>(a.lhs_scales) - rows) / ptrdiff_t{sizeof(float)};
    constexpr auto kNextScales = static_cast<ptrdiff_t>(kSpread) * (1 - static_cast<ptrdiff_t>(kPiece / sizeof(float)));
    BlockColumns columns = ColumnsOfBlock(a, 0);
    const BlockColumns next = ColumnsOfBlock(a, 1);
    size_t in_block = a.block / kPiece;
    for (size_t pieces = CeilDiv(a.k, kPiece); pieces > 0; --pieces, rhs += piece_bytes) {
      Pass<kWhole, kOwnZeros>(a, left, rhs, columns, kWhole ? sums : reinterpret_cast<float*>(dots));
      left.first += kPiece * kSpread;
      left.second += kPiece * kSpread;
      left.scales += kNextScales;
      if (--in_block > 0 && (kWhole || pieces > 1)) continue;
      if (!kWhole) FinishBlock(a, left, columns, dots, sums);
      in_block = a.block / kPiece;
      columns.scales += next.scales - static_cast<const char*>(a.rhs_scales);
      columns.offsets += next.offsets - static_cast<const char*>(a.rhs_offsets);
    }
  }

  // The call's accumulators as sums have them, and back.
  static void Start(const GemmArgs& a, float* to) {
    for (size_t r = 0; r < RoundUp(a.m, 2); ++r) {
      for (size_t v = 0; v < 2; ++v) {
        const svbool_t pg = ColumnsFrom(a, v * svcntw());
        const Float x = a.first_k || r >= a.m ? svdup_f32(0) : FetchRow(a, pg, r, v * svcntw());
        if constexpr (!kPairs) {
          svst1_vnum(svptrue_b32(), to, static_cast<int64_t>(r * 2 + v), x);
        } else {
          for (int i = 0; i < 2; ++i)
            svst1_vnum(HalvesOf(r % 2), to, static_cast<int64_t>(r / 2 * 4 + v * 2) + i, Twice(x, i));
        }
      }
    }
  }
  static void Finish(const GemmArgs& a, const float* from) {
    const svbool_t all = svptrue_b32();
    for (size_t r = 0; r < a.m; ++r) {
      for (size_t v = 0; v < 2 && v * svcntw() < a.n; ++v) {
        const float* p = from + (kPairs ? r / 2 * 4 + v * 2 : r * 2 + v) * svcntw();
        Float x = svld1(all, p);
        if constexpr (kPairs) {
          const svfloat64_t first = svreinterpret_f64(x), second = svreinterpret_f64(svld1_vnum(all, p, 1));
          x = svreinterpret_f32(r % 2 ? svuzp2(first, second) : svuzp1(first, second));
        }
        FinishVector(a, r, v * svcntw(), x);
      }
    }
  }

  static void InTiles(const GemmArgs& a) {
    GemmArgs part = a;
    for (size_t r = 0; r < a.m; r += kFew) {
      part.m = a.m - r < kFew ? a.m - r : kFew;
      DispatchTileBlocksSve<D, kLhs, kElement, kFew>(part);
      part.m0 += kFew;
      part.lhs = static_cast<const char*>(part.lhs) + kFew / static_cast<int>(kSpread) * a.lhs_row_stride;
      part.lhs_scales = static_cast<const char*>(part.lhs_scales) + kFew / static_cast<int>(kSpread) * a.lhs_row_stride;
      part.acc = static_cast<char*>(part.acc) + kFew * a.acc_row_stride;
      part.dst = static_cast<char*>(part.dst) + kFew * a.dst_row_stride;
    }
  }

  template <bool kOwnZeros>
  static void Blocks(const GemmArgs& a, bool whole, float* sums, int32_t* dots) {
    if (whole) return Product<true, kOwnZeros>(a, sums, dots);
    if constexpr (!kLhsBlocks) {
      for (size_t i = 0; i < RoundUp(a.m, 2) * 2; ++i)
        svst1_vnum(svptrue_b32(), dots, static_cast<int64_t>(i), svdup_s32(0));
      Product<false, kOwnZeros>(a, sums, dots);
    }
  }

  static void Run(const GemmArgs& a) {
    const bool whole = kLhsBlocks || a.block == kPiece;
    const bool summed = a.rhs_offset == Format::kF32 || (Few::kBytes && a.rhs_offset != Format::kNone);
    if (summed || (!whole && a.block % kPiece)) return InTiles(a);
    auto* sums = static_cast<float*>(a.scratch);
    auto* dots = reinterpret_cast<int32_t*>(sums + RoundUp(a.m, 2) * 2 * svcntw());
    Start(a, sums);
    if (Few::kBytes || a.rhs_offset == Format::kNone) {
      Blocks<false>(a, whole, sums, dots);
    } else if constexpr (!Few::kBytes) {
      Blocks<true>(a, whole, sums, dots);
    }
    Finish(a, sums);
  }
};

}  // namespace
}  // namespace quern::ukernel
