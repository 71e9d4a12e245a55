// float32 units to two and to three bf16 terms in AMX's order: pairs of k are interleaved by a shift.
#include "ukernel/transform.h"

#if QUERN_ISA_HERE
#include "ukernel/split_bf16_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
constexpr size_t kLine = 64;   // 16 columns of float32, or of a pair of bf16
constexpr size_t kPairs = 16;  // of k in a tile
constexpr size_t kTermBytes = kPairs * kLine;

template <size_t kTerms>
uint32_t Run(const TransformArgs& a) {
  uint32_t flags = kPackFine;
  for (size_t u = 0; u < a.units; ++u) {
    const char* from = static_cast<const char*>(a.src) + u * a.src_unit_stride;
    char* to = static_cast<char*>(a.dst) + u * a.dst_unit_stride;
    SplitLines columns;
    for (size_t k = 0; k < a.k; k += 2 * kPairs, to += kTerms * kTermBytes) {
      for (size_t pair = 0; pair < kPairs; ++pair) {
        const size_t at = k + 2 * pair;
        const __m512 even = at < a.k ? _mm512_loadu_ps(from + at * kLine) : _mm512_setzero_ps();
        const __m512 odd = at + 1 < a.k ? _mm512_loadu_ps(from + (at + 1) * kLine) : _mm512_setzero_ps();
        const Bf16Terms<kTerms> e = Split<kTerms>(even), o = Split<kTerms>(odd);
        char* out = to + pair * kLine;
        for (size_t t = 0; t < kTerms; ++t) {
          _mm512_store_si512(out + t * kTermBytes, _mm512_or_si512(e.term[t], _mm512_slli_epi32(o.term[t], 16)));
        }
        columns.Add(even);
        columns.Add(odd);
      }
    }
    flags |= FlagsOfLanes<kTerms>(columns, a.k, [&](size_t k) { return _mm512_loadu_ps(from + k * kLine); });
  }
  return flags;
}
static constexpr auto kRun2 = Run<2>, kRun3 = Run<3>;
#else
static constexpr decltype(TransformKernel::run) kRun2 = nullptr, kRun3 = nullptr;
#endif

static constexpr TransformKernel kRows[] = {
    {.isa = kIsa, .from = kF32x16, .to = kBf16Terms2x16, .cycles_per_element = 0.6f, .run = kRun2},
    {.isa = kIsa, .from = kF32x16, .to = kBf16Terms3x16, .cycles_per_element = 0.9f, .run = kRun3},
};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
