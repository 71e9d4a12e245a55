// The peaks of SME's outer products: of float32, bfloat16 and float16 into float32, of int8 into int32. Those of SME2
// are the same instructions.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_mopa.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct F32 {
  template <uint32_t T>
  QUERN_STREAMING void Outer(svuint16_t a, svuint16_t b) __arm_streaming __arm_inout("za") {
    svmopa_za32_m(T, svptrue_b8(), svptrue_b8(), svreinterpret_f32(a), svreinterpret_f32(b));
  }
};
struct Bf16 {
  template <uint32_t T>
  QUERN_STREAMING void Outer(svuint16_t a, svuint16_t b) __arm_streaming __arm_inout("za") {
    svmopa_za32_m(T, svptrue_b8(), svptrue_b8(), svreinterpret_bf16(a), svreinterpret_bf16(b));
  }
};
struct F16 {
  template <uint32_t T>
  QUERN_STREAMING void Outer(svuint16_t a, svuint16_t b) __arm_streaming __arm_inout("za") {
    svmopa_za32_m(T, svptrue_b8(), svptrue_b8(), svreinterpret_f16(a), svreinterpret_f16(b));
  }
};
struct I8 {
  template <uint32_t T>
  QUERN_STREAMING void Outer(svuint16_t a, svuint16_t b) __arm_streaming __arm_inout("za") {
    svmopa_za32_m(T, svptrue_b8(), svptrue_b8(), svreinterpret_s8(a), svreinterpret_s8(b));
  }
};
static constexpr PeakKernel kRows[] = {
    PeakMopaRow<F32>("mopa", Format::kF32, 1),
    PeakMopaRow<Bf16>("mopa_bf16", Format::kBf16, 2),
    PeakMopaRow<F16>("mopa_f16", Format::kF16, 2),
    PeakMopaRow<I8>("mopa_i8", Format::kI8, 4),
};
#else
static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "mopa", .unit = "GFLOP/s", .multiplies = Format::kF32},
    {.isa = kIsa, .engine = "mopa_bf16", .unit = "GFLOP/s", .multiplies = Format::kBf16},
    {.isa = kIsa, .engine = "mopa_f16", .unit = "GFLOP/s", .multiplies = Format::kF16},
    {.isa = kIsa, .engine = "mopa_i8", .unit = "GOP/s", .multiplies = Format::kI8},
};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
