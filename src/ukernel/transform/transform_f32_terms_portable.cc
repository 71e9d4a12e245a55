// float32 units to two and to three bf16 terms in AMX's order, element by element.
#include "ukernel/split_flags.h"
#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

constexpr size_t kUnit = 16;
constexpr size_t kChunk = 32;                      // k of a tile
constexpr size_t kTermBytes = kChunk * kUnit * 2;  // [16 pairs of k][16][2]

template <size_t kTerms>
uint32_t Run(const TransformArgs& a) {
  uint32_t flags = kPackFine;
  for (size_t u = 0; u < a.units; ++u) {
    const char* from = static_cast<const char*>(a.src) + u * a.src_unit_stride;
    char* unit = static_cast<char*>(a.dst) + u * a.dst_unit_stride;
    const size_t padded = RoundUp(a.k, kChunk);
    for (size_t k = 0; k < padded; ++k) {
      char* to = unit + k / kChunk * kTerms * kTermBytes + (k % kChunk / 2 * kUnit * 2 + k % 2) * 2;
      for (size_t c = 0; c < kUnit; ++c) {
        const float x = k < a.k ? LoadAs<float>(from + (k * kUnit + c) * sizeof(float)) : 0.0f;
        uint16_t term[kTerms];
        SplitBf16(x, kTerms, term);
        for (size_t t = 0; t < kTerms; ++t) StoreAs(to + t * kTermBytes + c * 4, term[t]);
      }
    }
    for (size_t c = 0; c < kUnit; ++c) {
      flags |= SplitFlags(kTerms, a.k, [&](size_t k) { return LoadAs<float>(from + (k * kUnit + c) * sizeof(float)); });
    }
  }
  return flags;
}

static constexpr TransformKernel kRows[] = {
    {.isa = kIsa, .from = kF32x16, .to = kBf16Terms2x16, .cycles_per_element = 4, .run = Run<2>},
    {.isa = kIsa, .from = kF32x16, .to = kBf16Terms3x16, .cycles_per_element = 6, .run = Run<3>},
};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
