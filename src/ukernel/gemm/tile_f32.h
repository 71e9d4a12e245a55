// The float32 register tile: one body for every vector ISA, stamped for each (rows, units) that a row's calls may have.
// For kernel files only: everything has internal linkage and is compiled with their flags.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// V has what TileEpilogue needs and Fma(a, b, c) = a*b + c; kCheapMasks; kLhsBlock: 1, or k values loaded at once from
// each row, of which FmaLane<i> takes one.
template <class V, int MR, int NU>
struct TileF32 : TileEpilogue<V, MR, NU> {
  using Base = TileEpilogue<V, MR, NU>;
  using Base::kPerUnit;
  using Base::kVectors;
  // Few accumulators leave the multiply-add units waiting for their latency: K is then split over several sets.
  static constexpr int kAccumulators = MR * kVectors;
  static constexpr int kSets = V::kLhsBlock > 1 || kAccumulators >= 8 ? 1 : kAccumulators >= 4 ? 2 : 4;

  using typename Base::Acc;
  using typename Base::Mask;
  using typename Base::Reg;

  static const float* RhsAt(const char* rhs, size_t unit_stride, int v) {
    return reinterpret_cast<const float*>(rhs + static_cast<size_t>(v / kPerUnit) * unit_stride) +
           v % kPerUnit * V::kLanes;
  }

  // kMasked: the last unit is read up to the mask (a masked load takes a slot of a multiply-add port).
  template <bool kMasked>
  __attribute__((always_inline)) static void Step(Acc& acc, const float* const (&row)[MR], size_t k, const char* rhs,
                                                  size_t unit_stride, Mask tail) {
    Reg b[kVectors];
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const float* p = RhsAt(rhs, unit_stride, v);
      b[v] = kMasked && v == kVectors - 1 ? V::LoadMask(p, tail) : V::Load(p);
    }
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      const Reg x = V::Broadcast(row[r] + k);
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = V::Fma(x, b[v], acc[r][v]);
    }
  }

  template <int I>
  __attribute__((always_inline)) static void LaneStep(Acc& acc, const Reg (&x)[MR], const char* rhs,
                                                      size_t unit_stride) {
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Reg b = V::Load(RhsAt(rhs, unit_stride, v));
      QUERN_UNROLL for (int r = 0; r < MR; ++r) acc[r][v] = V::template FmaLane<I>(acc[r][v], b, x[r]);
    }
  }

  // Inline in each of its calls: out of line it would keep the accumulators in memory.
  template <bool kMasked>
  __attribute__((always_inline)) static void Segment(Acc& acc, const float* const (&row)[MR], const char* rhs,
                                                     size_t unit_stride, size_t k_stride, size_t k_count, Mask tail) {
    size_t k = 0;
    if constexpr (V::kLhsBlock == 4) {
      for (; k + 4 <= k_count; k += 4) {
        Reg x[MR];
        QUERN_UNROLL for (int r = 0; r < MR; ++r) x[r] = V::Load(row[r] + k);
        LaneStep<0>(acc, x, rhs, unit_stride);
        LaneStep<1>(acc, x, rhs + k_stride, unit_stride);
        LaneStep<2>(acc, x, rhs + 2 * k_stride, unit_stride);
        LaneStep<3>(acc, x, rhs + 3 * k_stride, unit_stride);
        rhs += 4 * k_stride;
      }
    } else if constexpr (kSets > 1) {
      Acc more[kSets - 1];
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) more[s][r][v] = V::Zero();
        }
      }
      for (; k + kSets <= k_count; k += kSets) {
        Step<kMasked>(acc, row, k, rhs, unit_stride, tail);
        QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
          Step<kMasked>(more[s], row, k + s + 1, rhs + (s + 1) * k_stride, unit_stride, tail);
        }
        rhs += kSets * k_stride;
      }
      QUERN_UNROLL for (int s = 0; s < kSets - 1; ++s) {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          QUERN_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = V::Add(acc[r][v], more[s][r][v]);
        }
      }
    }
    if constexpr (kSets == 1 && V::kLhsBlock == 1 && !kMasked) {
      // Counters and branches compete with multiply-adds for ports: fewer of them are worth 4 % on AVX-512.
      constexpr size_t kUnroll = 4;
      for (; k + kUnroll <= k_count; k += kUnroll) {
        QUERN_UNROLL for (size_t u = 0; u < kUnroll; ++u) {
          Step<kMasked>(acc, row, k + u, rhs + u * k_stride, unit_stride, tail);
        }
        rhs += kUnroll * k_stride;
      }
    }
    for (; k < k_count; ++k) {
      Step<kMasked>(acc, row, k, rhs, unit_stride, tail);
      rhs += k_stride;
    }
  }

  static void Run(const GemmArgs& a) {
    Acc acc;
    const typename Base::Tail tail = Base::MakeTail(a.n);
    if (a.first_k) {
      Base::Each([&](int r, int v) { acc[r][v] = V::Zero(); });
    } else {
      Base::Read(a.acc, a.acc_row_stride, acc, tail);
    }

    const bool in_place = a.rhs_form == RhsForm::kInPlace;
    const size_t unit_stride = in_place ? V::kUnit * sizeof(float) : a.rhs_unit_stride;
    const size_t k_stride = in_place ? a.rhs_k_stride : V::kUnit * sizeof(float);
    const size_t taps = a.lhs_form == kLhsRows ? 1 : a.tap_count;
    for (size_t t = 0; t < taps; ++t) {
      const float* row[MR];
      const char* rhs = static_cast<const char*>(a.rhs);
      if (a.lhs_form == kLhsRowPointers) {
        rhs += t * a.rhs_tap_stride;
        bool padding = true;
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          const void* p = a.row_pointers[t * a.row_pointer_pitch + r];
          padding &= p == a.zero_row;
          row[r] = reinterpret_cast<const float*>(static_cast<const char*>(p) +
                                                  (p == a.zero_row ? 0 : a.row_pointer_offset));
        }
        if (padding) continue;  // most taps of a kernel that reaches far beyond the image
      } else {
        const char* lhs = static_cast<const char*>(a.lhs);
        if (a.lhs_form == kLhsTaps) {
          lhs += a.taps[t].lhs_offset;
          rhs += a.taps[t].rhs_offset;
        }
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          row[r] = reinterpret_cast<const float*>(lhs + r * a.lhs_row_stride);
        }
      }
      if (in_place) {
        Segment<V::kCheapMasks>(acc, row, rhs, unit_stride, k_stride, a.k, tail.mask);
      } else {
        Segment<false>(acc, row, rhs, unit_stride, V::kUnit * sizeof(float), a.k, tail.mask);
      }
    }

    if (a.last_k) {
      Base::Apply(a, a.ops, a.ops + a.op_count, acc, tail);
      Base::Write(a.dst, a.dst_row_stride, acc, tail);
    } else {
      Base::Write(a.acc, a.acc_row_stride, acc, tail);
    }
  }
};

// The body for the call's m and number of units.
template <class V, int MR, int NU>
void DispatchTileF32(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= static_cast<size_t>((NU - 1) * V::kUnit)) return DispatchTileF32<V, MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileF32<V, MR - 1, NU>(a);
  }
  TileF32<V, MR, NU>::Run(a);
}

// The descriptor of a row.
[[maybe_unused]] constexpr GemmKernel TileF32Row(const PackLayout& layout, uint16_t mr, uint16_t nr, GemmCost cost,
                                                 GemmRun run) {
  return {.isa = kIsa,
          .lhs = Format::kF32,
          .rhs = Format::kF32,
          .dst = Format::kF32,
          .precision = Precision::kFp32,
          .mr = mr,
          .nr = nr,
          .kr = 1,
          .lhs_forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .consumed = layout,
          .layouts = {layout},
          .fused = kFusedProductF32,
          .cost = cost,
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
