// Unsigned int8 by int8 weights by Arm's dot products, int32 accumulators.
#include "ukernel/gemm/rows_i8_neondot.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeNeonDotRows<true>(Format::kU8);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
