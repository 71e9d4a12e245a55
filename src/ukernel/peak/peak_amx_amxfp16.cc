// The float16 product peak of AMX.
#include "ukernel/peak/peak_amx.h"

namespace quern::ukernel {
namespace {

struct Dot {
#if QUERN_ISA_HERE
  template <int C, int A, int B>
  static void Run() {
    amx::DotF16<C, A, B>();
  }
#endif
};

static constexpr PeakKernel kRows[] = {PeakAmxRow<Dot>(Format::kF16)};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
