// Depthwise convolution of bytes on portable C++, summed in int32.
#include "ukernel/dwconv/dw_integers.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_i32_portable.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Bytes {
  template <bool kSigned>
  static IntVector::Int WidenPart(const char* p, size_t lanes, IntVector::Mask) {
    IntVector::Int x{};
    for (size_t i = 0; i < lanes; ++i) {
      const auto byte = static_cast<unsigned char>(p[i]);
      x[i] = static_cast<uint32_t>(kSigned ? static_cast<int32_t>(static_cast<int8_t>(byte)) : int32_t{byte});
    }
    return x;
  }
  template <bool kSigned>
  static IntVector::Int Widen(const char* p) {
    return WidenPart<kSigned>(p, 4, 4);
  }
  static IntVector::Int Weights(const char* p) {
    const auto x = (IntVector::Signed)IntVector::LoadInt(reinterpret_cast<const int32_t*>(p));
    return (IntVector::Int)((x << 16) >> 16);
  }
  static IntVector::Int MulAdd(IntVector::Int x, IntVector::Int w, IntVector::Int sum) { return sum + x * w; }
};

static constexpr DwConvRun kSigned = RunDw<DwIntegers<IntVector, Bytes, true>, 2>;
static constexpr DwConvRun kUnsigned = RunDw<DwIntegers<IntVector, Bytes, false>, 2>;
#else
static constexpr DwConvRun kSigned = nullptr, kUnsigned = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {
    DwIntegerRow(kIsa, Format::kI8, 2, Engine::kScalar, 8, 16, kSigned),
    DwIntegerRow(kIsa, Format::kU8, 2, Engine::kScalar, 8, 16, kUnsigned),
};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
