// int8 rows to panels of AMX's tiles, in portable C++.
#include "ukernel/quantize/bytes_panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {
    BytesPanelsRow(Format::kI8, kI8Panels16, 0.12f),
    BytesPanelsRow(Format::kU8, kU8Panels16, 0.12f),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
