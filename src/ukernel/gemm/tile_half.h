// Register tiles of products with 16-bit floats and float32 accumulators: one body for every vector ISA, stamped for
// each (rows, units) that a row's calls may have. For kernel files only: everything has internal linkage and is
// compiled with their flags.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/gemm/prefetch.h"

namespace quern::ukernel {
namespace {

// K elements that are summed in one chain, and staged at once. The sums of such chunks are added in float32, by which
// the error is below that of one long chain.
[[maybe_unused]] constexpr size_t kHalfChunk = 256;

// V is the ISA's float32 vector (epilogue_f32.h). L says how the left side gets to the loop:
//   kFormat       of the operator's rows
//   kStaged       rows are brought to float32 by Stage(from, count, to), `count` up to kHalfChunk; else read in place
//   kElement      bytes of an element as the loop reads it
// W says what a pair of k is multiplied by; 64 bytes of a unit hold the pair:
//   kParts        instructions per pair and accumulator; part p takes Weights<p>(from) and Lhs<p>(from)
//   kFold         accumulators that Fold(dots) joins to a vector of columns
//   kHolds        whether the weights of all accumulators stay in registers, or are made one by one
//   kAsks         how often few rows ask L2 for what is ahead (prefetch.h, FewRows of tile_blocks_few.h)
//   kMostK        of a chain
//   Acc, ZeroAcc, AddAcc(acc, acc), Dot(acc, lhs, weights)
template <class V, class L, class W, int MR, int NU>
struct TileHalf : TileEpilogue<V, MR, NU> {
  using Base = TileEpilogue<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  using typename Base::Reg;
  using typename Base::Tail;

  static constexpr int kDots = kVectors * W::kFold;
  static constexpr int kDotsPerUnit = kPerUnit * W::kFold;
  static constexpr size_t kLine = 64;
  static constexpr int kAccumulators = MR * kDots;
  static constexpr int kSets = kAccumulators >= 8 ? 1 : kAccumulators >= 4 ? 2 : 4;
  static constexpr size_t kPairBytes = 2 * L::kElement;
  static constexpr size_t kRowBytes = kHalfChunk * L::kElement + kLine;  // staged: off a power of two
  using Dots = typename W::Acc[MR][kDots];

  template <class F>
  QUERN_INLINE static void EachDot(F f) {
    QUERN_UNROLL for (int r = 0; r < MR; ++r) { QUERN_UNROLL for (int d = 0; d < kDots; ++d) f(r, d); }
  }

  QUERN_INLINE static const char* WeightsAt(const char* rhs, size_t unit_stride, int d) {
    return rhs + static_cast<size_t>(d / kDotsPerUnit) * unit_stride + d % kDotsPerUnit * (kLine / kDotsPerUnit);
  }

  // What stands behind it is not begun before: weights and left values of several steps would not fit the registers.
  QUERN_INLINE static void InOrder() { asm volatile("" : : : "memory"); }

  template <int P, class At>
  QUERN_INLINE static void Part(Dots& acc, At at, const char* rhs, size_t unit_stride) {
    if constexpr (W::kHolds) {
      decltype(W::template Weights<P>(rhs)) w[kDots];
      QUERN_UNROLL for (int d = 0; d < kDots; ++d) w[d] = W::template Weights<P>(WeightsAt(rhs, unit_stride, d));
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        const auto x = W::template Lhs<P>(at(r));
        QUERN_UNROLL for (int d = 0; d < kDots; ++d) acc[r][d] = W::Dot(acc[r][d], x, w[d]);
      }
    } else {
      QUERN_UNROLL for (int d = 0; d < kDots; ++d) {
        const auto w = W::template Weights<P>(WeightsAt(rhs, unit_stride, d));
        QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][d] = W::Dot(acc[r][d], W::template Lhs<P>(at(r)), w);
        InOrder();
      }
    }
  }

  // A pair of k; at(r) is where row r has its elements.
  template <bool kIntoL1, class At>
  QUERN_INLINE static void Step(Dots& acc, At at, const char* rhs, size_t unit_stride) {
    // L1 is asked twice at most; several asks are 4 KB of all units apart.
    constexpr int kAsks = kIntoL1 && W::kAsks > 2 ? 2 : W::kAsks, kApart = kAsks > 1 ? 4096 / NU : 1024;
    QUERN_UNROLL for (int u = 0; u < NU; ++u) {
      const char* unit = rhs + static_cast<size_t>(u) * unit_stride;
      if constexpr (MR <= V::kFewRows) {
        QUERN_UNROLL for (int ask = kAsks; ask > 0; --ask) PrefetchStream(unit + ask * kApart, kIntoL1);
      } else if constexpr (V::kPrefetch != 0) {
        __builtin_prefetch(unit + V::kPrefetch);
      }
    }
    Part<0>(acc, at, rhs, unit_stride);
    if constexpr (W::kParts > 1) {
      InOrder();
      Part<1>(acc, at, rhs, unit_stride);
      InOrder();
    }
  }

  // at(r, offset): `offset` bytes into row r.
  template <bool kIntoL1, class At>
  QUERN_INLINE static void Pairs(Dots& acc, At at, const char* rhs, size_t unit_stride, size_t pairs) {
    const size_t end = pairs * kPairBytes;
    size_t i = 0;
    const auto step = [&](Dots& to, size_t g) {
      Step<kIntoL1>(to, [&](int r) { return at(r, i + g * kPairBytes); }, rhs + g * kLine, unit_stride);
    };
    if constexpr (kSets > 1) {
      Dots more[kSets - 1];
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) EachDot([&](int r, int d) { more[s][r][d] = W::ZeroAcc(); });
      for (; i + kSets * kPairBytes <= end; i += kSets * kPairBytes, rhs += kSets * kLine) {
        step(acc, 0);
        QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) step(more[s], s + 1);
      }
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
        EachDot([&](int r, int d) { acc[r][d] = W::AddAcc(acc[r][d], more[s][r][d]); });
      }
    } else {
      // Counters and branches compete with multiply-adds for ports.
      constexpr size_t kUnroll = 2;
      for (; i + kUnroll * kPairBytes <= end; i += kUnroll * kPairBytes, rhs += kUnroll * kLine) {
        QUERN_UNROLL for (size_t u = 0; u < kUnroll; ++u) step(acc, u);
      }
    }
    for (; i < end; i += kPairBytes, rhs += kLine) step(acc, 0);
  }

  // `count` elements of each row.
  template <bool kIntoL1>
  QUERN_INLINE static void Chunk(const GemmArgs& a, Dots& acc, const char* const (&row)[MR], const char* rhs,
                                 size_t count) {
    const size_t pairs = count / 2;
    if constexpr (L::kStaged) {
      char* stage = static_cast<char*>(a.scratch);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        L::Stage(row[r], count, reinterpret_cast<float*>(stage + r * kRowBytes));
        if (count % 2) __builtin_memset(stage + r * kRowBytes + count * L::kElement, 0, L::kElement);
      }
      const auto at = [stage](int r, size_t offset) { return stage + r * kRowBytes + offset; };
      Pairs<kIntoL1>(acc, at, rhs, a.rhs_unit_stride, (count + 1) / 2);
    } else {
      Pairs<kIntoL1>(acc, [&row](int r, size_t offset) { return row[r] + offset; }, rhs, a.rhs_unit_stride, pairs);
      if (count % 2) {  // half a pair: nothing is read behind the row
        alignas(8) char last[MR][8] = {};
        for (int r = 0; r < MR; ++r) __builtin_memcpy(last[r], row[r] + pairs * kPairBytes, L::kElement);
        Step<kIntoL1>(acc, [&last](int r) { return last[r]; }, rhs + pairs * kLine, a.rhs_unit_stride);
      }
    }
  }

  static const char* LhsRow(const GemmArgs& a, size_t tap, int r) {
    if (a.lhs_form == kLhsRowPointers) {
      const void* p = a.row_pointers[tap * a.row_pointer_pitch + static_cast<size_t>(r)];
      return static_cast<const char*>(p) + (p == a.zero_row ? 0 : a.row_pointer_offset);
    }
    const ptrdiff_t shift = a.lhs_form == kLhsTaps ? a.taps[tap].lhs_offset : 0;
    return static_cast<const char*>(a.lhs) + shift + r * a.lhs_row_stride;
  }

  // A chain's sums, and those of the chains before it.
  QUERN_INLINE static void Total(const Dots& acc, const void* before, size_t stride, typename Base::Acc& sum,
                                 const Tail& tail) {
    Base::Each([&](int r, int v) { sum[r][v] = W::Fold(acc[r] + v * W::kFold); });
    if (!before) return;
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      const float* p = Base::Row(before, static_cast<size_t>(r), stride, 0);
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = V::Add(Base::LoadN(p, v, tail), sum[r][v]);
    }
  }

  // kIntoL1: GemmArgs::stream_into_l1; a test of it in the loop costs AVX2 registers.
  template <bool kIntoL1>
  static void Run(const GemmArgs& a) {
    constexpr size_t kSumStride = NU * V::kUnit * sizeof(float);
    constexpr size_t kElement = FormatBytes(L::kFormat);
    const Tail tail = Base::MakeTail(a.n);
    char* sums = static_cast<char*>(a.scratch) + (L::kStaged ? MR * kRowBytes : 0);
    const void* before = a.first_k ? nullptr : a.acc;
    size_t before_stride = a.acc_row_stride;
    size_t chain = 0;
    Dots acc;
    typename Base::Acc sum;
    EachDot([&](int r, int d) { acc[r][d] = W::ZeroAcc(); });
    const size_t taps = a.lhs_form == kLhsRows ? 1 : a.tap_count;
    for (size_t t = 0; t < taps; ++t) {
      const char* rhs = static_cast<const char*>(a.rhs);
      if (a.lhs_form == kLhsTaps) rhs += a.taps[t].rhs_offset;
      if (a.lhs_form == kLhsRowPointers) rhs += t * a.rhs_tap_stride;
      for (size_t k = 0; k < a.k; k += W::kMostK) {
        const size_t count = a.k - k < W::kMostK ? a.k - k : W::kMostK;
        if (chain + count > W::kMostK) {
          Total(acc, before, before_stride, sum, tail);
          Base::Write(sums, kSumStride, sum, tail);
          before = sums;
          before_stride = kSumStride;
          chain = 0;
          EachDot([&](int r, int d) { acc[r][d] = W::ZeroAcc(); });
        }
        chain += count;
        const char* row[MR];
        QUERN_UNROLL for (int r = 0; r < MR; ++r) row[r] = LhsRow(a, t, r) + k * kElement;
        Chunk<kIntoL1>(a, acc, row, rhs + k / 2 * kLine, count);
      }
    }
    Total(acc, before, before_stride, sum, tail);
    if (a.last_k) {
      Base::Apply(a, a.ops, a.ops + a.op_count, sum, tail);
      Base::Write(a.dst, a.dst_row_stride, sum, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, sum, tail);
    }
  }
};

// The body for the call's m and number of units.
template <class V, class L, class W, int MR, int NU>
void DispatchTileHalf(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * V::kUnit)) return DispatchTileHalf<V, L, W, MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileHalf<V, L, W, MR - 1, NU>(a);
  }
  using Tile = TileHalf<V, L, W, MR, NU>;
  if constexpr (MR <= V::kFewRows) {
    if (a.stream_into_l1) return Tile::template Run<true>(a);
  }
  Tile::template Run<false>(a);
}

// Rows that are float32 already.
struct LhsF32 {
  static constexpr Format kFormat = Format::kF32;
  static constexpr bool kStaged = false;
  static constexpr size_t kElement = 4;
};

// Rows of 16-bit floats that the instructions take as they are.
template <Format F>
struct LhsHalf {
  static constexpr Format kFormat = F;
  static constexpr bool kStaged = false;
  static constexpr size_t kElement = 2;
};

// What weights with float32 accumulators have in common.
template <class V>
struct WeightsInF32 {
  static constexpr size_t kMostK = kHalfChunk;
  static constexpr int kParts = 1, kFold = 1, kAsks = 1;
  static constexpr bool kHolds = true;
  using Acc = typename V::Reg;
  static Acc ZeroAcc() { return V::Zero(); }
  static Acc AddAcc(Acc a, Acc b) { return V::Add(a, b); }
  static Acc Fold(const Acc* dots) { return dots[0]; }
  static Acc Dot(Acc acc, Acc x, Acc w) { return V::Fma(x, w, acc); }
};

constexpr PackLayout PairsOf(Format rhs) { return rhs == Format::kBf16 ? kBf16Pairs16 : kF16Pairs16; }

// The descriptor of a row that takes pairs and reads the left side wherever it is.
constexpr GemmKernel TileHalfRow(Format lhs, Format rhs, uint16_t mr, uint16_t nr, GemmCost cost, GemmRun run) {
  return {.isa = kIsa,
          .lhs = lhs,
          .rhs = rhs,
          .dst = Format::kF32,
          .precision = Precision::kFp32,
          .mr = mr,
          .nr = nr,
          .kr = 2,
          .lhs_forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .consumed = PairsOf(rhs),
          .layouts = {PairsOf(rhs)},
          .fused = kFusedProductF32,
          .cost = cost,
          .scratch_bytes = static_cast<uint32_t>(mr * (kHalfChunk * 4 + 64 + nr * 4)),
          .run = run};
}

// That of a float32 tile (tile_fma.h) for many rows: weights pass a block transform, 16-bit rows come widened.
constexpr GemmKernel WidenedRow(Format lhs, Format rhs, uint16_t mr, uint16_t nr, GemmCost cost, GemmRun run) {
  GemmKernel row = TileHalfRow(lhs, rhs, mr, nr, cost, run);
  row.kr = 1;
  row.consumed = kF32x16;
  row.scratch_bytes = 0;
  if (lhs == Format::kF32) return row;
  row.lhs_forms = kLhsRows;
  row.lhs_layout = kF32Rows;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
