// The tile of int8 rows by block-quantized weights: integer sums within a block, float32 over blocks in the order of K,
// the same bits on every ISA. For kernel files only: everything has internal linkage.
#pragma once

#include "ukernel/gemm/block_accumulators.h"
#include "ukernel/gemm/tile_blocks_few.h"

namespace quern::ukernel {
namespace {

// Weights are unpacked once for all rows of a tile: a piece of K of a strip of columns stays in registers while the
// rows pass by. Their accumulators are in memory between pieces, in the call's scratch.
//
// D describes the dot products of an ISA by one kind of elements:
//   V                int32 and float32 lanes
//   kElement, kZero  of the packed weights; what the numbers in Dot have too much, taken off by sums of the rows
//   kVectors, kRows  vectors of a strip; rows that are worked on together
//   kGroups          groups of 4 k of a piece: 8, or 4
//   kFewGroups       likewise, of few rows
//   kFewRows         so many rows keep their results in registers along K; 0: none do
//   kFewAsks         how often one row asks L2 for its weights; each further row once less, but twice
//   (tile_blocks_few.h) kChains          sums that such a row's piece is split into, where dot products wait for each
//   other Load<groups>(p, out): the weights of a piece for V::kLanes columns Group(p), Dot(sum, group, weights),
//   Total(sum, int32 lanes) kSeeds           sums are int32 lanes that may begin with anything kCentered        Dot
//   takes signed weights: zero points that are integers come off them, not off the sums SumPieces(row, count, elements,
//   out) MulZero(zero points, sum): int32 lanes, both fit 16 bits
[[maybe_unused]] constexpr size_t kStagedPieces = 32;  // of K, whose sums are made at once

// Unsigned weights of less than 8 bits to signed ones: less the zero points of their columns (int32 lanes), or the
// usual one. Those of 8 bits are signed as Load gives them.
template <class D, BlockZero kZeros, int NG>
QUERN_INLINE void CenterBytes(typename D::V::Int zeros, typename D::V::Int (&w)[NG]) {
  using V = typename D::V;
  if constexpr (FormatBits(D::kElement) < 8) {
    const typename V::Int each = V::Set1Int(0x01010101);
    const typename V::Int zero =
        kZeros == BlockZero::kInteger ? V::MulInt(zeros, each) : V::Set1Int(0x01010101 * D::kZero);
    QUERN_UNROLL for (int i = 0; i < NG; ++i) w[i] = V::SubBytes(w[i], zero);
  }
}

// Rows quantized as kLhs (kI8d: sums of blocks; kI8b: of 32, times both scales). For blocks that are the whole K
// (kChannels) the result is int32. kTerms above 1: so many neighbouring rows are one, of bytes from the lowest on, all
// by the last one's scales, and hold what is staged of K.
template <class D, Format kLhs, bool kChannels, int MR, int NR, int kTerms = 1>
struct TileBlocks {
  using Dots = D;
  using V = typename D::V;
  using Accumulators = BlockAccumulators<V, kChannels, MR, NR>;
  static constexpr int kTermsOfRow = kTerms;
  using Int = typename V::Int;
  using Reg = typename V::Reg;
  using Sum = typename D::Sum;
  using Weights = typename D::Weights;

  static constexpr int NV = D::kVectors;
  static constexpr size_t kUnit = V::kUnit, kColumns = NR;
  static constexpr size_t kSums = MR * kStagedPieces;
  static constexpr size_t kStrip = NV * V::kLanes;
  static constexpr size_t kBits = FormatBits(D::kElement);
  static constexpr size_t kLhsBlock = 32;
  static constexpr bool kLhsBlocks = kLhs == Format::kI8b, kInChannels = kChannels;
  // Sums of the rows take the zero points off the products.
  template <BlockZero kZeros>
  static constexpr bool kSubtracts = kZeros != BlockZero::kMinimum && !D::kCentered;
  static_assert(NR % kStrip == 0);

  struct Scratch {
    float floats[MR * NR];
    int32_t ints[MR * NR];
    int32_t sums[kSums];  // as the pass wants them; bits of a float32 for minima
    int32_t totals[MR];   // of the block that is not finished yet
  };

  // Of a block of the weights.
  struct Columns {
    Reg scale[NV];
    Reg minimum[NV];
    Int zero[NV];
  };

  // A piece of K of a strip.
  struct Piece {
    const char* lhs = nullptr;
    const char* lhs_scales = nullptr;
    ptrdiff_t lhs_stride = 0;
    const int32_t* sums = nullptr;
    float* floats = nullptr;
    int32_t* ints = nullptr;
    Columns columns;
  };

  // Where k0, the first k that is staged, lies in the rows.
  static size_t InRow(size_t k0) { return kTerms > 1 ? 0 : k0; }

  // Elements that an integer sum goes over.
  static size_t SumLength(const GemmArgs& a) { return kLhsBlocks ? kLhsBlock : a.block; }

  // Of NG groups for a unit of columns.
  template <int NG>
  static constexpr size_t kPieceBytes = 4 * NG * kUnit * kBits / 8;

  template <int NG>
  QUERN_INLINE static void Prefetch(const char* piece) {
    if constexpr (V::kPrefetch != 0) {
      QUERN_UNROLL for (size_t i = 0; i < kPieceBytes<NG>; i += 64) __builtin_prefetch(piece + i);
    }
  }

  // The weights of a piece as Dot takes them.
  template <BlockZero kZeros, int NG>
  QUERN_INLINE static void LoadPiece(const char* p, Int zero, Weights (&w)[NG]) {
    D::template Load<NG>(p, w);
    if constexpr (D::kCentered && kZeros != BlockZero::kMinimum) CenterBytes<D, kZeros>(zero, w);
  }

  // What the sum of a piece begins with: the row's own sum by what the weights' zero takes off.
  template <BlockZero kZeros>
  QUERN_INLINE static Int PieceStart(const int32_t* sum, Int zero) {
    if constexpr (!kSubtracts<kZeros>) return V::ZeroInt();
    const Int x = V::Set1Int(*sum);
    return kZeros == BlockZero::kInteger ? D::MulZero(zero, x) : x;
  }

  // acc with the finished sum of a block.
  template <BlockZero kZeros>
  QUERN_INLINE static Reg AddSum(Reg acc, Int total, Reg scale, Reg minimum, const char* lhs_scale,
                                 const int32_t* sum) {
    if constexpr (kLhsBlocks) scale = V::Mul(V::Broadcast(reinterpret_cast<const float*>(lhs_scale)), scale);
    acc = V::Add(acc, V::Mul(V::ToFloat(total), scale));
    if constexpr (kZeros == BlockZero::kMinimum) {
      acc = V::Add(acc, V::Mul(V::Broadcast(reinterpret_cast<const float*>(sum)), minimum));
    }
    return acc;
  }

  // The same of the terms of a row, whose sums are `sums` kStaged apart.
  template <BlockZero kZeros, size_t kStaged>
  QUERN_INLINE static Reg AddTerms(Reg acc, const Int (&totals)[kTerms], Reg scale, Reg minimum, const char* lhs_scale,
                                   const int32_t* sums) {
    if constexpr (kTerms == 1) {
      return AddSum<kZeros>(acc, totals[0], scale, minimum, lhs_scale, sums);
    } else {
      static_assert(kTerms == 3);
      const Int low = V::AddInt(V::ShiftLeft8(totals[1]), totals[0]);
      const Reg number = V::Fma(V::ToFloat(low), V::Set1(0x1p-16f), V::ToFloat(totals[2]));
      acc = V::Fma(number, V::Mul(V::Broadcast(reinterpret_cast<const float*>(lhs_scale)), scale), acc);
      if constexpr (kZeros == BlockZero::kMinimum) {
        QUERN_UNROLL for (int t = 0; t < kTerms; ++t) {
          acc = V::Fma(V::Broadcast(reinterpret_cast<const float*>(sums + t * kStaged)), minimum, acc);
        }
      }
      return acc;
    }
  }

  // kFirst, kLast: of the pieces of a sum.
  template <int R, int NG, bool kFirst, bool kLast, BlockZero kZeros>
  QUERN_INLINE static void Rows(const Piece& p, const Columns& columns, const Weights (&w)[NV][NG], size_t r0) {
    const char* lhs = p.lhs + static_cast<ptrdiff_t>(r0) * p.lhs_stride;
    const int32_t* sums = p.sums + r0 * kStagedPieces;
    int32_t* ints = p.ints + r0 * NR;
    float* floats = p.floats + r0 * NR;
    const auto start = [&](int r, int v) {
      return PieceStart<kZeros>(sums + static_cast<size_t>(r) * kStagedPieces, columns.zero[v]);
    };
    Sum sum[R][NV];
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      QUERN_UNROLL for (int v = 0; v < NV; ++v) {
        if constexpr (D::kSeeds) {
          sum[r][v] = start(r, v);
        } else {
          sum[r][v] = Sum{};
        }
      }
    }
    QUERN_UNROLL for (int g = 0; g < NG; ++g) {
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const auto x = D::Group(lhs + r * p.lhs_stride + 4 * g);
        QUERN_UNROLL for (int v = 0; v < NV; ++v) sum[r][v] = D::Dot(sum[r][v], x, w[v][g]);
      }
    }
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      QUERN_UNROLL for (int v = 0; v < NV; ++v) {
        Int total = D::Total(sum[r][v]);
        if constexpr (!D::kSeeds) total = V::AddInt(total, start(r, v));
        // Last, so that pieces do not wait for each other.
        if (!kFirst) total = V::AddInt(total, V::LoadInt(ints + r * NR + v * V::kLanes));
        if constexpr (!kLast) {
          V::StoreInt(ints + r * NR + v * V::kLanes, total);
          continue;
        }
        float* at = floats + r * NR + v * V::kLanes;
        const char* lhs_scale = p.lhs_scales + (static_cast<ptrdiff_t>(r0) + r) * p.lhs_stride;
        const Reg x = AddSum<kZeros>(V::Load(at), total, columns.scale[v], columns.minimum[v], lhs_scale,
                                     sums + static_cast<size_t>(r) * kStagedPieces);
        V::Store(at, x);
      }
    }
  }

  // Out of line: what the loops around it keep in registers would push the weights out of them.
  template <int NG, bool kFirst, bool kLast, BlockZero kZeros>
  __attribute__((noinline)) static void Pass(const Piece& p, const char* const (&weights)[NV], size_t m) {
    Weights w[NV][NG];
    const Columns columns = p.columns;  // in registers
    QUERN_UNROLL for (int v = 0; v < NV; ++v) {
      LoadPiece<kZeros>(weights[v], columns.zero[v], w[v]);
      Prefetch<NG>(weights[v] + V::kPrefetch / 2);
    }
    size_t r = 0;
    for (; r + D::kRows <= m; r += D::kRows) Rows<D::kRows, NG, kFirst, kLast, kZeros>(p, columns, w, r);
    for (; r < m; ++r) Rows<1, NG, kFirst, kLast, kZeros>(p, columns, w, r);
  }

  // The columns [n, n + kStrip) over the staged k [k0, k0 + count) in pieces of NG groups.
  template <int NG, bool kWhole, BlockZero kZeros>
  static void Strip(const GemmArgs& a, Scratch& s, size_t n, size_t k0, size_t count) {
    constexpr size_t kPiece = 4 * NG;
    const size_t scale_bytes = FormatBytes(a.rhs_scale);
    size_t unit[NV], column[NV];  // a vector without real columns does again what the first one does
    for (int v = 0; v < NV; ++v) {
      const size_t at = n + v * V::kLanes < a.n ? n + v * V::kLanes : n;
      unit[v] = at / kUnit * a.rhs_unit_stride;
      column[v] = at % kUnit;
    }
    Piece p;
    p.lhs_stride = a.lhs_row_stride;
    p.floats = s.floats + n;
    p.ints = s.ints + n;
    const size_t end = RoundUp(a.k, kPiece);
    // Where a piece is within what sums go over, and within a block of the weights.
    const size_t length = SumLength(a);
    size_t in_sum = kChannels ? 0 : k0 % length, block = kChannels ? 0 : k0 / a.block, in_block = k0 - block * a.block;
    for (size_t i = 0; i < count / kPiece; ++i) {
      const size_t k = k0 + i * kPiece;
      const char* weights[NV];
      for (int v = 0; v < NV; ++v) {
        weights[v] = static_cast<const char*>(a.rhs) + unit[v] + k * kUnit * kBits / 8 + column[v] * 4;
      }
      p.lhs = static_cast<const char*>(a.lhs) + k;
      p.sums = s.sums + i;
      bool first = false, last = false;  // of its sum
      if constexpr (!kChannels) {
        first = in_sum == 0;
        last = in_sum + kPiece == length || k + kPiece >= end;
        in_sum = in_sum + kPiece == length ? 0 : in_sum + kPiece;
        if (kLhsBlocks) p.lhs_scales = static_cast<const char*>(a.lhs_scales) + k / kLhsBlock * sizeof(float);
        QUERN_UNROLL for (int v = 0; v < NV; ++v) {
          const size_t at = block * kUnit + column[v];
          p.columns.scale[v] =
              V::LoadScale(static_cast<const char*>(a.rhs_scales) + unit[v] + at * scale_bytes, a.rhs_scale);
          const char* offsets = static_cast<const char*>(a.rhs_offsets) + unit[v];
          if constexpr (kZeros == BlockZero::kInteger) p.columns.zero[v] = V::LoadZeros(offsets + at);
          if constexpr (kZeros == BlockZero::kMinimum) {
            p.columns.minimum[v] = V::Load(reinterpret_cast<const float*>(offsets) + at);
          }
        }
        in_block += kPiece;
        if (in_block == a.block) {
          in_block = 0;
          ++block;
        }
      }
      if constexpr (kChannels) {
        Pass<NG, false, false, kZeros>(p, weights, a.m);
      } else if (kWhole || (first && last)) {
        Pass<NG, true, true, kZeros>(p, weights, a.m);
      } else if constexpr (!kWhole) {
        if (first) {
          Pass<NG, true, false, kZeros>(p, weights, a.m);
        } else if (last) {
          Pass<NG, false, true, kZeros>(p, weights, a.m);
        } else {
          Pass<NG, false, false, kZeros>(p, weights, a.m);
        }
      }
    }
  }

  // The sums of the rows over the staged pieces, of which there are at most kStaged.
  template <BlockZero kZeros, size_t kStaged = kStagedPieces>
  static void Sums(const GemmArgs& a, Scratch& s, size_t k0, size_t count, size_t piece) {
    for (size_t r = 0; r < a.m; ++r) {
      const char* row = static_cast<const char*>(a.lhs) + static_cast<ptrdiff_t>(r) * a.lhs_row_stride + InRow(k0);
      int32_t* sums = s.sums + r * kStaged;
      D::SumPieces(row, count / piece, piece, sums);
      if constexpr (kZeros == BlockZero::kMinimum) {
        const char* scales = static_cast<const char*>(a.lhs_scales) + static_cast<ptrdiff_t>(r) * a.lhs_row_stride;
        const size_t length = SumLength(a);
        size_t in_sum = k0 % length;
        for (size_t i = 0; i < count / piece; ++i) {
          if (in_sum == 0) s.totals[r] = 0;
          s.totals[r] += sums[i];
          float x = static_cast<float>(s.totals[r]);
          if (kLhsBlocks) x *= reinterpret_cast<const float*>(scales)[(InRow(k0) + i * piece) / kLhsBlock];
          __builtin_memcpy(sums + i, &x, sizeof(x));
          in_sum = in_sum + piece == length ? 0 : in_sum + piece;
        }
      } else {
        constexpr uint32_t kTimes = kZeros == BlockZero::kInteger ? 1 : D::kZero;
        for (size_t i = 0; i < kStaged; ++i) {
          sums[i] = static_cast<int32_t>(0 - kTimes * static_cast<uint32_t>(sums[i]));
        }
      }
    }
  }

  template <int NG, bool kWhole, BlockZero kZeros>
  static void Product(const GemmArgs& a, Scratch& s) {
    constexpr size_t kPiece = 4 * NG, kStage = kStagedPieces * kPiece;
    const size_t end = RoundUp(a.k, kPiece);
    for (size_t k0 = 0; k0 < end; k0 += kStage) {
      const size_t count = end - k0 < kStage ? end - k0 : kStage;
      if constexpr (kSubtracts<kZeros> || kZeros == BlockZero::kMinimum) Sums<kZeros>(a, s, k0, count, kPiece);
      for (size_t n = 0; n < a.n; n += kStrip) Strip<NG, kWhole, kZeros>(a, s, n, k0, count);
    }
  }

  template <BlockZero kZeros>
  static void Products(const GemmArgs& a, Scratch& s) {
    if constexpr (D::kFewRows > 0) {
      if (a.m == 1) return FewRows<TileBlocks, 1>::template Products<kZeros>(a, s);
      // Two rows by blocks of 4 and 8 bits are computed as four, which is as fast or faster.
      if constexpr (D::kFewRows > 2 && (kChannels || kBits == 2)) {
        if (a.m == 2) return FewRows<TileBlocks, 2>::template Products<kZeros>(a, s);
      }
      if (a.m <= D::kFewRows) return FewRows<TileBlocks, D::kFewRows>::template Products<kZeros>(a, s);
    }
    if constexpr (kChannels) {
      return Product<D::kGroups, false, kZeros>(a, s);
    } else if constexpr (D::kGroups == 8) {
      constexpr size_t kPiece = 4 * D::kGroups;
      if (kLhsBlocks || a.block == kPiece) return Product<8, true, kZeros>(a, s);
      if (a.block % kPiece == 0) return Product<8, false, kZeros>(a, s);
    }
    Product<4, false, kZeros>(a, s);
  }

  static void Run(const GemmArgs& a) {
    auto& s = *static_cast<Scratch*>(a.scratch);
    if (a.m <= D::kFewRows) PrefetchColumnOperands(a);
    int32_t* const acc = kChannels ? s.ints : reinterpret_cast<int32_t*>(s.floats);
    Accumulators::Start(a, acc);
    if constexpr (kChannels) {
      Products<BlockZero::kConstant>(a, s);
    } else if (a.rhs_offset == Format::kF32) {
      Products<BlockZero::kMinimum>(a, s);
    } else if (a.rhs_offset == Format::kU8) {
      Products<BlockZero::kInteger>(a, s);
    } else {
      Products<BlockZero::kConstant>(a, s);
    }
    Accumulators::Finish(a, acc);
  }
};

// Weights of a piece for one vector of columns, in bytes: lines of 64 bytes hold 8 / bits groups of a unit.
template <class D, int NG>
QUERN_INLINE void LoadWeightBytes(const char* p, typename D::V::Int (&w)[NG]) {
  using Int = typename D::V::Int;
  constexpr int kBits = static_cast<int>(FormatBits(D::kElement)), kPerLine = 8 / kBits;
  static_assert(NG % kPerLine == 0);
  QUERN_UNROLL for (int i = 0; i < NG / kPerLine; ++i) {
    const Int x = D::V::LoadInt(reinterpret_cast<const int32_t*>(p + 64 * i));
    if constexpr (kBits == 8) {
      w[i] = D::kElement == Format::kI8 && !D::kCentered ? D::V::TurnTopBits(x) : x;
    } else {
      w[i * kPerLine] = D::template Field<0, kBits>(x);
      w[i * kPerLine + 1] = D::template Field<kBits, kBits>(x);
      if constexpr (kBits == 2) {
        w[i * kPerLine + 2] = D::template Field<2 * kBits, kBits>(x);
        w[i * kPerLine + 3] = D::template Field<3 * kBits, kBits>(x);
      }
    }
  }
}

// What an unsigned number stands for zero by, if nothing else says so; int8 is read with its top bit turned over.
constexpr int BlockZeroOf(Format element) { return 1 << (FormatBits(element) - 1); }

// The descriptor of a row, but for tile and cost: `rhs` kU2, kU4, kU8 or kI8 blocks, or kI4 (channels).
constexpr GemmKernel BlocksRow(const Isa& isa, Format lhs, Format rhs, uint16_t mr, uint16_t nr, GemmCost cost,
                               GemmRun run) {
  const bool channels = rhs == Format::kI4;
  const size_t words = size_t{2} * mr * nr + mr * (kStagedPieces + 1);
  GemmKernel row{.isa = isa,
                 .lhs = lhs,
                 .lhs_source = Format::kF32,
                 .rhs = rhs,
                 .dst = channels ? Format::kI32 : Format::kF32,
                 .precision = channels ? Precision::kExact : Precision::kFp32,
                 .mr = mr,
                 .nr = nr,
                 .kr = static_cast<uint16_t>(channels || lhs == Format::kI8b ? 32 : 16),
                 .lhs_forms = kLhsRows,
                 .lhs_layout = lhs == Format::kI8b ? kI8bRows : kI8dRows,
                 .block_divisor = static_cast<uint16_t>(lhs == Format::kI8b ? 32 : 16),
                 .fused = channels ? kFusedI32 : kFusedProductF32,
                 .cost = cost,
                 .scratch_bytes = static_cast<uint32_t>(RoundUp(words * 4, 64)),
                 .run = run};
  // The order is that of preference, memory being equal.
  size_t i = 0;
  if (channels) {
    row.layouts[i++] = kU4Channels16;
  } else if (rhs == Format::kI8) {
    for (Format scale : {Format::kF16, Format::kBf16, Format::kF32}) row.layouts[i++] = Blocks8x16(scale);
  } else {
    for (Format offset : {Format::kNone, Format::kU8, Format::kF32}) {
      for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) {
        row.layouts[i++] = UnsignedBlocks16(rhs, scale, offset);
      }
    }
  }
  row.consumed = row.layouts[i - 1];
  return row;
}

}  // namespace
}  // namespace quern::ukernel
