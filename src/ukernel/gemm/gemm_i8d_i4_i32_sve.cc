// Dynamic int8 rows by 4-bit weights with a scale per channel, by SVE's dot products.
#include "ukernel/gemm/rows_i8_sve.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSveFours();

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
