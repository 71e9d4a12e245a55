// Register tiles of results and the epilogues fused to those that end in float32 (tiles of float64 have none): one body
// for every vector ISA and tile. For kernel files only: everything has internal linkage and is compiled with their
// flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/gemm.h"

#if defined(__clang__)
#define QUERN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QUERN_UNROLL _Pragma("GCC unroll 16")
#endif

// For functions that take a tile's accumulators: called, they would keep them in memory, in the hot loop too.
#define QUERN_INLINE __attribute__((always_inline)) inline

namespace quern::ukernel {
namespace {

// V is the vector type's traits: Scalar (float, or double), kLanes, kUnit (lanes of the layout's unit), Reg, Mask,
// Zero, Set1, Load, Store, LoadMask, StoreMask, MakeMask(lanes), Broadcast(p), Add, Mul, Div, Min, Max (the second
// argument where the first or both are NaN, but on Arm, where NaN stays).

[[maybe_unused]] constexpr uint32_t kFusedF32 =
    EpilogueBit(EpilogueKind::kAddVectorN) | EpilogueBit(EpilogueKind::kMulVectorN) |
    EpilogueBit(EpilogueKind::kAddVectorM) | EpilogueBit(EpilogueKind::kMulVectorM) |
    EpilogueBit(EpilogueKind::kDivVectorM) | EpilogueBit(EpilogueKind::kAddOuter) |
    EpilogueBit(EpilogueKind::kAddMatrix) | EpilogueBit(EpilogueKind::kMulMatrix) |
    EpilogueBit(EpilogueKind::kAddScalar) | EpilogueBit(EpilogueKind::kMulScalar) | EpilogueBit(EpilogueKind::kClamp) |
    EpilogueBit(EpilogueKind::kLeakyRelu) | EpilogueBit(EpilogueKind::kPrelu) |
    EpilogueBit(EpilogueKind::kHardSigmoid) | EpilogueBit(EpilogueKind::kHardSwish);

// Products of float32 accumulators also reduce their rows. Not those of int32: a requantization, which stores,
// may stand before the reductions.
[[maybe_unused]] constexpr uint32_t kFusedProductF32 =
    kFusedF32 | EpilogueBit(EpilogueKind::kRowMinMax) | EpilogueBit(EpilogueKind::kRowSumSquares);

// A reduction over x[0..n) of output row m. Out of line: it is rare, and tiles are unrolled.
[[maybe_unused]] __attribute__((noinline)) void ReduceRow(const EpilogueOp& op, const float* x, size_t n, size_t m) {
  if (op.kind == EpilogueKind::kRowMinMax) {
    float* range = static_cast<float*>(op.out) + 2 * m;
    for (size_t i = 0; i < n; ++i) {
      range[0] = x[i] < range[0] ? x[i] : range[0];
      range[1] = x[i] > range[1] ? x[i] : range[1];
    }
    return;
  }
  float total = 0;
  for (size_t i = 0; i < n; ++i) total += x[i] * x[i];
  static_cast<float*>(op.out)[m] += total;
}

// A tile of MR rows by NU units held in vectors, and what is done to it after the product.
template <class V, int MR, int NU>
struct TileEpilogue {
  static constexpr int kPerUnit = V::kUnit / V::kLanes;
  static constexpr int kVectors = NU * kPerUnit;

  using Scalar = typename V::Scalar;
  using Reg = typename V::Reg;
  using Mask = typename V::Mask;
  using Acc = Reg[MR][kVectors];

  // Runs f(r, v) over the tile.
  template <class F>
  QUERN_INLINE static void Each(F f) {
    QUERN_UNROLL for (int r = 0; r < MR; ++r) { QUERN_UNROLL for (int v = 0; v < kVectors; ++v) f(r, v); }
  }

  static const Scalar* Row(const void* base, size_t row, size_t stride, size_t column) {
    return reinterpret_cast<const Scalar*>(static_cast<const char*>(base) + row * stride) + column;
  }

  // The vectors that hold real columns: the last unit may be partly empty where a unit has several vectors.
  struct Tail {
    int vectors;  // number of vectors with at least one column
    Mask mask;    // of the last of them
    bool whole;   // every lane of the tile is a column
  };

  static Tail MakeTail(size_t n) {
    Tail t;
    t.vectors = kPerUnit == 1 ? kVectors : static_cast<int>((n + V::kLanes - 1) / V::kLanes);
    const size_t last = n - static_cast<size_t>(t.vectors - 1) * V::kLanes;
    t.mask = V::MakeMask(last);
    t.whole = t.vectors == kVectors && last == static_cast<size_t>(V::kLanes);
    return t;
  }

  // Lines with fewer columns than the tile, out of line: telling lanes apart for each accumulator, where a tile's sums
  // are in registers, costs some of those in its loops.
  [[gnu::noinline]] static void WriteLines(void* base, size_t row_stride,
                                           const Scalar (&lines)[MR][kVectors * V::kLanes], const Tail& t) {
    const int last = (t.vectors - 1) * V::kLanes;
    for (int r = 0; r < MR; ++r) {
      Scalar* p = reinterpret_cast<Scalar*>(static_cast<char*>(base) + r * row_stride);
      for (int n = 0; n < last; n += V::kLanes) V::Store(p + n, V::Load(lines[r] + n));
      V::StoreMask(p + last, V::Load(lines[r] + last), t.mask);
    }
  }

  static bool In(const Tail& t, int v) { return kPerUnit == 1 || v < t.vectors; }
  static Reg LoadN(const Scalar* p, int v, const Tail& t) {
    return v == t.vectors - 1 ? V::LoadMask(p + v * V::kLanes, t.mask)
           : In(t, v)         ? V::Load(p + v * V::kLanes)
                              : V::Zero();
  }

  // Runs ops [op, end) of the call's list, all of kinds in kKinds, on the tile whose rows begin at m0 of the result; a
  // reference is ApplyEpilogue: the same operations in its order.
  template <uint32_t kKinds = kFusedProductF32>
  QUERN_INLINE static void Apply(const GemmArgs& a, const EpilogueOp* op, const EpilogueOp* end, Acc& acc,
                                 const Tail& t, size_t m0) {
    for (; op != end; ++op) {
      switch (op->kind) {
        case EpilogueKind::kAddVectorN:
        case EpilogueKind::kMulVectorN: {
          const float* p = static_cast<const float*>(op->data) + a.n0;
          const bool multiply = op->kind == EpilogueKind::kMulVectorN;
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
            const Reg x = LoadN(p, v, t);
            QUERN_UNROLL for (int r = 0; r < MR; ++r) {
              acc[r][v] = multiply ? V::Mul(acc[r][v], x) : V::Add(acc[r][v], x);
            }
          }
          break;
        }
        case EpilogueKind::kAddVectorM: {
          const float* p = static_cast<const float*>(op->data) + m0;
          Each([&](int r, int v) { acc[r][v] = V::Add(acc[r][v], V::Broadcast(p + r)); });
          break;
        }
        case EpilogueKind::kMulVectorM: {
          const float* p = static_cast<const float*>(op->data) + m0;
          Each([&](int r, int v) { acc[r][v] = V::Mul(acc[r][v], V::Broadcast(p + r)); });
          break;
        }
        case EpilogueKind::kDivVectorM: {
          const float* p = static_cast<const float*>(op->data) + m0;
          QUERN_UNROLL for (int r = 0; r < MR; ++r) {
            const Reg x = V::Broadcast(p + r);
            QUERN_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = V::Div(acc[r][v], x);
          }
          break;
        }
        case EpilogueKind::kAddOuter: {
          const float* p = static_cast<const float*>(op->data) + m0;
          const float* q = static_cast<const float*>(op->data2) + a.n0;
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
            const Reg x = LoadN(q, v, t);
            QUERN_UNROLL for (int r = 0; r < MR; ++r) { acc[r][v] = V::Add(acc[r][v], V::Mul(V::Broadcast(p + r), x)); }
          }
          break;
        }
        case EpilogueKind::kAddMatrix:
        case EpilogueKind::kMulMatrix: {
          const bool multiply = op->kind == EpilogueKind::kMulMatrix;
          const char* row = reinterpret_cast<const char*>(Row(op->data, m0, op->row_stride, a.n0));
          QUERN_UNROLL for (int r = 0; r < MR; ++r, row += op->row_stride) {
            const float* p = reinterpret_cast<const float*>(row);
            QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
              const Reg x = LoadN(p, v, t);
              acc[r][v] = multiply ? V::Mul(acc[r][v], x) : V::Add(acc[r][v], x);
            }
          }
          break;
        }
        case EpilogueKind::kAddScalar: {
          const Reg x = V::Set1(op->a);
          Each([&](int r, int v) { acc[r][v] = V::Add(acc[r][v], x); });
          break;
        }
        case EpilogueKind::kMulScalar: {
          const Reg x = V::Set1(op->a);
          Each([&](int r, int v) { acc[r][v] = V::Mul(acc[r][v], x); });
          break;
        }
        case EpilogueKind::kClamp: {
          const Reg lo = V::Set1(op->a), hi = V::Set1(op->b);
          Each([&](int r, int v) { acc[r][v] = V::Max(lo, acc[r][v]); });
          if (op->b == __builtin_inff()) break;  // a Relu
          Each([&](int r, int v) { acc[r][v] = V::Min(hi, acc[r][v]); });
          break;
        }
        case EpilogueKind::kLeakyRelu:
        case EpilogueKind::kPrelu: {
          const Reg zero = V::Zero(), slope = V::Set1(op->a);
          const float* p = static_cast<const float*>(op->data) + a.n0;
          const bool each_column = op->kind == EpilogueKind::kPrelu;
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
            const Reg y = each_column ? LoadN(p, v, t) : slope;
            QUERN_UNROLL for (int r = 0; r < MR; ++r) {
              const Reg x = acc[r][v];
              acc[r][v] = V::Add(V::Max(zero, x), V::Mul(y, V::Min(zero, x)));
            }
          }
          break;
        }
        case EpilogueKind::kHardSigmoid: {
          const Reg slope = V::Set1(op->a), offset = V::Set1(op->b), zero = V::Zero(), one = V::Set1(1.0f);
          Each([&](int r, int v) { acc[r][v] = V::Min(one, V::Max(zero, V::Add(V::Mul(acc[r][v], slope), offset))); });
          break;
        }
        case EpilogueKind::kHardSwish: {
          const Reg sixth = V::Set1(1.0f / 6.0f), half = V::Set1(0.5f), zero = V::Zero(), one = V::Set1(1.0f);
          Each([&](int r, int v) {
            const Reg y = V::Add(V::Mul(acc[r][v], sixth), half);
            acc[r][v] = V::Mul(acc[r][v], V::Min(one, V::Max(zero, y)));
          });
          break;
        }
        case EpilogueKind::kRowMinMax:
        case EpilogueKind::kRowSumSquares:
          if constexpr ((kKinds & EpilogueBit(EpilogueKind::kRowMinMax)) != 0) {
            QUERN_UNROLL for (int r = 0; r < MR; ++r) {
              float x[kVectors * V::kLanes];
              QUERN_UNROLL for (int v = 0; v < kVectors; ++v) V::Store(x + v * V::kLanes, acc[r][v]);
              ReduceRow(*op, x, a.n, m0 + static_cast<size_t>(r));
            }
          }
          break;
        default:
          break;
      }
    }
  }

  // On the call's tile.
  template <uint32_t kKinds = kFusedProductF32>
  QUERN_INLINE static void Apply(const GemmArgs& a, const EpilogueOp* op, const EpilogueOp* end, Acc& acc,
                                 const Tail& t) {
    Apply<kKinds>(a, op, end, acc, t, a.m0);
  }

  // Reads the tile from [m][n].
  QUERN_INLINE static void Read(const void* base, size_t row_stride, Acc& acc, const Tail& t) {
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      const Scalar* p = Row(base, r, row_stride, 0);
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = LoadN(p, v, t);
    }
  }

  QUERN_INLINE static void Write(void* base, size_t row_stride, const Acc& acc, const Tail& t) {
    if (t.whole) {  // masked stores take 10 to 20 cycles on some CPUs
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        Scalar* p = reinterpret_cast<Scalar*>(static_cast<char*>(base) + r * row_stride);
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) V::Store(p + v * V::kLanes, acc[r][v]);
      }
      return;
    }
    if constexpr (!V::kCheapMasks) {
      alignas(64) Scalar lines[MR][kVectors * V::kLanes];
      Each([&](int r, int v) { V::Store(lines[r] + v * V::kLanes, acc[r][v]); });
      return WriteLines(base, row_stride, lines, t);
    }
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      Scalar* p = reinterpret_cast<Scalar*>(static_cast<char*>(base) + r * row_stride);
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        if (v == t.vectors - 1) {
          V::StoreMask(p + v * V::kLanes, acc[r][v], t.mask);
        } else if (In(t, v)) {
          V::Store(p + v * V::kLanes, acc[r][v]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
