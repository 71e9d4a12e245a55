// Dynamically quantized int8 rows by int8 weights on AVX512-VNNI, int32 accumulators.
#include "ukernel/gemm/rows_i8_vnni.h"

namespace quern::ukernel {
namespace {

static constexpr VnniRows kRows = MakeVnniRows<true>(Format::kI8d);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
