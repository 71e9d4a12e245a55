// A few float32 rows by blocks of 2-bit weights on AVX-512: the results of a pair of k for all 16 pairs of weights make
// a table, in which several units of columns look theirs up. For kernel files only: everything has internal linkage and
// is compiled with their flags.
#pragma once

#include "ukernel/gemm/prefetch.h"
#include "ukernel/gemm/tile_f32_blocks_few.h"
#include "ukernel/pin_order.h"

namespace quern::ukernel {
namespace {

// acc = acc + scale * (x * (q - zero) + x' * (q' - zero)) for each pair of k, 4 apart, of a block, then
// + minimum * (sum of x) where the weights have float offsets.
//
// W: Numbers of 2 bits with constant zeros or minima: Table<0>() and Table<2>() have those of a pair's first and
// second, Pair<i>(line, table) looks up the line's i-th.
template <class W, int NR, int R>
struct F32Pairs {
  using V = typename W::V;
  using Int = typename V::Int;
  using Reg = typename V::Reg;

  static constexpr bool kMinimum = W::kZeros == BlockZero::kMinimum;
  static constexpr size_t kUnit = V::kUnit, kPiece = 32, kLine = 64, kBytes = 2 * kLine;  // k, bytes of a unit
  static constexpr size_t kAhead = 1024;                                                  // k
  static constexpr int kBits = 2, U = 4;                                                  // units at once
  // Additions wait for each other.
  static constexpr int kSets = R == 1 ? 2 : 1;

  using Acc = Reg[kSets][U][R];

  // The pairs of a line from the kPair-th on.
  template <int kPair>
  QUERN_INLINE static void Pairs(Acc& acc, Int (&line)[U], const Reg (&scale)[U], const float* const (&lhs)[R],
                                 size_t k) {
    if constexpr (kPair < 8) {
      constexpr size_t kAt = kPair / 2 + kPair % 2 * 8;
      Reg table[R];
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const float* x = lhs[r] + k + kAt;
        table[r] =
            V::Fma(V::Broadcast(x + 4), W::template Table<kBits>(), V::Mul(V::Broadcast(x), W::template Table<0>()));
      }
      QUERN_UNROLL for (int u = 0; u < U; ++u) {
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          Reg& to = acc[kPair % kSets][u][r];
          to = V::Fma(W::template Pair<kPair>(line[u], table[r]), scale[u], to);
          PinOrder(to);
        }
      }
      // One pair after the other: what is begun early has no registers.
      QUERN_UNROLL for (int u = 0; u < U; ++u) PinOrder(line[u]);
      asm volatile("" : : : "memory");
      Pairs<kPair + 1>(acc, line, scale, lhs, k);
    }
  }

  // `pieces` of the columns [n, n + U units) from k on; the rows at `rows` begin there.
  __attribute__((noinline)) static void Units(const GemmArgs& a, float* floats, size_t n, size_t k, size_t pieces,
                                              const float* rows, size_t row_stride) {
    const size_t stride = a.rhs_unit_stride, unit = n / kUnit * stride, block = k / a.block;
    const size_t scale_bytes = kUnit * FormatBytes(a.rhs_scale);
    const char* weights = static_cast<const char*>(a.rhs) + unit + k / kPiece * kBytes;
    const char* scales = static_cast<const char*>(a.rhs_scales) + unit + block * scale_bytes;
    const char* offsets = static_cast<const char*>(a.rhs_offsets) + unit + block * kUnit * sizeof(float);
    const float* lhs[R];
    for (size_t r = 0; r < R; ++r) lhs[r] = rows + r * row_stride;
    Acc acc;
    QUERN_UNROLL for (int u = 0; u < U; ++u) {
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        acc[0][u][r] = V::Load(floats + r * NR + u * kUnit);
        if constexpr (kSets > 1) acc[1][u][r] = V::Zero();
      }
    }
    size_t in_block = k % a.block;
    // What memory is asked for: of these units, beyond their end of the next ones.
    const size_t ahead = kAhead / kPiece < pieces ? kAhead / kPiece : pieces;
    const char* weights_ahead = weights + ahead * kBytes;
    const char* scales_ahead = scales + ahead * kPiece / a.block * scale_bytes;
    for (size_t i = 0; i < pieces; ++i) {
      if (i + ahead == pieces) {
        weights_ahead = static_cast<const char*>(a.rhs) + unit + U * stride;
        scales_ahead = static_cast<const char*>(a.rhs_scales) + unit + U * stride;
      }
      Reg scale[U];
      QUERN_UNROLL for (int u = 0; u < U; ++u) {
        scale[u] = V::LoadScale(scales + u * stride, a.rhs_scale);
        PrefetchStream(scales_ahead + u * stride, a.stream_into_l1);
        PrefetchStream(weights_ahead + u * stride, a.stream_into_l1);
        PrefetchStream(weights_ahead + u * stride + kLine, a.stream_into_l1);
      }
      QUERN_UNROLL for (size_t l = 0; l < 2; ++l) {
        Int line[U];
        QUERN_UNROLL for (int u = 0; u < U; ++u) {
          line[u] = V::LoadInt(reinterpret_cast<const int32_t*>(weights + u * stride + l * kLine));
        }
        Pairs<0>(acc, line, scale, lhs, l * 16);
      }
      if constexpr (kMinimum) {
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const Reg sum = V::Set1(SumOf<kPiece>(lhs[r]));
          QUERN_UNROLL for (int u = 0; u < U; ++u) {
            const Reg minimum = V::Load(reinterpret_cast<const float*>(offsets + u * stride));
            acc[0][u][r] = V::Fma(sum, minimum, acc[0][u][r]);
          }
        }
      }
      QUERN_UNROLL for (int r = 0; r < R; ++r) lhs[r] += kPiece;
      weights += kBytes;
      weights_ahead += kBytes;
      in_block += kPiece;
      if (in_block == a.block) {
        in_block = 0;
        scales += scale_bytes;
        scales_ahead += scale_bytes;
        offsets += kUnit * sizeof(float);
      }
    }
    QUERN_UNROLL for (int u = 0; u < U; ++u) {
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        if constexpr (kSets > 1) acc[0][u][r] = V::Add(acc[0][u][r], acc[1][u][r]);
        V::Store(floats + r * NR + u * kUnit, acc[0][u][r]);
      }
    }
  }

  // Columns that do not fill U units, and blocks of odd lengths, are left to F32BlocksFew.
  __attribute__((noinline)) static void Run(const GemmArgs& a, float* floats, void* scratch) {
    const auto* lhs = static_cast<const float*>(a.lhs);
    const size_t stride = static_cast<size_t>(a.lhs_row_stride) / sizeof(float), whole = a.k / kPiece * kPiece;
    float last[R * kPiece];  // rows end there
    for (size_t i = 0; i < R * kPiece; ++i) {
      const size_t k = whole + i % kPiece;
      last[i] = k < a.k ? lhs[i / kPiece * stride + k] : 0;
    }
    size_t n = 0;
    for (; a.block % kPiece == 0 && n + (U - 1) * kUnit < a.n; n += U * kUnit) {
      Units(a, floats + n, n, 0, whole / kPiece, lhs, stride);
      if (whole < a.k) Units(a, floats + n, n, whole, 1, last, kPiece);
    }
    if (n >= a.n) return;
    GemmArgs rest = a;
    const size_t unit = n / kUnit * a.rhs_unit_stride;
    rest.n -= n;
    rest.rhs = static_cast<const char*>(a.rhs) + unit;
    rest.rhs_scales = static_cast<const char*>(a.rhs_scales) + unit;
    rest.rhs_offsets = static_cast<const char*>(a.rhs_offsets) + unit;
    F32BlocksFew<W, NR, R>::Run(rest, floats + n, scratch);
  }
};

// The body for the call's m and kind of zeros: those of their own have no tables, and each row needs tables of its own.
template <template <Format, BlockZero> class Numbers, int NR, int MR>
void F32PairsRows(const GemmArgs& a, float* floats, void* scratch) {
  using Constant = Numbers<Format::kU2, BlockZero::kConstant>;
  using Minimum = Numbers<Format::kU2, BlockZero::kMinimum>;
  if (a.rhs_offset == Format::kU8 || a.m > 2) return F32BlocksFewRows<Numbers, Format::kU2, NR, MR>(a, floats, scratch);
  if (a.rhs_offset == Format::kF32) {
    a.m == 1 ? F32Pairs<Minimum, NR, 1>::Run(a, floats, scratch)
             : F32BlocksFew<Minimum, NR, 2>::Run(a, floats, scratch);
  } else {
    a.m == 1 ? F32Pairs<Constant, NR, 1>::Run(a, floats, scratch) : F32Pairs<Constant, NR, 2>::Run(a, floats, scratch);
  }
}

template <template <Format, BlockZero> class Numbers, int MR, int NR>
void RunF32Pairs(const GemmArgs& a) {
  using V = typename Numbers<Format::kU2, BlockZero::kConstant>::V;
  using Accumulators = BlockAccumulators<V, false, MR, NR>;
  auto* acc = static_cast<int32_t*>(a.scratch);
  Accumulators::Start(a, acc);
  F32PairsRows<Numbers, NR, MR>(a, reinterpret_cast<float*>(acc), acc + MR * NR);
  Accumulators::Finish(a, acc);
}

}  // namespace
}  // namespace quern::ukernel
