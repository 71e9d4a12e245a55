// float32 rows to panels of two bf16 terms: AMX's A tiles.
#include "ukernel/quantize/lhs_rows.h"

#if QUERN_ISA_HERE
#include "ukernel/split_bf16_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
constexpr size_t kRows = 16;   // of a panel
constexpr size_t kChunk = 32;  // k of a tile
constexpr size_t kRowBytes = kChunk * 2;
constexpr size_t kTermBytes = kRows * kRowBytes;

// Elements [at, at + count) of a panel's row; runs do not cross the middle or the end of a tile's row.
__mmask16 PackRun(const float* from, size_t count, size_t at, char* row) {
  const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
  const __m512 x = _mm512_maskz_loadu_ps(mask, from);
  const Bf16Terms2 t = Split2(x);
  char* out = row + at / kChunk * 2 * kTermBytes + at % kChunk * 2;
  _mm256_mask_storeu_epi16(out, mask, _mm512_cvtepi32_epi16(t.high));
  _mm256_mask_storeu_epi16(out + kTermBytes, mask, _mm512_cvtepi32_epi16(t.low));
  return SplitsUnsafely(x);
}

uint32_t Run(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin, size_t panel_end,
             void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  __mmask16 unsafe = 0;
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = static_cast<char*>(packed) + panel * g.panel_stride;
    const size_t first = panel * kRows;
    const size_t rows = shape.m - first < kRows ? shape.m - first : kRows;
    // Pads: anywhere in a panel with missing rows or with gaps between segments, else in its last tile.
    const size_t used = g.padded_k / kChunk * 2 * kTermBytes;
    const bool gaps = rows < kRows || (shape.segments > 1 && g.segment_k != shape.k);
    const size_t clear = gaps || used == 0 ? 0 : used - 2 * kTermBytes;
    for (size_t i = clear; i < g.panel_stride; i += 64) _mm512_store_si512(out + i, _mm512_setzero_si512());
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const size_t begin = segment * g.segment_k;
      for (size_t r = 0; r < rows; ++r) {
        const auto* from = reinterpret_cast<const float*>(SourceRow(s, segment, first + r));
        char* row = out + r * kRowBytes;
        for (size_t k = 0; k < shape.k;) {
          const size_t room = 16 - (begin + k) % 16, left = shape.k - k;
          const size_t count = left < room ? left : room;
          unsafe |= PackRun(from + k, count, begin + k, row);
          k += count;
        }
      }
    }
  }
  return unsafe ? kPackSplitUnsafe : kPackFine;
}
static constexpr auto kRun = Run;
#else
static constexpr decltype(LhsPackKernel::run) kRun = nullptr;
#endif

static constexpr LhsPackKernel kKernels[] = {
    {.isa = kIsa,
     .layout = kBf16Terms2Panels,
     .source = Format::kF32,
     .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
     .cycles_per_element = 0.8f,
     .run = kRun},
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kKernels, sizeof(kKernels) / sizeof(kKernels[0]),
                                                            QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
