// 4-bit weights with a scale per channel, compiled for AVX2.
#include "ukernel/pack/pack_u4_channels.h"

namespace quern::ukernel {
namespace {

static constexpr ChannelPackers kPackers = MakeChannelPackers<16, 4>(kU4Channels16, 0.2f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{
    kPackers.rows, sizeof(kPackers.rows) / sizeof(kPackers.rows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
