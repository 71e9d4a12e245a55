// Tiles of multiply-adds one after another in one call: where K is short, what a call begins and ends with is a good
// part of its time. For kernel files only: internal linkage.
#pragma once

#include "ukernel/gemm/tile_fma.h"

namespace quern::ukernel {
namespace {

// A call of `many_tiles` (gemm.h), of tiles of MR rows.
template <class V, int MR, int NU, bool kNarrow = false>
struct TilesFma : TileFma<V, MR, NU, FloatOperands<V>, kNarrow> {
  using Tile = TileFma<V, MR, NU, FloatOperands<V>, kNarrow>;
  using typename Tile::Mask;
  using typename Tile::Sums;

  // Where the tile asks for weights out of L2.
  static constexpr bool kAsks = Tile::kAsksL1 && Tile::kAsksAhead;

  // Rows by a pointer each and one index, of which the compiler knows nothing: clang 19 would move each pointer on.
  struct PointersAt {
    const float* row[MR];
    size_t at = 0;
    PointersAt(const char* lhs, ptrdiff_t row_stride) {
      QUERN_UNROLL for (int r = 0; r < MR; ++r) row[r] = reinterpret_cast<const float*>(lhs + r * row_stride);
    }
    QUERN_INLINE const float* At(int r, size_t k) const { return row[r] + at + k; }
    QUERN_INLINE void Advance(size_t k) {
      at += k;
      asm("" : "+r"(at));
    }
  };
  using Rows = std::conditional_t<HasIndexedRows<V>, typename Tile::EvenRows, PointersAt>;

  // K by fours, then two and one. kAhead: lines of the weights are asked for ahead.
  template <bool kAhead>
  QUERN_INLINE static void Steps(Sums& sums, Rows rows, const char* rhs, size_t unit_stride, size_t k_count,
                                 Mask tail) {
    const auto steps = [&](auto count) __attribute__((always_inline)) {
      QUERN_UNROLL for (size_t u = 0; u < count; ++u) {
        Tile::template Step<false, 0, kAhead>(sums, rows, u, rhs + u * Tile::kUnitK, unit_stride, tail);
      }
      rhs += count * Tile::kUnitK;
      rows.Advance(count);
    };
    constexpr size_t kUnroll = 4;
    for (size_t left = k_count / kUnroll; left > 0; --left) steps(std::integral_constant<size_t, kUnroll>());
    if (k_count & 2) steps(std::integral_constant<size_t, 2>());
    if (k_count & 1) steps(std::integral_constant<size_t, 1>());
  }

  // Not inline: two bodies in one function would keep accumulators in memory.
  [[gnu::noinline]] static void Run(const GemmArgs& a) {
    const typename Tile::Tail tail = Tile::MakeTail(a.n);
    const Tap whole;
    const bool in_taps = a.lhs_form == kLhsTaps;
    const Tap* const taps = in_taps ? a.taps : &whole;
    const Tap* const end = taps + (in_taps ? a.tap_count : 1);
    const bool few = a.k * static_cast<size_t>(end - taps) < Tile::kFewK;  // so that the weights stay in L1
    const char* lhs = static_cast<const char*>(a.lhs);
    char* dst = static_cast<char*>(a.dst);
    for (size_t m = 0; m < a.m; m += MR) {
      Sums sums;
      Tile::SetZero(sums);
      for (const Tap* tap = taps; tap != end; ++tap) {
        const char* const first = lhs + tap->lhs_offset;
        const char* const rhs = static_cast<const char*>(a.rhs) + tap->rhs_offset;
        if constexpr (Tile::kManyRows) {
          Tile::template EvenSegment<false>(sums, first, a.lhs_row_stride, rhs, Tile::kUnitK, a.k, tail.mask);
        } else if constexpr (Tile::kSets > 1) {
          const char* nothing = nullptr;  // is asked for
          Tile::template Segment<false>(sums, Rows(first, a.lhs_row_stride), rhs, a.rhs_unit_stride, Tile::kUnitK, a.k,
                                        tail.mask, nothing, false);
        } else if (kAsks && !few) {
          Steps<kAsks>(sums, Rows(first, a.lhs_row_stride), rhs, a.rhs_unit_stride, a.k, tail.mask);
        } else {
          Steps<false>(sums, Rows(first, a.lhs_row_stride), rhs, a.rhs_unit_stride, a.k, tail.mask);
        }
      }
      if constexpr (kNarrow) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) sums.wide[r][Tile::kVectors - 1] = V::Widen(sums.last[r]);
      }
      Tile::Apply(a, a.ops, a.ops + a.op_count, sums.wide, tail, a.m0 + m);
      Tile::Write(dst, a.dst_row_stride, sums.wide, tail);
      lhs += MR * a.lhs_row_stride;
      dst += MR * a.dst_row_stride;
    }
  }
};

template <class V, int MR, int NU>
void RunTilesFma(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * V::kUnit)) return RunTilesFma<V, MR, NU - 1>(a);
  }
  if constexpr (HasNarrow<V> && NU <= NarrowUnits(MR)) {
    if (a.n <= static_cast<size_t>((NU - 1) * V::kUnit + V::kNarrowLanes)) return TilesFma<V, MR, NU, true>::Run(a);
  }
  if constexpr (NU == 1 && !UnitOf<V>::kHalf && V::kUnit > V::kLanes) {
    if (a.n <= static_cast<size_t>(V::kUnit / 2)) return TilesFma<HalfUnit<V>, MR, NU>::Run(a);
  }
  TilesFma<V, MR, NU>::Run(a);
}

// DispatchTileFma, of rows with `many_tiles`.
template <class V, int MR, int NU>
void DispatchTilesFma(const GemmArgs& a) {
  if (a.m > static_cast<size_t>(MR)) return RunTilesFma<V, MR, NU>(a);
  DispatchTileFma<V, MR, NU>(a);
}

// The descriptor of a row whose body is DispatchTilesFma.
[[maybe_unused]] constexpr GemmKernel OfManyTiles(GemmKernel row) {
  row.many_tiles = true;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
