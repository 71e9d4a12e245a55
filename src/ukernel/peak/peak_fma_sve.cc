// The multiply-add peaks of SVE, float32 and float16.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_sve.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Fma {
  static svuint16_t Dot(svuint16_t acc, svuint16_t a, svuint16_t b) {
    return svreinterpret_u16(
        svmla_x(svptrue_b32(), svreinterpret_f32(acc), svreinterpret_f32(a), svreinterpret_f32(b)));
  }
};
struct Fma16 {
  static svuint16_t Dot(svuint16_t acc, svuint16_t a, svuint16_t b) {
    return svreinterpret_u16(
        svmla_x(svptrue_b16(), svreinterpret_f16(acc), svreinterpret_f16(a), svreinterpret_f16(b)));
  }
};
constexpr PeakKernel HalfSums(PeakKernel row) {
  row.half_sums = true;
  return row;
}
static constexpr PeakKernel kRows[] = {
    PeakSveRow("fma", Format::kF32, 1, RunPeakSve<Fma, kFloatMask>),
    HalfSums(PeakSveRow("fma16", Format::kF16, 2, RunPeakSve<Fma16, kFloatMask>)),
};
#else
static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "fma", .unit = "GFLOP/s", .multiplies = Format::kF32},
    {.isa = kIsa, .engine = "fma16", .unit = "GFLOP/s", .multiplies = Format::kF16, .half_sums = true},
};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
