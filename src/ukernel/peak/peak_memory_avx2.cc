// Reading and copying memory with registers of AVX2.
#include "ukernel/peak/peak_memory.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr PeakKernel kRows[] = {MemoryRow<32>(kIsa)};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "memory", .unit = "GB/s", .vector_bytes = 32}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
