// 4-bit weights with a scale per channel, for the baseline of the target.
#include "ukernel/pack/pack_u4_channels.h"

namespace quern::ukernel {
namespace {

static constexpr ChannelPackers kPackers = MakeChannelPackers<16, 4>(kU4Channels16, 0.4f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{
    kPackers.rows, sizeof(kPackers.rows) / sizeof(kPackers.rows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
