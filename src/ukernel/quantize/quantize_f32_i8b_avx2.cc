// int8 rows in blocks of 32 from float32, compiled for AVX2.
#include "ukernel/quantize/i8b_rows.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {I8bRow(2.9f, PackI8bRows<PlainLoops>)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
