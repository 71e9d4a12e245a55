// Pairs of bf16 and of f16 from row-major float32, bf16 and f16 with AVX2.
#include "ukernel/pack/pack_half.h"

#if QUERN_ISA_HERE
#include "ukernel/transpose_f32_avx.h"

#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
inline __m256i NearestBf16(__m256 x) {  // in the low 16 bits of each lane, ties to even, NaN quiet
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i near = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(near, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

template <Format kFrom, Format kTo>
struct Convert {
  static constexpr Format kSource = kFrom, kDest = kTo;
  static constexpr size_t kLanes = 8;

  static __m128i Load(const char* p) {
    const auto half = [p] { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
    if constexpr (kFrom == kTo) {
      return half();
    } else {
      __m256 x;
      if constexpr (kFrom == Format::kF32) x = _mm256_loadu_ps(reinterpret_cast<const float*>(p));
      if constexpr (kFrom == Format::kF16) x = _mm256_cvtph_ps(half());
      if constexpr (kFrom == Format::kBf16) {
        x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half()), 16));
      }
      if constexpr (kTo == Format::kF16) return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m256i low = NearestBf16(x);
      return _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    }
  }
  template <class Writer>
  static void Pairs(Writer writer, const char* a, const char* b, char* to) {
    const __m128i even = Load(a), odd = b ? Load(b) : _mm_setzero_si128();
    writer.Put(to, _mm_unpacklo_epi16(even, odd));
    writer.Put(to + 16, _mm_unpackhi_epi16(even, odd));
  }
  static void Line(const char* from, char* to) {
    _mm_store_si128(reinterpret_cast<__m128i*>(to), Load(from));
    _mm_store_si128(reinterpret_cast<__m128i*>(to + 16), Load(from + 8 * FormatBytes(kFrom)));
  }
  static void Square(const char* in, ptrdiff_t stride, char* to) { Transpose8::Run(in, stride, to, 64); }
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
    Rows<Format::kBf16, Format::kBf16>(0.2f, 0.35f), Rows<Format::kF32, Format::kBf16>(0.3f, 0.5f),
    Rows<Format::kF16, Format::kBf16>(0.3f, 0.5f),   Rows<Format::kF16, Format::kF16>(0.2f, 0.35f),
    Rows<Format::kF32, Format::kF16>(0.3f, 0.5f),    Rows<Format::kBf16, Format::kF16>(0.3f, 0.5f),
};
static_assert(sizeof(kPairs) == sizeof(kPairs) / sizeof(kPairs[0]) * 2 * sizeof(PackKernel));

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kPairs[0].rows, 2 * sizeof(kPairs) / sizeof(kPairs[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
