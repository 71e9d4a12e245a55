// float32 products as three products of bf16 terms in portable C++: the counterpart of the AMX row.
#include "ukernel/gemm/tile_terms_portable.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    TermsRow(Format::kBf16x2, kBf16Terms2Panels, kBf16Terms2x16, Precision::kFp32Fast, 600, RunTerms<2>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
