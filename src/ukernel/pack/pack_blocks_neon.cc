// Blocks along K, of MatMulNBits and GGUF, into NEON's units of 8 columns.
#include "ukernel/layouts_arm.h"
#include "ukernel/pack/pack_blocks.h"

namespace quern::ukernel {
namespace {

template <class S, size_t kGroup>
constexpr PackKernel Row() {
  return BlocksPacker<S, 8, kGroup>(ArmBlocks(S::kElement, kGroup, Format::kF32), 1.0f);
}

static constexpr PackKernel kRows[] = {
    Row<Nibbles, 4>(),
    Row<Nibbles, 8>(),
    Row<Pairs, 4>(),
    Row<Pairs, 8>(),
    Row<BytesU8, 4>(),
    Row<BytesU8, 8>(),
    Row<HalvesQ4, 4>(),
    Row<HalvesQ4, 8>(),
    Row<BytesQ8, 4>(),
    Row<BytesQ8, 8>(),
    Row<HalvesQ4WithMinimum, 4>(),
    Row<HalvesQ4WithMinimum, 8>(),
};

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
