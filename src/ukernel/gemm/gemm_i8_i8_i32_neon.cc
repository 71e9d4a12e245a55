// Signed int8 by int8 weights on NEON without dot products, int32 accumulators.
#include "ukernel/gemm/rows_i8_neon.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeNeonRows<false>(Format::kI8);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
