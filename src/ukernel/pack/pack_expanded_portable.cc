// Blocks along K, of MatMulNBits and GGUF, expanded into units of float32, bf16 and int8, in portable C++.
#include "ukernel/layouts_arm.h"
#include "ukernel/pack/pack_expanded.h"

namespace quern::ukernel {
namespace {

template <Format kSource, Format kDest, size_t kGroup>
constexpr PackKernel Row(const PackLayout& layout) {
  return {.isa = kIsa,
          .layout = layout,
          .source = kSource,
          .blocks = true,
          .cycles_per_element = kDest == Format::kF32 ? 2.0f : 3.0f,
          .run = PackExpanded<kSource, kDest, kGroup>};
}

struct Floats {
  PackKernel rows[6];
};
template <Format kDest, size_t kGroup = 1>
constexpr Floats FloatRows(const PackLayout& l) {
  return {{Row<Format::kU8, kDest, kGroup>(l), Row<Format::kU4, kDest, kGroup>(l), Row<Format::kU2, kDest, kGroup>(l),
           Row<Format::kQ4_0, kDest, kGroup>(l), Row<Format::kQ4_1, kDest, kGroup>(l),
           Row<Format::kQ8_0, kDest, kGroup>(l)}};
}
struct Integers {
  PackKernel rows[3];
};
template <size_t kGroup>
constexpr Integers IntegerRows(const PackLayout& l) {
  return {{Row<Format::kU4, Format::kI8, kGroup>(l), Row<Format::kU2, Format::kI8, kGroup>(l),
           Row<Format::kQ4_0, Format::kI8, kGroup>(l)}};
}
constexpr PackLayout Blocks8(VectorScale scale, uint16_t group) {
  return ScaledBlocks(scale, Format::kI8, group, Format::kF32);
}

struct All {
  Floats floats[8];
  Integers integers[6];
};
static constexpr All kAll = {
    {FloatRows<Format::kF32>(kF32x16), FloatRows<Format::kF32>(kF32x8), FloatRows<Format::kF32>(kF32Sve),
     FloatRows<Format::kF32>(kF32Sme), FloatRows<Format::kBf16, 2>(kBf16Pairs16), FloatRows<Format::kBf16, 2>(kBf16Sme),
     FloatRows<Format::kBf16, 4>(kBf16x8Quads), FloatRows<Format::kBf16, 4>(kBf16SveQuads)},
    {IntegerRows<4>(Blocks8x16(Format::kF32)), IntegerRows<4>(ArmBlocks(Format::kI8, 4, Format::kF32)),
     IntegerRows<8>(ArmBlocks(Format::kI8, 8, Format::kF32)), IntegerRows<4>(Blocks8(VectorScale::kSve, 4)),
     IntegerRows<8>(Blocks8(VectorScale::kSve, 8)), IntegerRows<4>(Blocks8(VectorScale::kSme, 4))}};
static_assert(sizeof(kAll) == 66 * sizeof(PackKernel));

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kAll.floats[0].rows, sizeof(kAll) / sizeof(PackKernel),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
