// A few int8 rows by block-quantized weights, part of tile_blocks.h: the weights are read once, as they lie in memory,
// and the results of all rows stay in registers along K. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/gemm.h"
#include "ukernel/gemm/block_zero.h"
#include "ukernel/gemm/prefetch.h"
#include "ukernel/pin_order.h"

namespace quern::ukernel {
namespace {

// Tile: a TileBlocks, whose pieces, sums and scratch these are. R: rows; where a call has fewer, the last one is
// computed again.
template <class Tile, int R>
struct FewRows {
  using D = typename Tile::Dots;
  using V = typename Tile::V;
  using Int = typename V::Int;
  using Reg = typename V::Reg;
  using Scratch = typename Tile::Scratch;

  static constexpr size_t kUnit = V::kUnit, kVectors = kUnit / V::kLanes;
  static constexpr size_t kStaged = Tile::kSums / R;  // pieces
  // Memory is asked for weights several times (prefetch.h), across the ends of units. Into L1 twice, half as far the
  // second time: a Zen 5 core has no more than 8 KB on the way there, where a block's work is longer than a channel's.
  // Into L2 the more often the faster the loop is, as then more of what is asked for is dropped: one row of AVX-512 by
  // 4 and more bits four times, 4 KB apart. By 2 bits, where instructions bind, twice.
  static constexpr size_t kIntoL1Asks = 2;
  static constexpr int kTerms = Tile::kTermsOfRow, kRows = R / kTerms;
  static constexpr size_t kAsks =
      Tile::kBits == 2 || (kTerms > 1 && Tile::kBits < 8) || D::kFewAsks < kRows + 2 ? 2 : D::kFewAsks - (kRows - 1);
  static size_t Ahead(size_t ask, bool into_l1) {
    if (into_l1) return (Tile::kInChannels ? 12288 : 7168) >> ask;
    return kAsks > 2 || Tile::kBits == 2 ? 4096 * (kAsks - ask) : 12288 >> ask;
  }
  static constexpr bool kPrefetches = V::kPrefetch != 0;
  static constexpr int kChains = kTerms == 1 ? D::kChains : 1;  // terms are chains themselves
  // Where registers do not hold the weights of a piece beside the terms' sums, all terms take a group at once.
  static constexpr bool kByGroups = kTerms > 1 && V::kLanes < 16;
  // Whether a sum ends with each piece of NG groups.
  template <int NG, bool kWhole>
  static constexpr bool kEnds = kWhole || (Tile::kLhsBlocks && size_t{4} * NG == Tile::kLhsBlock);

  // The staged pieces of one unit of columns.
  struct Pieces {
    const char* weights;
    const char* scales;
    const char* offsets;
    const char* lhs[R];
    const char* lhs_scales[R];
    const int32_t* sums;  // kStaged apart
    float* floats;        // Tile::kColumns apart
    int32_t* ints;        // likewise, of a block that is not finished yet
    size_t count;
    bool ends;              // with the last piece of K
    size_t length, in_sum;  // elements that a sum goes over, and that it has gone over
    size_t block, in_block;
    Format scale;
    size_t scale_bytes;  // of a block
    // What is asked for lies so far ahead of what is worked on; from the piece `turn` on it is the next unit's, which
    // is farther by the gaps.
    ptrdiff_t ahead[kAsks], scales_ahead[kAsks];
    ptrdiff_t gap, scales_gap;
    size_t turn[kAsks];
    bool into_l1;  // GemmArgs::stream_into_l1
  };

  struct Results {
    Reg acc[kRows][kVectors];
    Int total[R][kVectors];  // of a block that is not finished yet
  };

  template <size_t kBytes>
  QUERN_INLINE static void Prefetch(const char* lines, const ptrdiff_t (&ahead)[kAsks], bool into_l1) {
    if (into_l1) {
      QUERN_UNROLL for (size_t i = 0; i < kIntoL1Asks; ++i) PrefetchLines<kBytes>(lines + ahead[i], true);
    } else {
      QUERN_UNROLL for (size_t i = 0; i < kAsks; ++i) PrefetchLines<kBytes>(lines + ahead[i], false);
    }
  }
  QUERN_INLINE static void PrefetchScales(const Pieces& p) { Prefetch<1>(p.scales, p.scales_ahead, p.into_l1); }

  // kWhole: a piece is a block.
  template <int NG, bool kWhole, BlockZero kZeros>
  QUERN_INLINE static void Piece(Pieces& p, Results& to, bool end) {
    // First what branches, which costs registers where weights are in them.
    if constexpr (kPrefetches) {
      Prefetch<Tile::template kPieceBytes<NG>>(p.weights, p.ahead, p.into_l1);
      if constexpr (kWhole) PrefetchScales(p);
    }
    Reg scale[kVectors]{};
    const auto load_scale = [&](size_t v) __attribute__((always_inline)) {
      return V::LoadScale(p.scales + v * (p.scale_bytes / kVectors), p.scale);
    };
    if constexpr (!Tile::kInChannels && !kByGroups) {
      QUERN_UNROLL for (size_t v = 0; v < kVectors; ++v) scale[v] = load_scale(v);
    }
    p.in_sum += 4 * NG;
    const bool last = Tile::kInChannels ? false : kEnds<NG, kWhole> || p.in_sum == p.length || end;
    QUERN_UNROLL for (size_t v = 0; v < kVectors; ++v) {
      typename D::Weights w[NG];
      Int zero = V::ZeroInt();
      const auto load_zero = [&]() __attribute__((always_inline)) {
        if constexpr (kZeros == BlockZero::kInteger) zero = V::LoadZeros(p.offsets + v * V::kLanes);
      };
      load_zero();
      Tile::template LoadPiece<kZeros>(p.weights + v * V::kLanes * 4, zero, w);
      Reg minimum{};
      const auto load_minimum = [&]() __attribute__((always_inline)) {
        if constexpr (kZeros == BlockZero::kMinimum) {
          minimum = V::Load(reinterpret_cast<const float*>(p.offsets) + v * V::kLanes);
        }
      };
      if constexpr (!kByGroups) load_minimum();
      QUERN_UNROLL for (int row = 0; row < kRows; ++row) {
        const int r0 = row * kTerms;
        typename D::Sum sum[kTerms][kChains]{};
        Int start[kTerms];
        QUERN_UNROLL for (int t = 0; t < kTerms; ++t) {
          if constexpr (kByGroups && !D::kSeeds) continue;
          start[t] = Tile::template PieceStart<kZeros>(p.sums + (r0 + t) * kStaged, zero);
          if constexpr (D::kSeeds) sum[t][0] = start[t];
        }
        const auto dot = [&](int t, int g) __attribute__((always_inline)) {
          typename D::Sum& to_sum = sum[t][g % kChains];
          to_sum = D::Dot(to_sum, D::Group(p.lhs[r0 + t] + 4 * g), w[g]);
        };
        if constexpr (kByGroups) {
          QUERN_UNROLL for (int t = 0; t < kTerms; ++t) ReadAgain(p.lhs[r0 + t]);
          QUERN_UNROLL for (int g = 0; g < NG; ++g) {
            QUERN_UNROLL for (int t = 0; t < kTerms; ++t) {
              dot(t, g);
              PinOrder(sum[t][0]);
            }
          }
          // What the dot products leave registers for is read after them.
          ReadAgain(p.scales);
          ReadAgain(p.offsets);
          ReadAgain(p.sums);
          ReadAgain(p.lhs_scales[r0 + kTerms - 1]);
          scale[v] = load_scale(v);
          load_minimum();
          if constexpr (!D::kSeeds) {
            load_zero();
            QUERN_UNROLL for (int t = 0; t < kTerms; ++t) {
              start[t] = Tile::template PieceStart<kZeros>(p.sums + (r0 + t) * kStaged, zero);
            }
          }
        } else {
          QUERN_UNROLL for (int t = 0; t < kTerms; ++t) { QUERN_UNROLL for (int g = 0; g < NG; ++g) dot(t, g); }
        }
        Int totals[kTerms];
        QUERN_UNROLL for (int t = 0; t < kTerms; ++t) {
          const int r = r0 + t;
          Int x = D::Total(sum[t][0]);
          QUERN_UNROLL for (int i = 1; i < kChains; ++i) x = V::AddInt(x, D::Total(sum[t][i]));
          if constexpr (!D::kSeeds) x = V::AddInt(x, start[t]);
          if constexpr (!kEnds<NG, kWhole>) {
            x = V::AddInt(x, to.total[r][v]);
            to.total[r][v] = last ? V::ZeroInt() : x;
          }
          totals[t] = x;
        }
        if (last) {
          Reg& acc = to.acc[row][v];
          float* const floats = p.floats + row * Tile::kColumns + v * V::kLanes;
          if constexpr (kByGroups) acc = V::Load(floats);
          acc = Tile::template AddTerms<kZeros, kStaged>(
              acc, totals, scale[v], minimum, p.lhs_scales[row * kTerms + kTerms - 1], p.sums + row * kTerms * kStaged);
          if constexpr (kByGroups) V::Store(floats, acc);
        }
      }
    }
    p.weights += Tile::template kPieceBytes<NG>;
    ++p.sums;
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      p.lhs[r] += 4 * NG;
      if (Tile::kLhsBlocks && last) p.lhs_scales[r] += sizeof(float);
    }
    if (last) p.in_sum = 0;
    p.in_block += 4 * NG;
    if (!Tile::kInChannels && (kWhole || p.in_block == p.block)) {
      p.in_block = 0;
      p.scales += p.scale_bytes;
      if constexpr (kPrefetches && !kWhole) PrefetchScales(p);
      p.offsets += kUnit * (kZeros == BlockZero::kMinimum ? sizeof(float) : 1);
    }
  }

  template <int NG, bool kWhole, BlockZero kZeros>
  __attribute__((noinline)) static void Work(const Pieces& pieces) {
    Pieces p = pieces;
    Results to;
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      QUERN_UNROLL for (size_t v = 0; v < kVectors; ++v) {
        if (r < kRows && !kByGroups) to.acc[r][v] = V::Load(p.floats + r * Tile::kColumns + v * V::kLanes);
        if (!kEnds<NG, kWhole>) to.total[r][v] = V::LoadInt(p.ints + r * Tile::kColumns + v * V::kLanes);
      }
    }
    for (size_t i = 0; i < p.count;) {
      size_t stop = p.count;  // or the next turn
      if constexpr (kPrefetches) {
        for (size_t ask = 0; ask < kAsks; ++ask) {
          if (i == p.turn[ask]) {
            p.ahead[ask] += p.gap;
            p.scales_ahead[ask] += p.scales_gap;
          } else if (i < p.turn[ask] && p.turn[ask] < stop) {
            stop = p.turn[ask];
          }
        }
      }
      for (; i < stop; ++i) Piece<NG, kWhole, kZeros>(p, to, p.ends && i + 1 == p.count);
    }
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      QUERN_UNROLL for (size_t v = 0; v < kVectors; ++v) {
        if (r < kRows && !kByGroups) V::Store(p.floats + r * Tile::kColumns + v * V::kLanes, to.acc[r][v]);
        if (!kEnds<NG, kWhole>) V::StoreInt(p.ints + r * Tile::kColumns + v * V::kLanes, to.total[r][v]);
      }
    }
  }

  // The unit of columns from n on over the staged k [k0, k0 + count).
  template <int NG, bool kWhole, BlockZero kZeros>
  static void Unit(const GemmArgs& a, Scratch& s, size_t n, size_t k0, size_t count) {
    constexpr size_t kPiece = 4 * NG, kBytes = Tile::template kPieceBytes<NG>;
    const size_t unit = n / kUnit * a.rhs_unit_stride;
    Pieces p{};
    p.weights = static_cast<const char*>(a.rhs) + unit + k0 / kPiece * kBytes;
    p.count = count / kPiece;
    p.ends = k0 + count >= a.k;
    p.gap = static_cast<ptrdiff_t>(a.rhs_unit_stride - p.count * kBytes);
    if constexpr (!Tile::kInChannels) {
      const size_t block = k0 / a.block;
      p.length = Tile::SumLength(a);
      p.in_sum = k0 % p.length;
      p.block = a.block;
      p.in_block = k0 % a.block;
      p.scale = a.rhs_scale;
      p.scale_bytes = kUnit * FormatBytes(a.rhs_scale);
      p.scales = static_cast<const char*>(a.rhs_scales) + unit + block * p.scale_bytes;
      const size_t blocks = CeilDiv(k0 + count, a.block) - block;
      p.scales_gap = static_cast<ptrdiff_t>(a.rhs_unit_stride - blocks * p.scale_bytes);
      p.offsets = static_cast<const char*>(a.rhs_offsets) + unit;
      p.offsets += block * kUnit * (kZeros == BlockZero::kMinimum ? sizeof(float) : 1);
    }
    for (size_t i = 0; i < kAsks; ++i) {
      // Not beyond the next unit.
      const size_t ahead = Ahead(i, a.stream_into_l1);
      const size_t pieces = ahead / kBytes < p.count ? ahead / kBytes : p.count;
      p.ahead[i] = static_cast<ptrdiff_t>(pieces * kBytes);
      if constexpr (!Tile::kInChannels) {
        p.scales_ahead[i] = static_cast<ptrdiff_t>(pieces * kPiece / a.block * p.scale_bytes);
      }
      p.turn[i] = p.count - pieces;
    }
    for (size_t r = 0; r < R; ++r) {
      const size_t real = r < a.m ? r : a.m - 1;
      const ptrdiff_t row = static_cast<ptrdiff_t>(real) * a.lhs_row_stride;
      p.lhs[r] = static_cast<const char*>(a.lhs) + row + Tile::InRow(k0);
      p.lhs_scales[r] = static_cast<const char*>(a.lhs_scales) + row;
      if (Tile::kLhsBlocks) p.lhs_scales[r] += Tile::InRow(k0) / Tile::kLhsBlock * sizeof(float);
    }
    p.sums = s.sums;
    p.floats = s.floats + n;
    p.ints = s.ints + n;
    p.into_l1 = a.stream_into_l1;
    Work<NG, kWhole, kZeros>(p);
  }

  template <int NG, bool kWhole, BlockZero kZeros>
  static void Product(const GemmArgs& a, Scratch& s) {
    constexpr size_t kPiece = 4 * NG;
    if constexpr (!kWhole && !Tile::kInChannels) {
      for (size_t i = 0; i < R * Tile::kColumns; i += V::kLanes) V::StoreInt(s.ints + i, V::ZeroInt());
    }
    const size_t end = RoundUp(a.k, kPiece);
    for (size_t k0 = 0; k0 < end; k0 += kStaged * kPiece) {
      const size_t count = end - k0 < kStaged * kPiece ? end - k0 : kStaged * kPiece;
      if constexpr (Tile::template kSubtracts<kZeros> || kZeros == BlockZero::kMinimum) {
        Tile::template Sums<kZeros, kStaged>(a, s, k0, count, kPiece);
      }
      for (size_t n = 0; n < a.n; n += kUnit) Unit<NG, kWhole, kZeros>(a, s, n, k0, count);
    }
  }

  template <BlockZero kZeros>
  static void Products(const GemmArgs& a, Scratch& s) {
    if constexpr (Tile::kInChannels) {
      return Product<D::kFewGroups, false, kZeros>(a, s);
    } else if constexpr (D::kFewGroups == 8) {
      if (a.block == 32) return Product<8, true, kZeros>(a, s);
      if (Tile::kLhsBlocks || a.block % 32 == 0) return Product<8, false, kZeros>(a, s);
    }
    Product<4, false, kZeros>(a, s);
  }
};

}  // namespace
}  // namespace quern::ukernel
