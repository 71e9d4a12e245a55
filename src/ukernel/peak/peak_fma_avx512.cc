// The multiply-add peaks of float32 and float64 on AVX-512.
#include "ukernel/peak/peak_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx512.h"
#include "ukernel/gemm/vector_f64_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kRun = RunPeakFma<Vector, 16>;
static constexpr auto kRunDoubles = RunPeakFma<DoubleVector, 16>;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
static constexpr auto kRunDoubles = kRun;
#endif

static constexpr PeakKernel kRows[] = {FmaPeak("fma", Format::kF32, 16 * 16, kRun),
                                       FmaPeak("fma64", Format::kF64, 16 * 8, kRunDoubles)};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
