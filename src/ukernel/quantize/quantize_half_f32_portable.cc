// bf16 and f16 rows to float32 rows.
#include "ukernel/quantize/convert_rows.h"
#include "ukernel/widen_portable.h"

namespace quern::ukernel {
namespace {

template <Format F>
struct Widen {
  static constexpr size_t kLanes = 4;
  static void Run(const char* from, float* to) {
    typedef uint16_t Half4 __attribute__((vector_size(8)));
    Half4 x;
    __builtin_memcpy(&x, from, sizeof(x));
    const WideHalf wide = WidenHalf<F>(__builtin_convertvector(x, HalfBits));
    __builtin_memcpy(to, &wide, sizeof(wide));
  }
  static void One(const char* from, float* to) {
    uint16_t x;
    __builtin_memcpy(&x, from, sizeof(x));
    *to = WidenHalf<F>(HalfBits{x, 0, 0, 0})[0];
  }
};

constexpr LhsPackKernel Row(Format source, float cycles, decltype(LhsPackKernel::run) run) {
  return {.isa = kIsa,
          .layout = kF32Rows,
          .source = source,
          .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .cycles_per_element = cycles,
          .run = run};
}

static constexpr LhsPackKernel kRows[] = {
    Row(Format::kBf16, 0.6f, ConvertRows<Widen<Format::kBf16>, uint16_t, float>),
    Row(Format::kF16, 3.0f, ConvertRows<Widen<Format::kF16>, uint16_t, float>),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
