// Pairs of bf16 and of f16 to float32 units.
#include "ukernel/transform/widen_pairs.h"
#include "ukernel/widen_portable.h"

namespace quern::ukernel {
namespace {

template <Format F>
struct Widen {
  static void Run(const char* pairs, char* even, char* odd) {
    for (int i = 0; i < 64; i += 16) {
      HalfBits x;
      __builtin_memcpy(&x, pairs + i, sizeof(x));
      const WideHalf e = WidenHalf<F>(x & 0xffffu), o = WidenHalf<F>(x >> 16);
      __builtin_memcpy(even + i, &e, sizeof(e));
      __builtin_memcpy(odd + i, &o, sizeof(o));
    }
  }
};

static constexpr TransformKernel kRows[] = {
    {.isa = kIsa,
     .from = kBf16Pairs16,
     .to = kF32x16,
     .cycles_per_element = 0.4f,
     .run = WidenPairs<Widen<Format::kBf16>>},
    {.isa = kIsa,
     .from = kF16Pairs16,
     .to = kF32x16,
     .cycles_per_element = 2.0f,
     .run = WidenPairs<Widen<Format::kF16>>},
};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
