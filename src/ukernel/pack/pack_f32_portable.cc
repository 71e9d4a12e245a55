// float32 units from row-major float32, either way round, in portable C++.
#include "ukernel/pack/pack_units.h"
#include "ukernel/transpose_f32.h"

namespace quern::ukernel {
namespace {

static constexpr PackKernel kRows[] = {
    {.isa = kIsa,
     .layout = kF32x16,
     .source = Format::kF32,
     .contiguous_n = true,
     .cycles_per_element = 0.4f,
     .run = PackFromKN<16>},
    {.isa = kIsa,
     .layout = kF32x16,
     .source = Format::kF32,
     .contiguous_k = true,
     .cycles_per_element = 0.9f,
     .run = PackFromNK<16, Transpose4>},
    {.isa = kIsa,
     .layout = kF32x8,
     .source = Format::kF32,
     .contiguous_n = true,
     .cycles_per_element = 0.5f,
     .run = PackFromKN<8>},
    {.isa = kIsa,
     .layout = kF32x8,
     .source = Format::kF32,
     .contiguous_k = true,
     .cycles_per_element = 0.9f,
     .run = PackFromNK<8, Transpose4>},
};

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
