// Integers of few bits in NEON's units to float32 and int8.
#include "ukernel/layouts_arm.h"
#include "ukernel/transform/expand_blocks.h"

namespace quern::ukernel {
namespace {

template <Format kElement>
constexpr TransformKernel Expand() {
  return {.isa = kIsa,
          .from = ArmBlocks(kElement, 4, Format::kF32),
          .to = kF32x8,
          .cycles_per_element = 0.8f,
          .run = QUERN_ISA_HERE ? ExpandBlocks<kElement> : nullptr};
}

// Lines of 8 columns and groups of 8 k are as long as those of 16 columns and half of the k.
[[maybe_unused]] uint32_t ExpandEights(const TransformArgs& a) {
  TransformArgs half = a;
  half.k = a.k / 2;
  half.n_unit = kUnit;
  return ExpandFours<kUnit>(half);
}

static constexpr TransformKernel kRows[] = {
    Expand<Format::kU4>(),
    Expand<Format::kU2>(),
    Expand<Format::kU8>(),
    Expand<Format::kI8>(),
    {kIsa, U4Channels(VectorScale::kFixed, 8, 4), kI8x8Dot4, 0.1f, QUERN_ISA_HERE ? ExpandFours<8> : nullptr},
    {kIsa, U4Channels(VectorScale::kFixed, 8, 8), kI8x8Dot8, 0.1f, QUERN_ISA_HERE ? ExpandEights : nullptr},
};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
