// The int8 dot-product peak of AVX-VNNI.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_dot.h"
#include "ukernel/vnni_vex.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction {
  using Vector = __m256i;
  static constexpr int kProducts = 32;
  static Vector Dot(Vector acc, Vector a, Vector b) { return vnni::DotUS(acc, a, b); }
};
static constexpr PeakKernel kRows[] = {PeakDotRow<Instruction, 12>("vnni")};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "vnni", .unit = "GOP/s"}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
