// float64 units from row-major float64, either way round, in portable C++.
#include "ukernel/pack/pack_units.h"
#include "ukernel/transpose_f64.h"

namespace quern::ukernel {
namespace {

static constexpr PackKernel kRows[] = {
    {.isa = kIsa,
     .layout = kF64x8,
     .source = Format::kF64,
     .contiguous_n = true,
     .cycles_per_element = 0.8f,
     .run = PackFromKN<8, double>},
    {.isa = kIsa,
     .layout = kF64x8,
     .source = Format::kF64,
     .contiguous_k = true,
     .cycles_per_element = 1.6f,
     .run = PackFromNK<8, TransposeF64, double>},
};

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
