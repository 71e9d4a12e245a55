// The int8 product peak of AVX2: VPMADDWD alone, on bytes that were widened before.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/peak/peak_dot.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction {
  using Vector = __m256i;
  static constexpr int kProducts = 16;
  // The sum of the products is the next left side: a chain, as an addition would be another instruction.
  static Vector Dot(Vector acc, Vector, Vector b) { return _mm256_madd_epi16(acc, b); }
};
static constexpr PeakKernel kRows[] = {PeakDotRow<Instruction, 12>("madd")};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "madd", .unit = "GOP/s"}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
