// Depthwise convolution of float16 and bfloat16 on portable C++, summed in float32.
#include "ukernel/dwconv/tile_dw.h"

#if QUERN_ISA_HERE
#include "ukernel/convert.h"
#include "ukernel/gemm/vector_f32_portable.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
template <Format kFormat>
struct Loads {
  static constexpr size_t kBytes = 2;
  static Vector::Reg LoadPart(const char* p, size_t lanes, Vector::Mask) {
    Vector::Reg x{};
    for (size_t i = 0; i < lanes; ++i) x[i] = LoadFloat(kFormat, p + 2 * i);
    return x;
  }
  static Vector::Reg Load(const char* p) { return LoadPart(p, 4, 4); }
};
using LoadsF16 = Loads<Format::kF16>;
using LoadsBf16 = Loads<Format::kBf16>;

static constexpr DwConvRun kF16 = RunDw<DwFloats<Vector, LoadsF16>, 2>;
static constexpr DwConvRun kBf16 = RunDw<DwFloats<Vector, LoadsBf16>, 2>;
#else
static constexpr DwConvRun kF16 = nullptr, kBf16 = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {
    DwFloatRow(kIsa, Format::kF16, 16, 2, Engine::kScalar, 8, 16, kF16),
    DwFloatRow(kIsa, Format::kBf16, 16, 2, Engine::kScalar, 8, 16, kBf16),
};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
