// Reading and copying memory with registers of AVX-512.
#include "ukernel/peak/peak_memory.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr PeakKernel kRows[] = {MemoryRow<64>(kIsa)};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "memory", .unit = "GB/s", .vector_bytes = 64}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
