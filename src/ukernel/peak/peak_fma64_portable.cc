// The float64 multiply-add peak of portable C++.
#include "ukernel/peak/peak_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f64_portable.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kRun = RunPeakFma<Vector, 12>;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
#endif

static constexpr PeakKernel kRows[] = {{.isa = kIsa,
                                        .engine = "fma64",
                                        .unit = "GFLOP/s",
                                        .multiplies = Format::kF64,
                                        .operations = 2.0 * 12 * 2,
                                        .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
