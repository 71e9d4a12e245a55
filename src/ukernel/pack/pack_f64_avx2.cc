// float64 units from row-major float64 with AVX: whole cache lines, 4 x 4 transposes.
#include "ukernel/pack/pack_units.h"

#if QUERN_ISA_HERE
#include "ukernel/transpose_f64.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kFromKN = PackFromKN<8, double>;
static constexpr auto kFromNK = PackFromNK<8, TransposeF64, double>;
#else
static constexpr decltype(PackKernel::run) kFromKN = nullptr, kFromNK = nullptr;
#endif

static constexpr PackKernel kRows[] = {
    {.isa = kIsa,
     .layout = kF64x8,
     .source = Format::kF64,
     .contiguous_n = true,
     .cycles_per_element = 0.5f,
     .run = kFromKN},
    {.isa = kIsa,
     .layout = kF64x8,
     .source = Format::kF64,
     .contiguous_k = true,
     .cycles_per_element = 1.0f,
     .run = kFromNK},
};

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
