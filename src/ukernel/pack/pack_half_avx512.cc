// Pairs of bf16 and of f16 from row-major float32, bf16 and f16 with AVX-512.
#include "ukernel/pack/pack_half.h"

#if QUERN_ISA_HERE
#include "ukernel/split_bf16_avx512.h"
#include "ukernel/transpose_f32_avx.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
template <Format kFrom, Format kTo>
struct Convert {
  static constexpr Format kSource = kFrom, kDest = kTo;
  static constexpr size_t kLanes = 16;

  static __m256i Load(const char* p) {
    const auto half = [p] { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); };
    if constexpr (kFrom == kTo) {
      return half();
    } else {
      __m512 x;
      if constexpr (kFrom == Format::kF32) x = _mm512_loadu_ps(p);
      if constexpr (kFrom == Format::kF16) x = _mm512_cvtph_ps(half());
      if constexpr (kFrom == Format::kBf16) {
        x = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half()), 16));
      }
      if constexpr (kTo == Format::kF16) return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      if constexpr (kTo == Format::kBf16) return _mm512_cvtepi32_epi16(NearestBf16(x));
    }
  }
  template <class Writer>
  static void Pairs(Writer writer, const char* a, const char* b, char* to) {
    __m512i pairs = _mm512_cvtepu16_epi32(Load(a));
    if (b) pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(_mm512_cvtepu16_epi32(Load(b)), 16));
    writer.Put(to, pairs);
  }
  static void Square(const char* in, ptrdiff_t stride, char* to) {
    if constexpr (kFrom == kTo) {
      Transpose8::Run(in, stride, to, 64);
    } else {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) rows[i] = _mm256_castsi256_ps(Load(in + i * stride));
      Transpose8::Run(rows, to, 64);
    }
  }
};

template <Format kFrom, Format kTo>
constexpr PackHalfPair Rows(float cycles_kn, float cycles_nk) {
  using Packer = PackHalf<Convert<kFrom, kTo>>;
  return PackHalfRows(kFrom, kTo, cycles_kn, cycles_nk, Packer::FromKN, Packer::FromNK);
}
#else
template <Format kFrom, Format kTo>
constexpr PackHalfPair Rows(float cycles_kn, float cycles_nk) {
  return PackHalfRows(kFrom, kTo, cycles_kn, cycles_nk, nullptr, nullptr);
}
#endif

static constexpr PackHalfPair kPairs[] = {
    Rows<Format::kBf16, Format::kBf16>(0.15f, 0.3f), Rows<Format::kF32, Format::kBf16>(0.2f, 0.4f),
    Rows<Format::kF16, Format::kBf16>(0.2f, 0.4f),   Rows<Format::kF16, Format::kF16>(0.15f, 0.3f),
    Rows<Format::kF32, Format::kF16>(0.2f, 0.4f),    Rows<Format::kBf16, Format::kF16>(0.2f, 0.4f),
};
static_assert(sizeof(kPairs) == sizeof(kPairs) / sizeof(kPairs[0]) * 2 * sizeof(PackKernel));

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kPairs[0].rows, 2 * sizeof(kPairs) / sizeof(kPairs[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
