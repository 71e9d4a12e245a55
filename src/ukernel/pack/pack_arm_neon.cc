// Units of NEON, SVE and SME from row-major matrices of the same elements, either way round.
#include "ukernel/layouts_arm.h"
#include "ukernel/pack/pack_groups.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
template <size_t kElementBytes, size_t kGroup, bool kColumns>
constexpr auto kRun = PackUnits<kElementBytes, kGroup, kColumns>;
#else
template <size_t kElementBytes, size_t kGroup, bool kColumns>
constexpr decltype(PackKernel::run) kRun = nullptr;
#endif

static constexpr PackKernel kRows[] = {
    UnitRow(kF32Sve, true, 0.5f, kRun<4, 1, true>),       UnitRow(kF32Sve, false, 0.9f, kRun<4, 1, false>),
    UnitRow(kF32Sme, true, 0.5f, kRun<4, 1, true>),       UnitRow(kF32Sme, false, 0.9f, kRun<4, 1, false>),
    UnitRow(kF16x8, true, 0.25f, kRun<2, 1, true>),       UnitRow(kF16x8, false, 0.5f, kRun<2, 1, false>),
    UnitRow(kF16Sve, true, 0.25f, kRun<2, 1, true>),      UnitRow(kF16Sve, false, 0.5f, kRun<2, 1, false>),
    UnitRow(kF16Sme, true, 0.35f, kRun<2, 2, true>),      UnitRow(kF16Sme, false, 0.5f, kRun<2, 2, false>),
    UnitRow(kF16SmeLines, true, 0.25f, kRun<2, 1, true>), UnitRow(kF16SmeLines, false, 0.5f, kRun<2, 1, false>),
    UnitRow(kBf16Sme, true, 0.35f, kRun<2, 2, true>),     UnitRow(kBf16Sme, false, 0.5f, kRun<2, 2, false>),
    UnitRow(kBf16x8Quads, true, 0.4f, kRun<2, 4, true>),  UnitRow(kBf16x8Quads, false, 0.25f, kRun<2, 4, false>),
    UnitRow(kBf16SveQuads, true, 0.4f, kRun<2, 4, true>), UnitRow(kBf16SveQuads, false, 0.25f, kRun<2, 4, false>),
};

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
