// Dynamically quantized int8 rows from float32, compiled for AVX2.
#include "ukernel/quantize/i8d_rows.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kRun = PackI8dRows;
#else
static constexpr decltype(LhsPackKernel::run) kRun = nullptr;
#endif

static constexpr LhsPackKernel kRows[] = {
    {.isa = kIsa,
     .layout = kI8dRows,
     .source = Format::kF32,
     .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
     .cycles_per_element = 1.0f,
     .run = kRun},
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
