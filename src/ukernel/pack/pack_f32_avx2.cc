// float32 units from row-major float32 with AVX: whole cache lines, 8 x 8 transposes.
#include "ukernel/pack/pack_units.h"

#if QUERN_ISA_HERE
#include "ukernel/transpose_f32_avx.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kFromKN = PackFromKN<16>;
static constexpr auto kFromNK = PackFromNK<16, Transpose8>;
#else
static constexpr decltype(PackKernel::run) kFromKN = nullptr, kFromNK = nullptr;
#endif

static constexpr PackKernel kRows[] = {
    {.isa = kIsa,
     .layout = kF32x16,
     .source = Format::kF32,
     .contiguous_n = true,
     .cycles_per_element = 0.25f,
     .run = kFromKN},
    {.isa = kIsa,
     .layout = kF32x16,
     .source = Format::kF32,
     .contiguous_k = true,
     .cycles_per_element = 0.5f,
     .run = kFromNK},
};

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
