// The multiply-add peaks of float32 and float64 on AVX2.
#include "ukernel/peak/peak_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx2.h"
#include "ukernel/gemm/vector_f64_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kRun = RunPeakFma<Vector, 12>;
static constexpr auto kRunDoubles = RunPeakFma<DoubleVector, 12>;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
static constexpr auto kRunDoubles = kRun;
#endif

static constexpr PeakKernel kRows[] = {FmaPeak("fma", Format::kF32, 12 * 8, kRun),
                                       FmaPeak("fma64", Format::kF64, 12 * 4, kRunDoubles)};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
