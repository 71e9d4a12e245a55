// Integers of few bits to float32 and int8, compiled for AVX-512.
#include "ukernel/transform/expand_blocks.h"

namespace quern::ukernel {
namespace {

static constexpr ExpandRows kRows = MakeExpandRows<kUnit>(0.15f, 0.035f);

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
