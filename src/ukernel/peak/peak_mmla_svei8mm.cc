// The int8 matrix-product peak of SVE.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_sve.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Mmla {
  static svuint16_t Dot(svuint16_t acc, svuint16_t a, svuint16_t b) {
    return svreinterpret_u16(svmmla(svreinterpret_s32(acc), svreinterpret_s8(a), svreinterpret_s8(b)));
  }
};
static constexpr PeakKernel kRows[] = {
    PeakSveRow("mmla", Format::kI8, 8, RunPeakSve<Mmla, 0xffff>),
};
#else
static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "mmla", .unit = "GOP/s", .multiplies = Format::kI8},
};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
