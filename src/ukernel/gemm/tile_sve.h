// The float32 register tile on SVE: units of two vectors, four k of each row replicated to all 128-bit segments and
// used by lane. For kernel files only: everything has internal linkage.
#pragma once

#if QUERN_ISA_HERE
#include <arm_sve.h>
#endif

#define QUERN_SVE_MODE
#include "ukernel/gemm/epilogue_sve.h"
#include "ukernel/gemm/lhs_taps.h"
#include "ukernel/gemm/registers.h"
#include "ukernel/layouts_arm.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// Elements of both sides: float32 as they are, float16 converted. A block has four k of a row in each segment.
template <class T>
struct SveOperand;

template <>
struct SveOperand<float> {
  static svfloat32_t Block(const float* p) { return svld1rq_f32(svptrue_b32(), p); }
  static svfloat32_t Columns(const float* p, int64_t vector) { return svld1_vnum_f32(svptrue_b32(), p, vector); }
};

template <>
struct SveOperand<float16_t> {
  static svfloat32_t Block(const float16_t* p) {
    uint64_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return svcvt_f32_x(svptrue_b32(), svreinterpret_f16(svunpklo_u32(svreinterpret_u16(svdup_u64(four)))));
  }
  static svfloat32_t Columns(const float16_t* p, int64_t vector) {
    const svuint32_t x = svld1uh_vnum_u32(svptrue_b32(), reinterpret_cast<const uint16_t*>(p), vector);
    return svcvt_f32_x(svptrue_b32(), svreinterpret_f16(x));
  }
};

template <class L, class R, int MR, int NU>
struct TileSve {
  static constexpr int kVectors = 2 * NU;
  static constexpr int kBlock = 4;
  using Reg = svfloat32_t;

  QUERN_INLINE static Reg Weights(const char* rhs, size_t unit_stride, int v) {
    return SveOperand<R>::Columns(reinterpret_cast<const R*>(rhs + static_cast<size_t>(v / 2) * unit_stride), v % 2);
  }

  // Lanes I.. of a block.
  template <int I>
  QUERN_INLINE static void LaneSteps(Reg* const* acc, Reg* const* x, const char* rhs, size_t unit_stride,
                                     size_t k_stride) {
    if constexpr (I < 4) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const Reg b = Weights(rhs, unit_stride, v);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          *acc[r * kVectors + v] = svmla_lane(*acc[r * kVectors + v], b, *x[r], I);
        }
      }
      LaneSteps<I + 1>(acc, x, rhs + k_stride, unit_stride, k_stride);
    }
  }

  QUERN_INLINE static void Segment(Reg* const* acc, Reg* const* x, const L* const (&row)[MR], const char* rhs,
                                   size_t unit_stride, size_t k_stride, size_t k_count) {
    size_t k = 0;
    for (; k + kBlock <= k_count; k += kBlock, rhs += kBlock * k_stride) {
      asm("" : "+r"(k));  // or the compiler keeps a pointer for each row, and adds to them all
      QUERN_UNROLL for (int r = 0; r < MR; ++r) * x[r] = SveOperand<L>::Block(row[r] + k);
      LaneSteps<0>(acc, x, rhs, unit_stride, k_stride);
    }
    for (; k < k_count; ++k, rhs += k_stride) {
      QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
        const Reg b = Weights(rhs, unit_stride, v);
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          Reg& c = *acc[r * kVectors + v];
          c = svmla_x(svptrue_b32(), c, b, static_cast<float>(row[r][k]));
        }
      }
    }
  }

  static void Run(const GemmArgs& a) {
    const size_t lanes = svcntw();
    WithRegisters<MR*(kVectors + 1), Reg>([&](Reg* const* all) __attribute__((always_inline)) {
      Reg* const* x = all + MR * kVectors;
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          const size_t n = static_cast<size_t>(v) * lanes;
          *all[r * kVectors + v] = a.first_k ? svdup_f32(0) : FetchRow(a, ColumnsFrom(a, n), static_cast<size_t>(r), n);
        }
      }
      EachTap<L, MR>(a, [&](const L* const(&row)[MR], const char* rhs) __attribute__((always_inline)) {
        Segment(all, x, row, rhs, a.rhs_unit_stride, 2 * lanes * sizeof(R), a.k);
      });
      QUERN_UNROLL for (int r = 0; r < MR; ++r) {
        QUERN_UNROLL for (int v = 0; v < kVectors; ++v) {
          FinishVector(a, static_cast<size_t>(r), static_cast<size_t>(v) * lanes, *all[r * kVectors + v]);
        }
      }
    });
  }
};

// The body for the call's m and number of units.
template <class L, class R, int MR, int NU>
void DispatchTileSve(const GemmArgs& a) {
  if constexpr (NU > 1) {
    if (a.n <= (NU - 1) * 2 * svcntw()) return DispatchTileSve<L, R, MR, NU - 1>(a);
  }
  if constexpr (MR > 1) {
    if (a.m < static_cast<size_t>(MR)) return DispatchTileSve<L, R, MR - 1, NU>(a);
  }
  TileSve<L, R, MR, NU>::Run(a);
}
#endif

// The descriptor of a row: `mr` rows by `vectors` vectors, whose multiply-adds take `overhead` of a cycle's. Cost terms
// count per lane: four lanes of a vector cost what a vector of 128 bits does.
[[maybe_unused]] constexpr GemmKernel SveRow(Format lhs, const PackLayout& layout, uint16_t mr, uint16_t vectors,
                                             float overhead, GemmRun run) {
  return {.isa = kIsa,
          .lhs = lhs,
          .rhs = layout.element,
          .dst = Format::kF32,
          .precision = Precision::kFp32,
          .mr = mr,
          .nr = vectors,
          .kr = 1,
          .nr_scale = VectorScale::kSve,
          .lhs_forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .consumed = layout,
          .layouts = {layout},
          .fused = kFusedSve,
          .cost = {.engine = Engine::kVector,
                   .step_row = vectors / 8.0f * overhead,
                   .step_min = vectors / 8.0f,
                   .row = vectors * 4.0f,
                   .tile = 30},
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
