// Blocks along K, of MatMulNBits and GGUF, into the units of NEON, 8 columns wide, and of SVE and SME, several times
// that.
#include "ukernel/layouts_arm.h"
#include "ukernel/pack/pack_blocks.h"

namespace quern::ukernel {
namespace {

struct Layouts {
  PackKernel rows[5];
};
template <class S>
constexpr Layouts Rows() {
  constexpr float kCycles = 1;
  constexpr auto scaled = [](VectorScale scale, uint16_t group) {
    return ScaledBlocks(scale, S::kElement, group, Format::kF32);
  };
  return {{BlocksPacker<S, 8, 4>(ArmBlocks(S::kElement, 4, Format::kF32), kCycles),
           BlocksPacker<S, 8, 8>(ArmBlocks(S::kElement, 8, Format::kF32), kCycles),
           BlocksPacker<S, 8, 4, true>(scaled(VectorScale::kSve, 4), kCycles),
           BlocksPacker<S, 8, 8, true>(scaled(VectorScale::kSve, 8), kCycles),
           BlocksPacker<S, 8, 4, true>(scaled(VectorScale::kSme, 4), kCycles)}};
}

static constexpr Layouts kSources[] = {Rows<Nibbles>(),  Rows<Pairs>(),   Rows<BytesU8>(),
                                       Rows<HalvesQ4>(), Rows<BytesQ8>(), Rows<HalvesQ4WithMinimum>()};
static_assert(sizeof(kSources) == 30 * sizeof(PackKernel));

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kSources[0].rows, 5 * sizeof(kSources) / sizeof(kSources[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
