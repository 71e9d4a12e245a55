// float32 rows by 2-bit blocks as three products of bf16 on AMX: weights alone are quantized.
#include "ukernel/gemm/dot_blocks_amxbf16.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {AmxBf16BlocksRow<Format::kU2>()};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
