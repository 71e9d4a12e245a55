// Dynamically quantized int8 rows from float32, compiled for AVX2.
#include "ukernel/quantize/i8d_rows.h"

namespace quern::ukernel {
namespace {

static constexpr I8dKernels kKernels = MakeI8dRows(1.0f);

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{
    kKernels.rows, sizeof(kKernels.rows) / sizeof(kKernels.rows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
