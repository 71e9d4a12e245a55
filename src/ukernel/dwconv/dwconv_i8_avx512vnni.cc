// Depthwise convolution of bytes on AVX512-VNNI, summed in int32.
#include "ukernel/dwconv/dw_integers.h"

#if QUERN_ISA_HERE
#include "ukernel/dwconv/dot_bytes_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE

static constexpr DwConvRun kSigned = RunDw<DwIntegers<IntVector, DwBytes512, true>, 8>;
static constexpr DwConvRun kUnsigned = RunDw<DwIntegers<IntVector, DwBytes512, false>, 8>;
#else
static constexpr DwConvRun kSigned = nullptr, kUnsigned = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {
    DwIntegerRow(kIsa, Format::kI8, 8, Engine::kVector512, 0.7f, 5, kSigned),
    DwIntegerRow(kIsa, Format::kU8, 8, Engine::kVector512, 0.7f, 5, kUnsigned),
};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
