// A few float32 rows by blocks of int8, as three bytes of each element, on AVX-VNNI.
#include "ukernel/gemm/rows_split_avxvnni.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {SplitRow<Format::kI8, 2>(kSplitCost)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
