// Pairs of bf16 and of f16 from row-major float32, bf16 and f16 with AVX-512.
#include "ukernel/pack/pack_half.h"

#if QUERN_ISA_HERE
#include "ukernel/split_bf16_avx512.h"
#include "ukernel/transpose_f32_avx.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// Of what were float16, in the high 16 bits of each lane: their 11 bits and 16 more fit float32, which rounds their sum
// to 8 bits below.
inline __m512i NearestBf16OfHalves(__m512 x) {
  const __m512 both = _mm512_set1_ps(0x1p16f + 1);
  const __m512 rest = _mm512_fmsub_ps(x, both, _mm512_mul_ps(x, both));  // of x, less the nearest; NaN of infinities
  return _mm512_castps_si512(_mm512_sub_ps(x, _mm512_max_ps(rest, _mm512_set1_ps(-0x1p16f))));
}

template <Format kFrom, Format kTo>
struct Convert {
  static constexpr Format kSource = kFrom, kDest = kTo;
  static constexpr size_t kLanes = 16;

  static constexpr bool kNarrows = kFrom != kTo && kTo == Format::kBf16;

  static __m256i LoadHalves(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  // bf16 in the low 16 bits of each lane, zeros above.
  static __m512i Nearest(const char* p) {
    if constexpr (kFrom == Format::kF32) return NearestBf16(_mm512_loadu_ps(p));
    return _mm512_srli_epi32(NearestBf16OfHalves(_mm512_cvtph_ps(LoadHalves(p))), 16);
  }
  static __m256i Load(const char* p) {
    if constexpr (kFrom == kTo) return LoadHalves(p);
    if constexpr (kNarrows) return _mm512_cvtepi32_epi16(Nearest(p));
    __m512 x;
    if constexpr (kFrom == Format::kF32) x = _mm512_loadu_ps(p);
    if constexpr (kFrom == Format::kBf16) {
      x = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(LoadHalves(p)), 16));
    }
    return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m512i LoadLow(const char* p) {  // the low 16 bits of each lane
    if constexpr (kNarrows) return Nearest(p);
    return _mm512_cvtepu16_epi32(Load(p));
  }
  template <class Writer>
  static void Pairs(Writer writer, const char* a, const char* b, char* to) {
    __m512i pairs = LoadLow(a);
    if (b) pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(LoadLow(b), 16));
    writer.Put(to, pairs);
  }
  template <class Put>
  static void Square(const char* in, ptrdiff_t stride, const Put& put) {
    if constexpr (kFrom == kTo) {
      Transpose8::Run(in, stride, put);
    } else {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) rows[i] = _mm256_castsi256_ps(Load(in + i * stride));
      Transpose8::Run<false>(rows, put);
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
