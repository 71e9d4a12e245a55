// float32 products on SME2: outer products of two by two streaming vectors; a call covers a whole panel, so that
// streaming mode is entered once.
#include "ukernel/gemm.h"

#if QUERN_ISA_HERE
#include <arm_sme.h>

#include "ukernel/sme_call.h"
#endif

namespace quern::ukernel {
namespace {

constexpr uint32_t kFused = EpilogueBit(EpilogueKind::kAddVectorN) | EpilogueBit(EpilogueKind::kMulVectorN) |
                            EpilogueBit(EpilogueKind::kAddVectorM) | EpilogueBit(EpilogueKind::kMulVectorM) |
                            EpilogueBit(EpilogueKind::kAddMatrix) | EpilogueBit(EpilogueKind::kMulMatrix) |
                            EpilogueBit(EpilogueKind::kAddScalar) | EpilogueBit(EpilogueKind::kMulScalar) |
                            EpilogueBit(EpilogueKind::kClamp);

#if QUERN_ISA_HERE
#define QUERN_STREAMING __attribute__((always_inline)) static inline

QUERN_STREAMING const float* RowAt(const void* base, size_t row, size_t stride, size_t column) __arm_streaming {
  return reinterpret_cast<const float*>(static_cast<const char*>(base) + row * stride) + column;
}

// The ops on columns `pg` of row `m`, from column `n` of the output on.
QUERN_STREAMING svfloat32_t Apply(const GemmArgs& a, svbool_t pg, size_t m, size_t n, svfloat32_t x) __arm_streaming {
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
      default:
        break;
    }
  }
  return x;
}

// ZA tile T, rows and columns from (m, n) of the call on.
template <int T>
QUERN_STREAMING void Fetch(const GemmArgs& a, size_t m, size_t n) __arm_streaming __arm_inout("za") {
  const svbool_t pg = svwhilelt_b32(static_cast<uint64_t>(n), static_cast<uint64_t>(a.n));
  const uint64_t lanes = svcntw();
  for (uint64_t r = 0; r < lanes && m + r < a.m; ++r) {
    svld1_hor_za32(T, static_cast<uint32_t>(r), pg, RowAt(a.acc, m + r, a.acc_row_stride, n));
  }
}
template <int T>
QUERN_STREAMING void Finish(const GemmArgs& a, size_t m, size_t n) __arm_streaming __arm_inout("za") {
  const svbool_t pg = svwhilelt_b32(static_cast<uint64_t>(n), static_cast<uint64_t>(a.n));
  const uint64_t lanes = svcntw();
  void* out = a.last_k ? a.dst : a.acc;
  const size_t stride = a.last_k ? a.dst_row_stride : a.acc_row_stride;
  for (uint64_t r = 0; r < lanes && m + r < a.m; ++r) {
    svfloat32_t x = svread_hor_za32_m(svdup_f32(0), pg, T, static_cast<uint32_t>(r));
    if (a.last_k) x = Apply(a, pg, a.m0 + m + r, a.n0 + n, x);
    svst1(pg, const_cast<float*>(RowAt(out, m + r, stride, n)), x);
  }
}

void Body(void* argument) __arm_streaming __arm_inout("za") {
  const GemmArgs& a = *static_cast<const GemmArgs*>(argument);
  const uint64_t lanes = svcntw();
  const svbool_t all = svptrue_b32();
  const svcount_t both = svptrue_c32();
  for (size_t n = 0, unit = 0; n < a.n; n += 2 * lanes, ++unit) {
    for (size_t m = 0, panel = 0; m < a.m; m += 2 * lanes, ++panel) {
      svzero_za();
      if (!a.first_k) {
        Fetch<0>(a, m, n);
        Fetch<1>(a, m, n + lanes);
        Fetch<2>(a, m + lanes, n);
        Fetch<3>(a, m + lanes, n + lanes);
      }
      const float* lhs = RowAt(a.lhs, panel, static_cast<size_t>(a.lhs_row_stride), 0);
      const float* rhs = RowAt(a.rhs, unit, a.rhs_unit_stride, 0);
      for (size_t k = 0; k < a.k; ++k, lhs += 2 * lanes, rhs += 2 * lanes) {
        const svfloat32x2_t x = svld1_x2(both, lhs), w = svld1_x2(both, rhs);
        svmopa_za32_m(0, all, all, svget2(x, 0), svget2(w, 0));
        svmopa_za32_m(1, all, all, svget2(x, 0), svget2(w, 1));
        svmopa_za32_m(2, all, all, svget2(x, 1), svget2(w, 0));
        svmopa_za32_m(3, all, all, svget2(x, 1), svget2(w, 1));
      }
      Finish<0>(a, m, n);
      Finish<1>(a, m, n + lanes);
      Finish<2>(a, m + lanes, n);
      Finish<3>(a, m + lanes, n + lanes);
    }
  }
}

void Run(const GemmArgs& a) { quern_sme_call(Body, const_cast<GemmArgs*>(&a)); }

static constexpr GemmRun kRun = Run;
#else
static constexpr GemmRun kRun = nullptr;
#endif

// An outer product a cycle, four for two vectors of rows; entering streaming mode stalls the core.
static constexpr GemmKernel kRows[] = {
    {.isa = kIsa,
     .lhs = Format::kF32,
     .rhs = Format::kF32,
     .dst = Format::kF32,
     .precision = Precision::kFp32,
     .mr = 2,
     .nr = 2,
     .kr = 1,
     .mr_scale = VectorScale::kSme,
     .nr_scale = VectorScale::kSme,
     .whole_panel = true,
     .lhs_forms = kLhsPacked,
     .lhs_layout = kF32SmePanels,
     .consumed = kF32Sme,
     .layouts = {kF32Sme},
     .fused = kFused,
     .cost = {.engine = Engine::kMatrix, .step_row = 2, .row = 4, .tile = 60, .call = 800, .m_grain = 2},
     .run = kRun},
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
