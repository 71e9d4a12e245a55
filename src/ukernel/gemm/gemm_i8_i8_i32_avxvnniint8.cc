// Signed int8 by int8 weights on AVX-VNNI-INT8, int32 accumulators.
#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_avxvnniint8.h"
#endif
#include "ukernel/gemm/rows_i8_vnni256.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {Vnni256Row<true>(Format::kI8, false)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
