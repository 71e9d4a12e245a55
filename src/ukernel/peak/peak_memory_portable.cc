// Reading and copying memory with registers of the baseline of the target.
#include "ukernel/peak/peak_memory.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr PeakKernel kRows[] = {MemoryRow<16>(kIsa)};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "memory", .unit = "GB/s", .vector_bytes = 16}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
