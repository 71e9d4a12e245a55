// A few int8 rows by block-quantized weights, part of tile_blocks.h: the weights are read once, as they lie in memory,
// and the results of all rows stay in registers along K. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/gemm.h"
#include "ukernel/gemm/block_zero.h"
#include "ukernel/gemm/prefetch.h"

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr size_t kFewPieces = 64;  // of K, that are worked on in one loop (a chunk)

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
  // Pieces ahead of which memory is asked for weights and scales, twice (prefetch.h), across the ends of units. Those
  // of 2 bits are half as long.
  static constexpr size_t kAsks = 2, kFar = Tile::kBits == 2 ? 64 : Tile::kInChannels ? 48 : 32;
  static constexpr size_t kAhead[kAsks] = {kFar, kFar / 2};

  // Pieces of one unit of columns.
  struct Chunk {
    const char* weights;
    const char* ahead[kAsks];         // what the memory is asked for meanwhile
    const char* scales_ahead[kAsks];  // likewise
    const char* lhs[R];
    const char* lhs_scales[R];
    const int32_t* sums;  // kStaged apart
    const float* scales;
    const char* offsets;
    float* floats;  // Tile::kColumns apart
    int32_t* ints;  // likewise, of a block that is not finished yet
    size_t pieces;
    size_t length, in_sum;  // elements that a sum goes over, and that it has gone over
    size_t block, in_block;
    size_t scale_bytes;  // of a block's scales as they are stored
    bool ends;           // with the last piece of K
    bool into_l1;        // GemmArgs::stream_into_l1
  };

  // kWhole: a piece is a block.
  template <int NG, bool kWhole, BlockZero kZeros>
  __attribute__((noinline)) static void Work(const Chunk& chunk) {
    Chunk c = chunk;
    Reg acc[R][kVectors];
    Int total[R][kVectors];
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      QUERN_UNROLL for (size_t v = 0; v < kVectors; ++v) {
        acc[r][v] = V::Load(c.floats + r * Tile::kColumns + v * V::kLanes);
        if (!kWhole) total[r][v] = V::LoadInt(c.ints + r * Tile::kColumns + v * V::kLanes);
      }
    }
    for (size_t i = 0; i < c.pieces; ++i) {
      if constexpr (V::kPrefetch != 0) {
        QUERN_UNROLL for (const char*& ahead : c.ahead) {
          QUERN_UNROLL for (size_t b = 0; b < Tile::template kPieceBytes<NG>; b += 64)
              PrefetchStream(ahead + b, c.into_l1);
          ahead += Tile::template kPieceBytes<NG>;
        }
      }
      c.in_sum += 4 * NG;
      const bool last = Tile::kInChannels ? false : kWhole || c.in_sum == c.length || (c.ends && i + 1 == c.pieces);
      QUERN_UNROLL for (size_t v = 0; v < kVectors; ++v) {
        typename D::Weights w[NG];
        Int zero = V::ZeroInt();
        if constexpr (kZeros == BlockZero::kInteger) zero = V::LoadZeros(c.offsets + v * V::kLanes);
        Tile::template LoadPiece<kZeros>(c.weights + v * V::kLanes * 4, zero, w);
        const Reg scale = V::Load(c.scales + v * V::kLanes);
        Reg minimum = scale;
        if constexpr (kZeros == BlockZero::kMinimum) {
          minimum = V::Load(reinterpret_cast<const float*>(c.offsets) + v * V::kLanes);
        }
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const int32_t* row_sum = c.sums + r * kStaged;
          const Int start = Tile::template PieceStart<kZeros>(row_sum, zero);
          typename D::Sum sum[D::kChains]{};
          if constexpr (D::kSeeds) sum[0] = start;
          QUERN_UNROLL for (int g = 0; g < NG; ++g) {
            sum[g % D::kChains] = D::Dot(sum[g % D::kChains], D::Group(c.lhs[r] + 4 * g), w[g]);
          }
          Int x = D::Total(sum[0]);
          QUERN_UNROLL for (int i = 1; i < D::kChains; ++i) x = V::AddInt(x, D::Total(sum[i]));
          if constexpr (!D::kSeeds) x = V::AddInt(x, start);
          if constexpr (!kWhole) total[r][v] = x = V::AddInt(x, total[r][v]);
          if (last) {
            acc[r][v] = Tile::template AddSum<kZeros>(acc[r][v], x, scale, minimum, c.lhs_scales[r], row_sum);
            if constexpr (!kWhole) total[r][v] = V::ZeroInt();
          }
        }
      }
      c.weights += Tile::template kPieceBytes<NG>;
      ++c.sums;
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        c.lhs[r] += 4 * NG;
        if (Tile::kLhsBlocks && last) c.lhs_scales[r] += sizeof(float);
      }
      if (last) c.in_sum = 0;
      c.in_block += 4 * NG;
      if (kWhole || c.in_block == c.block) {
        c.in_block = 0;
        c.scales += kUnit;
        if constexpr (!Tile::kInChannels && V::kPrefetch != 0) {
          QUERN_UNROLL for (const char*& ahead : c.scales_ahead) {
            PrefetchStream(ahead, c.into_l1);
            ahead += c.scale_bytes;
          }
        }
        c.offsets += kUnit * (kZeros == BlockZero::kMinimum ? sizeof(float) : 1);
      }
    }
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      QUERN_UNROLL for (size_t v = 0; v < kVectors; ++v) {
        V::Store(c.floats + r * Tile::kColumns + v * V::kLanes, acc[r][v]);
        if (!kWhole) V::StoreInt(c.ints + r * Tile::kColumns + v * V::kLanes, total[r][v]);
      }
    }
  }

  // float32 scales of `blocks` blocks.
  template <Format kFormat>
  static void Widen(const char* from, size_t blocks, float* to) {
    for (const float* const end = to + blocks * kUnit; to < end; to += V::kLanes) {
      V::Store(to, V::LoadScale(from, kFormat));
      from += V::kLanes * FormatBytes(kFormat);
    }
  }

  // The unit of columns from n on over the staged k [k0, k0 + count).
  template <int NG, bool kWhole, BlockZero kZeros>
  static void Unit(const GemmArgs& a, Scratch& s, size_t n, size_t k0, size_t count) {
    constexpr size_t kPiece = 4 * NG, kBytes = Tile::template kPieceBytes<NG>;
    constexpr size_t kChunk = kFewPieces * kPiece;
    const char* unit = static_cast<const char*>(a.rhs) + n / kUnit * a.rhs_unit_stride;
    const char* scales = static_cast<const char*>(a.rhs_scales) + n / kUnit * a.rhs_unit_stride;
    const char* offsets = static_cast<const char*>(a.rhs_offsets) + n / kUnit * a.rhs_unit_stride;
    const size_t end = RoundUp(a.k, kPiece);
    for (size_t k = k0, k_end; k < k0 + count; k = k_end) {
      Chunk c;
      k_end = k0 + count - k < kChunk ? k0 + count : k + kChunk;
      QUERN_UNROLL for (size_t i = 0; i < kAsks; ++i) {
        const size_t far = kAhead[i] * kPiece, turn = end < far ? 0 : end - far;  // from where on it is the next unit's
        if (k < turn && turn < k_end) k_end = turn;
        const size_t ahead = k < turn ? k + far : k - turn, next = k < turn ? 0 : a.rhs_unit_stride;
        c.ahead[i] = unit + next + ahead / kPiece * kBytes;
        if constexpr (!Tile::kInChannels) {
          c.scales_ahead[i] = scales + next + ahead / a.block * kUnit * FormatBytes(a.rhs_scale);
        }
      }
      c.pieces = (k_end - k) / kPiece;
      c.scales = s.scales;
      if constexpr (!Tile::kInChannels) {
        const size_t block = k / a.block, blocks = CeilDiv(k_end, a.block) - block;
        c.scale_bytes = kUnit * FormatBytes(a.rhs_scale);
        const char* from = scales + block * c.scale_bytes;
        if (a.rhs_scale == Format::kF32) c.scales = reinterpret_cast<const float*>(from);
        if (a.rhs_scale == Format::kF16) Widen<Format::kF16>(from, blocks, s.scales);
        if (a.rhs_scale == Format::kBf16) Widen<Format::kBf16>(from, blocks, s.scales);
        c.offsets = offsets + block * kUnit * (kZeros == BlockZero::kMinimum ? sizeof(float) : 1);
        c.length = Tile::SumLength(a);
        c.in_sum = k % c.length;
        c.block = a.block;
        c.in_block = k % a.block;
        c.ends = k_end == end;
      }
      c.weights = unit + k / kPiece * kBytes;
      for (size_t r = 0; r < R; ++r) {
        const size_t real = r < a.m ? r : a.m - 1;
        const ptrdiff_t row = static_cast<ptrdiff_t>(real) * a.lhs_row_stride;
        c.lhs[r] = static_cast<const char*>(a.lhs) + row + k;
        c.lhs_scales[r] = static_cast<const char*>(a.lhs_scales) + row;
        if (Tile::kLhsBlocks) c.lhs_scales[r] += k / Tile::kLhsBlock * sizeof(float);
      }
      c.sums = s.sums + (k - k0) / kPiece;
      c.floats = s.floats + n;
      c.ints = s.ints + n;
      c.into_l1 = a.stream_into_l1;
      Work<NG, kWhole, kZeros>(c);
    }
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
      return Product<D::kGroups, false, kZeros>(a, s);
    } else if constexpr (D::kGroups == 8) {
      if (a.block == 32) return Product<8, true, kZeros>(a, s);
      if (Tile::kLhsBlocks || a.block % 32 == 0) return Product<8, false, kZeros>(a, s);
    }
    Product<4, false, kZeros>(a, s);
  }
};

}  // namespace
}  // namespace quern::ukernel
