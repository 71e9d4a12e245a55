// float32 convolution over groups of few channels on NEON.
#include "ukernel/dwconv/tile_grouped.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Lanes {
  using Index = uint8x16_t;  // bytes of the lanes
  static Index LoadIndex(const int32_t* p) {
    // The first byte of lane i is 4 * i; times 0x01010101 puts it in all four.
    const int32x4_t first = vmulq_n_s32(vld1q_s32(p), 0x04040404);
    return vreinterpretq_u8_u32(vaddq_u32(vreinterpretq_u32_s32(first), vdupq_n_u32(0x03020100)));
  }
  static Index Next(Index i) { return vaddq_u8(i, vdupq_n_u8(4)); }
  static float32x4_t Spread(float32x4_t x, Index i) {
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(x), i));
  }
};

static constexpr DwConvRun kRun = RunGrouped<Vector, Lanes, 7>;
#else
static constexpr DwConvRun kRun = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {GroupedRow(kIsa, 8, 4, 7, Engine::kVector, 1.4f, 6, kRun)};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
