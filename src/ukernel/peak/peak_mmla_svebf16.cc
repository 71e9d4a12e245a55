// The bfloat16 peaks of SVE: matrix and dot products.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_sve.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Mmla {
  static svuint16_t Dot(svuint16_t acc, svuint16_t a, svuint16_t b) {
    return svreinterpret_u16(svbfmmla(svreinterpret_f32(acc), svreinterpret_bf16(a), svreinterpret_bf16(b)));
  }
};
struct DotProduct {
  static svuint16_t Dot(svuint16_t acc, svuint16_t a, svuint16_t b) {
    return svreinterpret_u16(svbfdot(svreinterpret_f32(acc), svreinterpret_bf16(a), svreinterpret_bf16(b)));
  }
};
static constexpr PeakKernel kRows[] = {
    PeakSveRow("mmla", Format::kBf16, 4, RunPeakSve<Mmla, kFloatMask>),
    PeakSveRow("dot", Format::kBf16, 2, RunPeakSve<DotProduct, kFloatMask>),
};
#else
static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "mmla", .unit = "GFLOP/s", .multiplies = Format::kBf16},
    {.isa = kIsa, .engine = "dot", .unit = "GFLOP/s", .multiplies = Format::kBf16},
};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
