// Fused epilogues on scalable vectors of float32, a row at a time under a predicate. QUERN_SVE_MODE says where it runs:
// __arm_streaming, or nothing. For kernel files only: everything has internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/gemm.h"

#define QUERN_SVE_INLINE __attribute__((always_inline)) static inline

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr uint32_t kFusedSve =
    EpilogueBit(EpilogueKind::kAddVectorN) | EpilogueBit(EpilogueKind::kMulVectorN) |
    EpilogueBit(EpilogueKind::kAddVectorM) | EpilogueBit(EpilogueKind::kMulVectorM) |
    EpilogueBit(EpilogueKind::kDivVectorM) | EpilogueBit(EpilogueKind::kAddOuter) |
    EpilogueBit(EpilogueKind::kAddMatrix) | EpilogueBit(EpilogueKind::kMulMatrix) |
    EpilogueBit(EpilogueKind::kAddScalar) | EpilogueBit(EpilogueKind::kMulScalar) | EpilogueBit(EpilogueKind::kClamp) |
    EpilogueBit(EpilogueKind::kLeakyRelu) | EpilogueBit(EpilogueKind::kPrelu) |
    EpilogueBit(EpilogueKind::kHardSigmoid) | EpilogueBit(EpilogueKind::kHardSwish);

#if QUERN_ISA_HERE
QUERN_SVE_INLINE const float* RowAt(const void* base, size_t row, size_t stride, size_t column) QUERN_SVE_MODE {
  return reinterpret_cast<const float*>(static_cast<const char*>(base) + row * stride) + column;
}

QUERN_SVE_INLINE svfloat32_t UpToOne(svbool_t pg, svfloat32_t x) QUERN_SVE_MODE {
  return svmin_x(pg, svmax_x(pg, x, 0.0f), 1.0f);
}

// The ops on columns `pg` of row `m`, from column `n` of the output on.
QUERN_SVE_INLINE svfloat32_t Apply(const GemmArgs& a, svbool_t pg, size_t m, size_t n, svfloat32_t x) QUERN_SVE_MODE {
  for (const EpilogueOp* op = a.ops; op != a.ops + a.op_count; ++op) {
    const auto* data = static_cast<const float*>(op->data);
    switch (op->kind) {
      case EpilogueKind::kAddVectorN:
        x = svadd_x(pg, x, svld1(pg, data + n));
        break;
      case EpilogueKind::kMulVectorN:
        x = svmul_x(pg, x, svld1(pg, data + n));
        break;
      case EpilogueKind::kAddVectorM:
        x = svadd_x(pg, x, data[m]);
        break;
      case EpilogueKind::kMulVectorM:
        x = svmul_x(pg, x, data[m]);
        break;
      case EpilogueKind::kDivVectorM:
        x = svdiv_x(pg, x, data[m]);
        break;
      case EpilogueKind::kAddOuter:
        x = svadd_x(pg, x, svmul_x(pg, svld1(pg, static_cast<const float*>(op->data2) + n), data[m]));
        break;
      case EpilogueKind::kAddMatrix:
        x = svadd_x(pg, x, svld1(pg, RowAt(op->data, m, op->row_stride, n)));
        break;
      case EpilogueKind::kMulMatrix:
        x = svmul_x(pg, x, svld1(pg, RowAt(op->data, m, op->row_stride, n)));
        break;
      case EpilogueKind::kAddScalar:
        x = svadd_x(pg, x, op->a);
        break;
      case EpilogueKind::kMulScalar:
        x = svmul_x(pg, x, op->a);
        break;
      case EpilogueKind::kClamp:  // by comparison: NaN and the sign of zero stay
        x = svsel(svcmplt(pg, x, op->a), svdup_f32(op->a), x);
        x = svsel(svcmpgt(pg, x, op->b), svdup_f32(op->b), x);
        break;
      case EpilogueKind::kLeakyRelu:
        x = svmul_m(svcmplt(pg, x, 0.0f), x, op->a);
        break;
      case EpilogueKind::kPrelu:
        x = svmul_m(svcmplt(pg, x, 0.0f), x, svld1(pg, data + n));
        break;
      case EpilogueKind::kHardSigmoid:
        x = UpToOne(pg, svadd_x(pg, svmul_x(pg, x, op->a), op->b));
        break;
      case EpilogueKind::kHardSwish:
        x = svmul_x(pg, x, UpToOne(pg, svadd_x(pg, svmul_x(pg, x, 1.0f / 6.0f), 0.5f)));
        break;
      default:
        break;
    }
  }
  return x;
}

// Columns `pg` from `n` on of the call's row `m`: its accumulators, what is stored where results go, and results
// through the ops.
QUERN_SVE_INLINE svfloat32_t FetchRow(const GemmArgs& a, svbool_t pg, size_t m, size_t n) QUERN_SVE_MODE {
  return svld1(pg, RowAt(a.acc, m, a.acc_row_stride, n));
}
QUERN_SVE_INLINE void StoreRow(const GemmArgs& a, svbool_t pg, size_t m, size_t n, svfloat32_t x) QUERN_SVE_MODE {
  svst1(pg, const_cast<float*>(a.last_k ? RowAt(a.dst, m, a.dst_row_stride, n) : RowAt(a.acc, m, a.acc_row_stride, n)),
        x);
}
QUERN_SVE_INLINE void FinishRow(const GemmArgs& a, svbool_t pg, size_t m, size_t n, svfloat32_t x) QUERN_SVE_MODE {
  StoreRow(a, pg, m, n, a.last_k ? Apply(a, pg, a.m0 + m, a.n0 + n, x) : x);
}
QUERN_SVE_INLINE svbool_t ColumnsFrom(const GemmArgs& a, size_t n) QUERN_SVE_MODE {
  return svwhilelt_b32(static_cast<uint64_t>(n), static_cast<uint64_t>(a.n));
}

// Out of line: it is rare, and tiles are unrolled.
[[maybe_unused]] __attribute__((noinline)) void FinishVector(const GemmArgs& a, size_t m, size_t n,
                                                             svfloat32_t x) QUERN_SVE_MODE {
  FinishRow(a, ColumnsFrom(a, n), m, n, x);
}
#endif

}  // namespace
}  // namespace quern::ukernel
