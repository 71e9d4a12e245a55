// Pairs of bf16 and of f16 from row-major float32, bf16 and f16 with AVX2.
#include "ukernel/pack/pack_half.h"

#if QUERN_ISA_HERE
#include "ukernel/transpose_f32_avx.h"

#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// In the high 16 bits of each lane, ties to even, NaN quiet.
inline __m256i NearestBf16(__m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i up = _mm256_andnot_si256(is_nan, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  return _mm256_or_si256(_mm256_add_epi32(u, up), _mm256_and_si256(is_nan, _mm256_set1_epi32(0x400000)));
}

// The same of what were float16: their 11 bits and 16 more fit float32, which rounds their sum to 8 bits below.
inline __m256i NearestBf16OfHalves(__m256 x) {
  const __m256 both = _mm256_set1_ps(0x1p16f + 1);
  const __m256 rest = _mm256_fmsub_ps(x, both, _mm256_mul_ps(x, both));  // of x, less the nearest; NaN of infinities
  return _mm256_castps_si256(_mm256_sub_ps(x, _mm256_max_ps(rest, _mm256_set1_ps(-0x1p16f))));
}

template <Format kFrom, Format kTo>
struct Convert {
  static constexpr Format kSource = kFrom, kDest = kTo;
  static constexpr size_t kLanes = 8;

  static __m128i LoadHalves(const char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static __m256 LoadWide(const char* p) {
    if constexpr (kFrom == Format::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    if constexpr (kFrom == Format::kF16) return _mm256_cvtph_ps(LoadHalves(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadHalves(p)), 16));
  }
  // bf16 in the high 16 bits of each lane.
  static __m256i Nearest(const char* p) {
    if constexpr (kFrom == Format::kF16) return NearestBf16OfHalves(LoadWide(p));
    return NearestBf16(LoadWide(p));
  }
  static __m128i Load(const char* p) {
    if constexpr (kFrom == kTo) return LoadHalves(p);
    return _mm256_cvtps_ph(LoadWide(p), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static constexpr bool kNarrows = kFrom != kTo && kTo == Format::kBf16;
  static __m256i LoadRow(const char* p) {  // of 16; if kNarrows, crossed
    const char* rest = p + 8 * FormatBytes(kFrom);
    if constexpr (!kNarrows) return _mm256_setr_m128i(Load(p), Load(rest));
    return _mm256_packus_epi32(_mm256_srli_epi32(Nearest(p), 16), _mm256_srli_epi32(Nearest(rest), 16));
  }
  template <class Writer>
  static void Pairs(Writer writer, const char* a, const char* b, char* to) {
    if constexpr (kNarrows) {
      const __m256i even = _mm256_srli_epi32(Nearest(a), 16);
      const __m256i odd = b ? Nearest(b) : _mm256_setzero_si256();
      writer.Put(to, _mm256_blend_epi16(even, odd, 0xaa));
    } else {
      const __m128i even = Load(a), odd = b ? Load(b) : _mm_setzero_si128();
      writer.Put(to, _mm_unpacklo_epi16(even, odd));
      writer.Put(to + 16, _mm_unpackhi_epi16(even, odd));
    }
  }
  template <class Put>
  static void Square(const char* in, ptrdiff_t stride, const Put& put) {
    if constexpr (kFrom == kTo) {
      Transpose8::Run(in, stride, put);
    } else {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) rows[i] = _mm256_castsi256_ps(LoadRow(in + i * stride));
      Transpose8::Run<kNarrows>(rows, put);
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
