// Dynamically quantized int8 rows from float32 on AVX-512.
#include "ukernel/quantize/i8d_panels.h"

#if QUERN_ISA_HERE
#include "ukernel/quantize/i8d_loops_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kPackRows = PackI8d<Avx512Loops>, kPackPanels = PackI8dPanels<Avx512Loops>;
#else
static constexpr decltype(LhsPackKernel::run) kPackRows = nullptr, kPackPanels = nullptr;
#endif

static constexpr LhsPackKernel kRows[] = {I8dRow(kI8dRows, 0.3f, kPackRows), I8dRow(kI8dPanels16, 0.3f, kPackPanels)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
