// float32 units from row-major bf16 and f16, either way round, with AVX2.
#include "ukernel/pack/pack_widen.h"

#if QUERN_ISA_HERE
#include "ukernel/transpose_f32_avx.h"
#endif

namespace quern::ukernel {
namespace {

#if !QUERN_ISA_HERE
struct Transpose8;
#endif

static constexpr WidenRows kRows = MakeWidenRows<Transpose8>(0.3f, 0.6f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
