// The int8 dot-product peak of SVE.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_sve.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct DotProduct {
  static svuint16_t Dot(svuint16_t acc, svuint16_t a, svuint16_t b) {
    return svreinterpret_u16(svdot(svreinterpret_s32(acc), svreinterpret_s8(a), svreinterpret_s8(b)));
  }
};
static constexpr PeakKernel kRows[] = {
    PeakSveRow("dot", Format::kI8, 4, RunPeakSve<DotProduct, 0xffff>),
};
#else
static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "dot", .unit = "GOP/s", .multiplies = Format::kI8},
};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
