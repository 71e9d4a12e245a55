// Units of floats of NEON, SVE and SME from row-major matrices of other float formats, either way round.
#include "ukernel/layouts_arm.h"
#include "ukernel/pack/pack_converted.h"

namespace quern::ukernel {
namespace {

template <Format kFrom, Format kTo, size_t kGroup, bool kColumns>
constexpr PackKernel Row(const PackLayout& layout) {
  constexpr float kCycles = kColumns ? kGroup == 1 ? 0.6f : 1.0f : 1.1f;
  PackKernel row = UnitRow(layout, kColumns, kCycles, nullptr);
  row.source = kFrom;
  if (QUERN_ISA_HERE) row.run = PackConverted<kFrom, kTo, kGroup, kColumns>;
  return row;
}

// From both other formats, either way round.
struct Converted {
  PackKernel rows[4];
};
template <Format kTo, size_t kGroup = 1>
constexpr Converted Rows(const PackLayout& layout) {
  constexpr Format kFirst = kTo == Format::kF32 ? Format::kF16 : Format::kF32;
  constexpr Format kSecond = kTo == Format::kBf16 ? Format::kF16 : Format::kBf16;
  return {{Row<kFirst, kTo, kGroup, true>(layout), Row<kFirst, kTo, kGroup, false>(layout),
           Row<kSecond, kTo, kGroup, true>(layout), Row<kSecond, kTo, kGroup, false>(layout)}};
}

static constexpr Converted kLayouts[] = {Rows<Format::kF32>(kF32x8),           Rows<Format::kF32>(kF32Sve),
                                         Rows<Format::kF32>(kF32Sme),          Rows<Format::kF16>(kF16x8),
                                         Rows<Format::kF16>(kF16Sve),          Rows<Format::kF16>(kF16SmeLines),
                                         Rows<Format::kF16, 2>(kF16Sme),       Rows<Format::kBf16, 2>(kBf16Sme),
                                         Rows<Format::kBf16, 4>(kBf16x8Quads), Rows<Format::kBf16, 4>(kBf16SveQuads)};
static_assert(sizeof(kLayouts) == 40 * sizeof(PackKernel));

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kLayouts[0].rows, 4 * sizeof(kLayouts) / sizeof(kLayouts[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
