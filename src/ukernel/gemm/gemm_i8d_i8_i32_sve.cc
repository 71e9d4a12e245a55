// Dynamically quantized int8 rows by int8 weights by SVE's dot products, int32 accumulators.
#include "ukernel/gemm/rows_i8_sve.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSveRows<false>(Format::kI8d);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
