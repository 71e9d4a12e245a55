// Rows to AMX's A tiles: float32 to panels of two and of three bf16 terms and of float16, 16-bit floats as they are.
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

// How `count` elements, up to kStep, go to their place in a tile's row; runs do not cross the end of a tile's row, nor
// the middle where kStep is 16.
template <size_t kTermCount>
struct Terms {
  static constexpr size_t kTerms = kTermCount, kStep = 16;
  SplitLines row;

  void Put(const char* from, size_t count, char* to) {
    const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
    const __m512 x = _mm512_maskz_loadu_ps(mask, from);
    const Bf16Terms<kTerms> t = Split<kTerms>(x);
    for (size_t i = 0; i < kTerms; ++i) {
      _mm256_mask_storeu_epi16(to + i * kTermBytes, mask, _mm512_cvtepi32_epi16(t.term[i]));
    }
    row.Add(x);
  }
  uint32_t Flags(const LhsShape& shape, const LhsSource& s, size_t r) const {
    return FlagsOfLine<kTerms>(row, shape.segments * shape.k, [&](__m512 largest) {
      size_t near = 0;
      for (size_t segment = 0; segment < shape.segments; ++segment) {
        const char* from = SourceRow(s, segment, r);
        for (size_t k = 0; k < shape.k; k += 16) {
          const __mmask16 mask = static_cast<__mmask16>(shape.k - k < 16 ? (1u << (shape.k - k)) - 1u : 0xffffu);
          const __m512 x = _mm512_maskz_loadu_ps(mask, from + k * 4);
          near += static_cast<size_t>(__builtin_popcount(Near(x, largest)));
        }
      }
      return near;
    });
  }
};
struct Narrowed {
  static constexpr size_t kTerms = 1, kStep = 16;
  static void Put(const char* from, size_t count, char* to) {
    const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
    const __m512 x = _mm512_maskz_loadu_ps(mask, from);
    const __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(to, mask, half);
  }
  static uint32_t Flags(const LhsShape&, const LhsSource&, size_t) { return kPackFine; }
};
struct Halves {
  static constexpr size_t kTerms = 1, kStep = 32;
  static void Put(const char* from, size_t count, char* to) {
    const __mmask32 mask = count < 32 ? (__mmask32{1} << count) - 1u : ~__mmask32{0};
    _mm512_mask_storeu_epi16(to, mask, _mm512_maskz_loadu_epi16(mask, from));
  }
  static uint32_t Flags(const LhsShape&, const LhsSource&, size_t) { return kPackFine; }
};

template <class T, size_t kElement>
uint32_t Run(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin, size_t panel_end,
             void* packed) {
  constexpr size_t kTileBytes = T::kTerms * kTermBytes;
  const LhsGeometry g = DescribeLhs(layout, shape);
  uint32_t flags = kPackFine;
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = static_cast<char*>(packed) + panel * g.panel_stride;
    const size_t first = panel * kRows;
    const size_t rows = shape.m - first < kRows ? shape.m - first : kRows;
    // Pads: anywhere in a panel with missing rows or with gaps between segments, else in its last tile.
    const size_t used = g.padded_k / kChunk * kTileBytes;
    const bool gaps = rows < kRows || (shape.segments > 1 && g.segment_k != shape.k);
    const size_t clear = gaps || used == 0 ? 0 : used - kTileBytes;
    for (size_t i = clear; i < g.panel_stride; i += 64) _mm512_store_si512(out + i, _mm512_setzero_si512());
    for (size_t r = 0; r < rows; ++r) {
      T line;
      for (size_t segment = 0; segment < shape.segments; ++segment) {
        const size_t begin = segment * g.segment_k;
        const char* from = SourceRow(s, segment, first + r);
        char* row = out + r * kRowBytes;
        for (size_t k = 0; k < shape.k;) {
          const size_t at = begin + k, room = T::kStep - at % T::kStep, left = shape.k - k;
          const size_t count = left < room ? left : room;
          line.Put(from + k * kElement, count, row + at / kChunk * kTileBytes + at % kChunk * 2);
          k += count;
        }
      }
      flags |= line.Flags(shape, s, first + r);
    }
  }
  return flags;
}
static constexpr auto kRun2 = Run<Terms<2>, 4>, kRun3 = Run<Terms<3>, 4>, kRun16 = Run<Halves, 2>,
                      kRunNarrowed = Run<Narrowed, 4>;
#else
static constexpr decltype(LhsPackKernel::run) kRun2 = nullptr, kRun3 = nullptr, kRun16 = nullptr,
                                              kRunNarrowed = nullptr;
#endif

constexpr LhsPackKernel Row(const LhsLayout& layout, Format source, float cycles, decltype(LhsPackKernel::run) run) {
  return {.isa = kIsa,
          .layout = layout,
          .source = source,
          .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .cycles_per_element = cycles,
          .run = run};
}

static constexpr LhsPackKernel kKernels[] = {
    Row(kBf16Terms2Panels, Format::kF32, 0.8f, kRun2),  Row(kBf16Terms3Panels, Format::kF32, 1.1f, kRun3),
    Row(kBf16Panels, Format::kBf16, 0.08f, kRun16),     Row(kF16Panels, Format::kF16, 0.08f, kRun16),
    Row(kF16Panels, Format::kF32, 0.15f, kRunNarrowed),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kKernels, sizeof(kKernels) / sizeof(kKernels[0]),
                                                            QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
