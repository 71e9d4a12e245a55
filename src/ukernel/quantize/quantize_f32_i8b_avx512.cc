// int8 rows in blocks of 32 from float32, on AVX-512.
#include "ukernel/quantize/i8b_rows.h"

#if QUERN_ISA_HERE
#include "ukernel/quantize/i8d_loops_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kPack = PackI8bRows<Avx512Loops>;
#else
static constexpr decltype(LhsPackKernel::run) kPack = nullptr;
#endif

static constexpr LhsPackKernel kRows[] = {I8bRow(1.0f, kPack)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
