// 4-bit weights with a scale per channel into the units of NEON, SVE and SME.
#include "ukernel/layouts_arm.h"
#include "ukernel/pack/pack_u4_channels.h"

namespace quern::ukernel {
namespace {

template <size_t kGroup>
constexpr ChannelPackers Rows(VectorScale scale) {
  return MakeChannelPackers<8, kGroup>(U4Channels(scale, scale == VectorScale::kFixed ? 8 : 2, kGroup), 1.0f);
}

static constexpr ChannelPackers kPackers[] = {Rows<4>(VectorScale::kFixed), Rows<8>(VectorScale::kFixed),
                                              Rows<4>(VectorScale::kSve), Rows<8>(VectorScale::kSve),
                                              Rows<4>(VectorScale::kSme)};
static_assert(sizeof(kPackers) == 10 * sizeof(PackKernel));

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kPackers[0].rows, 2 * sizeof(kPackers) / sizeof(kPackers[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
