// Products on SME: outer products of two by two streaming vectors into ZA's float32 tiles. A call covers a whole panel,
// so that streaming mode is entered once, in the trampoline. For kernel files only: everything has internal linkage.
#pragma once

#if QUERN_ISA_HERE
#include <arm_sme.h>
#endif

#define QUERN_SVE_MODE __arm_streaming
#include "ukernel/gemm/epilogue_sve.h"
#include "ukernel/layouts_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/sme_call.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
template <class E>
constexpr bool IsHalf = false;
template <>
constexpr bool IsHalf<float16_t> = true;

// Elements E: float, or 16-bit floats in pairs along K. A step has two vectors of each side; L loads two steps from
// vector `at` on, or one, as tuples of vectors: Four(p, at), Two(p) (loads_sme.h, loads_sme2.h). kIndexed: its loads
// take an index, not an offset.
template <class L, class E>
struct TileSme {
  static constexpr size_t kGroup = 4 / sizeof(E);

  // BFMOPA takes denormal numbers as zero and rounds to odd: a sum in two chains loses less than a loop of float32
  // multiply-adds, one chain would lose more.
  static constexpr size_t kChains = sizeof(E) == 2 && !IsHalf<E> ? 2 : 1;

  // ZA tile T, rows and columns from (m, n) of the call on, added to `sums`; results, or (not last) sums again.
  template <int T>
  QUERN_SVE_INLINE void Finish(const GemmArgs& a, size_t m, size_t n, const void* sums, size_t stride,
                               bool last) __arm_streaming __arm_inout("za") {
    const svbool_t pg = ColumnsFrom(a, n);
    for (uint64_t r = 0; r < svcntw() && m + r < a.m; ++r) {
      svfloat32_t x = svread_hor_za32_m(svdup_f32(0), pg, T, static_cast<uint32_t>(r));
      if (sums) x = svadd_x(pg, x, svld1(pg, RowAt(sums, m + r, stride, n)));
      if (last) {
        FinishRow(a, pg, m + r, n, x);
      } else {
        StoreRow(a, pg, m + r, n, x);
      }
    }
  }

  template <class V>
  QUERN_SVE_INLINE void Step(V x0, V x1, V w0, V w1) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b8();
    svmopa_za32_m(0, all, all, x0, w0);
    svmopa_za32_m(1, all, all, x0, w1);
    svmopa_za32_m(2, all, all, x1, w0);
    svmopa_za32_m(3, all, all, x1, w1);
  }
  QUERN_SVE_INLINE void TwoSteps(const E* lhs, const E* rhs, int64_t at) __arm_streaming __arm_inout("za") {
    const auto x = L::Four(lhs, at), w = L::Four(rhs, at);
    Step(svget4(x, 0), svget4(x, 1), svget4(w, 0), svget4(w, 1));
    Step(svget4(x, 2), svget4(x, 3), svget4(w, 2), svget4(w, 3));
  }

  QUERN_SVE_INLINE void Product(const E* lhs, const E* rhs, size_t steps) __arm_streaming __arm_inout("za") {
    const uint64_t step = 2 * svcntb() / sizeof(E);
    const uint64_t rounds = steps / 4;
    if constexpr (L::kIndexed) {
      const E *lhs2 = lhs + 2 * step, *rhs2 = rhs + 2 * step;
      for (uint64_t i = 0, end = rounds * 4 * step; i != end; i += 4 * step) {
        asm("" : "+r"(i));  // or the compiler keeps four pointers, and adds to them all
        TwoSteps(lhs + i, rhs + i, 0);
        TwoSteps(lhs2 + i, rhs2 + i, 0);
      }
      lhs += rounds * 4 * step;
      rhs += rounds * 4 * step;
    } else {
      for (uint64_t i = rounds; i; --i, lhs += 4 * step, rhs += 4 * step) {
        TwoSteps(lhs, rhs, 0);
        TwoSteps(lhs, rhs, 4);
      }
    }
    for (size_t rest = steps % 4; rest; --rest, lhs += step, rhs += step) {
      const auto x = L::Two(lhs), w = L::Two(rhs);
      Step(svget2(x, 0), svget2(x, 1), svget2(w, 0), svget2(w, 1));
    }
  }

  static void Body(void* argument) __arm_streaming __arm_inout("za") {
    const GemmArgs& a = *static_cast<const GemmArgs*>(argument);
    const uint64_t lanes = svcntw();
    for (size_t n = 0, unit = 0; n < a.n; n += 2 * lanes, ++unit) {
      for (size_t m = 0, panel = 0; m < a.m; m += 2 * lanes, ++panel) {
        const E* lhs = reinterpret_cast<const E*>(static_cast<const char*>(a.lhs) +
                                                  static_cast<ptrdiff_t>(panel) * a.lhs_row_stride);
        const E* rhs = reinterpret_cast<const E*>(static_cast<const char*>(a.rhs) + unit * a.rhs_unit_stride);
        const void* sums = a.first_k ? nullptr : a.acc;
        size_t stride = a.acc_row_stride, steps = (a.k + kGroup - 1) / kGroup;
        for (size_t chain = 0; chain < kChains; ++chain) {
          const size_t part = chain + 1 < kChains ? steps / 2 : steps;
          svzero_za();
          Product(lhs, rhs, part);
          const bool last = chain + 1 == kChains;
          Finish<0>(a, m, n, sums, stride, last);
          Finish<1>(a, m, n + lanes, sums, stride, last);
          Finish<2>(a, m + lanes, n, sums, stride, last);
          Finish<3>(a, m + lanes, n + lanes, sums, stride, last);
          sums = a.last_k ? a.dst : a.acc;
          stride = a.last_k ? a.dst_row_stride : a.acc_row_stride;
          lhs += part * 2 * lanes * kGroup;
          rhs += part * 2 * lanes * kGroup;
          steps -= part;
        }
      }
    }
  }

  static void Run(const GemmArgs& a) { quern_sme_call(Body, const_cast<GemmArgs*>(&a)); }
};
#endif

// The descriptor of a row of `format` operands. An outer product a cycle, four for two vectors of rows, and `loads` for
// those that wait for loads; entering streaming mode stalls the core.
[[maybe_unused]] constexpr GemmKernel SmeRow(Format format, const LhsLayout& panels, const PackLayout& units,
                                             float loads, GemmRun run) {
  return {.isa = kIsa,
          .lhs = format,
          .rhs = format,
          .dst = Format::kF32,
          .precision = format == Format::kBf16 ? Precision::kBf16 : Precision::kFp32,
          .mr = 2,
          .nr = 2,
          .kr = units.k_interleave,
          .mr_scale = VectorScale::kSme,
          .nr_scale = VectorScale::kSme,
          .whole_panel = true,
          .lhs_forms = kLhsPacked,
          .lhs_layout = panels,
          .consumed = units,
          .layouts = {units},
          .fused = kFusedSve,
          .cost = {.engine = Engine::kMatrix,
                   .step_row = 2,
                   .step_load = loads,
                   .row = 4,
                   .tile = 60,
                   .call = 800,
                   .m_grain = 2},
          .run = run};
}

// That of float32 rows by float16 weights: a block transform widens them, once for all rows.
[[maybe_unused]] constexpr GemmKernel SmeRowByF16(float loads, GemmRun run) {
  GemmKernel row = SmeRow(Format::kF32, kF32SmePanels, kF32Sme, loads, run);
  row.rhs = Format::kF16;
  row.layouts[0] = kF16SmeLines;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
