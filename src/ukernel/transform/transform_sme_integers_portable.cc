// Integers of few bits in units of SME to float32 and int8, in C++ that compilers vectorize.
#include "ukernel/transform/expand_blocks.h"

namespace quern::ukernel {
namespace {

static constexpr ExpandRows kRows = MakeExpandRows<kPartOfUnit>(0.6f, 0.06f);

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
