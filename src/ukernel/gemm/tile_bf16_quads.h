// bf16 products on units of four k by two columns a 128-bit segment (kBf16x8Quads, kBf16SveQuads), summed in float32:
// by BFMMLA on panels of four rows, by BFDOT on few rows read in place. Denormal numbers count as zero. For
// kernel files only: internal linkage.
#pragma once

#include "ukernel/gemm/lhs_taps.h"
#include "ukernel/gemm/registers.h"
#include "ukernel/layouts_arm.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
using Bf16 = __bf16;

// D describes vectors of an ISA whose units are two vectors of float32 wide:
//   Reg                   float32 accumulators
//   Weights(p, j)         vector j; a unit has four for four k
//   Pair(p), Row(quad)    the quads of two rows, of one row twice, in each segment
//   Mmla, Dot(acc, x, w)  2 x 2 sums of a segment; sums of the first and the second pair of k of both columns
//   RowOf(r, c0, c1)      row r of the 2 x 2 blocks of two accumulators
//   Fold(c0, c1)          the sums of neighbours
//   Bytes(), kMaxBytes, Put(p, i, x), Get(p, i): of a vector, and its copy in memory
//   Fetch(a, m, v), Finish(a, m0, m, unit, x0, x1): a row's accumulators; its results
// Sums x0, x1 of row m in `unit`, added to the call's accumulators.
template <class D, class Reg>
QUERN_INLINE void Finish(GemmArgs& a, size_t m0, size_t m, int unit, Reg x0, Reg x1) {
  if (!a.first_k) {
    x0 = D::Add(x0, D::Fetch(a, m, 2 * unit));
    x1 = D::Add(x1, D::Fetch(a, m, 2 * unit + 1));
  }
  D::Finish(a, m0, m, static_cast<size_t>(unit), x0, x1);
}

// 4*kPanels rows of packed panels by one unit. The sum is in two chains, each over half of K: BFMMLA rounds to odd, and
// one chain would lose more than a loop of float32 multiply-adds does, two lose less. (BFDOT's are two anyway.)
template <class D, int kPanels>
struct TileMmla {
  static constexpr int kPairs = 2 * kPanels;
  static constexpr int kPanelQuad = 16;  // elements of a panel for four k
  using Reg = typename D::Reg;

  // The quad `i` after those that x and w point at.
  QUERN_INLINE static void Step(Reg* const* acc, const Bf16* const (&x)[kPanels], int i, const Bf16* w) {
    const auto w0 = D::Weights(w, 4 * i), w1 = D::Weights(w, 4 * i + 1);
    const auto w2 = D::Weights(w, 4 * i + 2), w3 = D::Weights(w, 4 * i + 3);
    QUERN_UNROLL for (int p = 0; p < kPairs; ++p) {
      Reg* const* c = acc + 4 * p;
      const auto y = D::Pair(x[p / 2] + i * kPanelQuad + p % 2 * 8);
      *c[0] = D::Mmla(*c[0], y, w0);
      *c[1] = D::Mmla(*c[1], y, w1);
      *c[2] = D::Mmla(*c[2], y, w2);
      *c[3] = D::Mmla(*c[3], y, w3);
    }
  }

  static void Run(const GemmArgs& call) {
    WithRegisters<4 * kPairs, Reg>([&](Reg* const* acc) __attribute__((always_inline)) {
      GemmArgs a = call;
      const Bf16* x[kPanels];
      QUERN_UNROLL for (int p = 0; p < kPanels; ++p) {
        x[p] = reinterpret_cast<const Bf16*>(static_cast<const char*>(a.lhs) + p * a.lhs_row_stride);
      }
      const size_t w_step = 8 * D::Bytes() / sizeof(Bf16);
      const auto* w = static_cast<const Bf16*>(a.rhs);
      alignas(16) char first[4 * kPairs * D::kMaxBytes];
      _Pragma("clang loop unroll(disable)") for (size_t quads = CeilDiv(a.k, 4), half = 0; half < 2; ++half) {
        QUERN_UNROLL for (int i = 0; i < 4 * kPairs; ++i) * acc[i] = D::Zero();
        size_t rest = half ? quads - quads / 2 : quads / 2;
        for (; rest >= 2; rest -= 2, w += w_step) {
          Step(acc, x, 0, w);
          Step(acc, x, 1, w);
          QUERN_UNROLL for (int p = 0; p < kPanels; ++p) x[p] += 2 * kPanelQuad;
        }
        if (rest) {
          Step(acc, x, 0, w);
          w += w_step / 2;
          QUERN_UNROLL for (int p = 0; p < kPanels; ++p) x[p] += kPanelQuad;
        }
        QUERN_UNROLL for (int i = 0; !half && i < 4 * kPairs; ++i) D::Put(first, i, *acc[i]);
      }
      QUERN_UNROLL for (int i = 0; i < 4 * kPairs; ++i) * acc[i] = D::Add(*acc[i], D::Get(first, i));
      QUERN_UNROLL for (int p = 0; p < kPairs; ++p) {
        Reg* const* c = acc + 4 * p;
        QUERN_UNROLL for (int r = 0; r < 2; ++r) {
          if (2 * p + r >= static_cast<int>(a.m)) return;
          Finish<D>(a, call.m0, static_cast<size_t>(2 * p + r), 0, D::RowOf(r, *c[0], *c[1]),
                    D::RowOf(r, *c[2], *c[3]));
        }
      }
    });
  }
};

// MR rows read in place by NU units.
template <class D, int MR, int NU>
struct TileDot {
  static constexpr int kVectors = 4 * NU;  // of weights, and of accumulators a row
  using Reg = typename D::Reg;

  QUERN_INLINE static void Step(Reg* const* acc, const uint64_t (&quad)[MR], const char* w, size_t unit_stride) {
    QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
      const auto b = D::Weights(reinterpret_cast<const Bf16*>(w + static_cast<size_t>(v / 4) * unit_stride), v % 4);
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        *acc[r * kVectors + v] = D::Dot(*acc[r * kVectors + v], D::Row(quad[r]), b);
      }
    }
  }

  static void Run(const GemmArgs& call) {
    WithRegisters<MR * kVectors, Reg>([&](Reg* const* acc) __attribute__((always_inline)) {
      GemmArgs a = call;
      QUERN_UNROLL for (int i = 0; i < MR * kVectors; ++i) * acc[i] = D::Zero();
      EachTap<uint16_t, MR>(a, [&](const uint16_t* const(&row)[MR], const char* w) __attribute__((always_inline)) {
        uint64_t quad[MR];
        size_t k = 0;
        for (; k + 4 <= a.k; k += 4, w += 4 * D::Bytes()) {
          QUERN_UNROLL for (int r = 0; r < MR; ++r) __builtin_memcpy(&quad[r], row[r] + k, 8);
          Step(acc, quad, w, a.rhs_unit_stride);
        }
        if (k == a.k) return;
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          quad[r] = 0;
          for (size_t i = k; i < a.k; ++i) quad[r] |= static_cast<uint64_t>(row[r][i]) << 16 * (i - k);
        }
        Step(acc, quad, w, a.rhs_unit_stride);
      });
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        QUERN_UNROLL for (int u = 0; u < NU; ++u) {
          Reg* const* c = acc + r * kVectors + 4 * u;
          Finish<D>(a, call.m0, static_cast<size_t>(r), u, D::Fold(*c[0], *c[1]), D::Fold(*c[2], *c[3]));
        }
      }
    });
  }
};

template <class D, int kPanels>
void DispatchMmla(const GemmArgs& a) {
  if constexpr (kPanels > 1) {
    if (a.m <= 4 * (kPanels - 1)) return DispatchMmla<D, kPanels - 1>(a);
  }
  TileMmla<D, kPanels>::Run(a);
}

template <class D, int MR, int NU>
void DispatchDot(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= (NU - 1) * D::Bytes() / 2) return DispatchDot<D, MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < MR) return DispatchDot<D, MR - 1, NU>(a);
  }
  TileDot<D, MR, NU>::Run(a);
}
#endif

// The descriptors of an ISA's rows. `step`: cycles of the 4 k of a row by a unit with BFMMLA.
[[maybe_unused]] constexpr GemmKernel Bf16QuadRow(const PackLayout& units, uint32_t fused, float step, GemmRun run) {
  GemmKernel row{.isa = kIsa,
                 .lhs = Format::kBf16,
                 .rhs = Format::kBf16,
                 .dst = Format::kF32,
                 .precision = Precision::kBf16,  // their own rounding of sums: docs/numerics.md
                 .mr = 12,
                 .nr = units.n_unit,
                 .kr = 4,
                 .nr_scale = units.n_scale,
                 .lhs_forms = kLhsPacked,
                 .lhs_layout = kBf16QuadPanels,
                 .consumed = units,
                 .layouts = {units},
                 .fused = fused,
                 .cost = {.engine = Engine::kVector, .step_row = step, .step_min = 2 * step, .row = 8, .tile = 40},
                 .run = run};
  row.cost.m_grain = 4;
  return row;
}
[[maybe_unused]] constexpr GemmKernel Bf16DotRow(const PackLayout& units, uint32_t fused, float step, GemmRun run) {
  GemmKernel row = Bf16QuadRow(units, fused, 4 * step, run);
  row.mr = 2;
  row.nr = static_cast<uint16_t>(2 * units.n_unit);
  row.lhs_forms = kLhsRows | kLhsTaps | kLhsRowPointers;
  row.lhs_layout = {};
  row.cost.m_grain = 1;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
