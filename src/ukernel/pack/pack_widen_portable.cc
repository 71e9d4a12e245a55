// float32 units from row-major bf16 and f16, either way round, in portable C++.
#include "ukernel/pack/pack_widen.h"
#include "ukernel/transpose_f32.h"

namespace quern::ukernel {
namespace {

static constexpr WidenRows kRows = MakeWidenRows<Transpose4>(1.0f, 1.6f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
