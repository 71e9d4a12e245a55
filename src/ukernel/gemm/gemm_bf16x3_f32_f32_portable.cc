// float32 products as six products of bf16 terms in portable C++: the counterpart of the AMX row.
#include "ukernel/gemm/tile_terms_portable.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    TermsRow(Format::kBf16x3, kBf16Terms3Panels, kBf16Terms3x16, Precision::kFp32, 1200, RunTerms<3>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
