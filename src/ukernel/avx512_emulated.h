// The intrinsics of AVX-512 (F, BW, VL, DQ, VNNI) that kernels use, as AVX2 code of the same results: included ahead of
// every file of these ISAs where QUERN_EMULATE_AVX512 is set, so that their rows, and all that chooses them, are
// tested on hosts without AVX-512. What is missing here fails to compile there. One vector is two halves; masked lanes
// of memory are never touched. Kernel-safe.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__)
#error "the compiler's flags have AVX-512 already"
#endif

// What the kernels ask to choose their code.
#define QUERN_AVX512_EMULATED 1
#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512VL__ 1
#define __AVX512DQ__ 1
#define __AVX512CD__ 1
#if defined(QUERN_EMULATE_AVX512VNNI)
#define __AVX512VNNI__ 1
#endif

namespace quern::ukernel::avx512 {
namespace {

#define QUERN_EMULATED [[maybe_unused]] static inline __attribute__((always_inline))
#define QUERN_OUTLINED [[maybe_unused]] static __attribute__((noinline))  // loops over lanes

template <class V>
struct HalfType;
template <>
struct HalfType<__m512> {
  using Type = __m256;
};
template <>
struct HalfType<__m512d> {
  using Type = __m256d;
};
template <>
struct HalfType<__m512i> {
  using Type = __m256i;
};

template <int kHalf, class V>
QUERN_EMULATED auto Half(V x) {
  typename HalfType<V>::Type half;
  __builtin_memcpy(&half, reinterpret_cast<const char*>(&x) + kHalf * sizeof(half), sizeof(half));
  return half;
}
template <class V, class H>
QUERN_EMULATED V Join(H low, H high) {
  V x;
  static_assert(sizeof(V) == 2 * sizeof(H));
  __builtin_memcpy(&x, &low, sizeof(low));
  __builtin_memcpy(reinterpret_cast<char*>(&x) + sizeof(low), &high, sizeof(high));
  return x;
}
// f of the low halves, then of the high ones.
template <class V, class F, class... A>
QUERN_EMULATED V Halves(F f, A... a) {
  return Join<V>(f(Half<0>(a)...), f(Half<1>(a)...));
}

template <class V>
QUERN_EMULATED V Load(const void* p) {
  V x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}
template <class V>
QUERN_EMULATED void Store(void* p, V x) {
  __builtin_memcpy(p, &x, sizeof(x));
}

// Lanes as an array, for what has no instruction of AVX2.
template <class T, class V>
struct Array {
  static constexpr int kLanes = sizeof(V) / sizeof(T);
  T lane[kLanes];

  explicit Array(V x) { __builtin_memcpy(lane, &x, sizeof(x)); }
  V Vector() const { return Load<V>(lane); }
};
template <class T, class V, class F>
QUERN_EMULATED V EachLane(V x, F f) {
  Array<T, V> all(x);
  for (int i = 0; i < all.kLanes; ++i) all.lane[i] = f(i, all.lane[i]);
  return all.Vector();
}
template <class T, class V, class F>
QUERN_EMULATED uint64_t MaskOf(V x, F f) {
  const Array<T, V> all(x);
  uint64_t mask = 0;
  for (int i = 0; i < all.kLanes; ++i) mask |= static_cast<uint64_t>(f(all.lane[i])) << i;
  return mask;
}

// Lanes of T from memory where the mask has a bit, else zero.
template <class T, class V, class M>
QUERN_OUTLINED V MaskedLoad(M mask, const void* p) {
  return EachLane<T>(V{}, [&](int i, T zero) { return mask >> i & 1 ? Load<T>(static_cast<const T*>(p) + i) : zero; });
}
template <class T, class M, class V>
QUERN_OUTLINED void MaskedStore(void* p, M mask, V x) {
  const Array<T, V> all(x);
  for (int i = 0; i < all.kLanes; ++i) {
    if (mask >> i & 1) Store(static_cast<T*>(p) + i, all.lane[i]);
  }
}

template <class T, class V>
QUERN_EMULATED V Blend(uint64_t mask, V otherwise, V x) {
  const Array<T, V> chosen(x);
  return EachLane<T>(otherwise, [&](int i, T lane) { return mask >> i & 1 ? chosen.lane[i] : lane; });
}

// Lanes of 32 bits by number: of one vector, or of two behind each other.
QUERN_OUTLINED __m512i Permute(__m512i indices, __m512i x) {
  const Array<uint32_t, __m512i> from(x);
  return EachLane<uint32_t>(indices, [&](int, uint32_t i) { return from.lane[i & 15]; });
}
QUERN_OUTLINED __m512i Permute(__m512i x, __m512i indices, __m512i y) {
  const Array<uint32_t, __m512i> low(x), high(y);
  return EachLane<uint32_t>(indices, [&](int, uint32_t i) { return (i & 16 ? high : low).lane[i & 15]; });
}

// As compilers reduce: the halves, their halves, and so on.
template <class F>
QUERN_OUTLINED float Reduce(__m512 x, F f) {
  Array<float, __m512> all(x);
  for (int half = 8; half; half /= 2) {
    for (int i = 0; i < half; ++i) all.lane[i] = f(all.lane[i], all.lane[i + half]);
  }
  return all.lane[0];
}

template <int kPredicate>
QUERN_EMULATED __mmask16 Compare(__m512 x, __m512 y) {
  const auto bits = [](__m256 a, __m256 b) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, kPredicate)));
  };
  return static_cast<__mmask16>(bits(Half<0>(x), Half<0>(y)) | bits(Half<1>(x), Half<1>(y)) << 8);
}

// VFPCLASSPS: bit 0 quiet NaN, 1 +0, 2 -0, 3 +infinity, 4 -infinity, 5 denormal, 6 negative and finite, 7 signaling
// NaN.
template <int kClasses>
QUERN_OUTLINED __mmask16 Classify(__m512 x) {
  return static_cast<__mmask16>(MaskOf<uint32_t>(x, [](uint32_t bits) {
    const uint32_t size = bits & 0x7fffffffu, negative = bits >> 31;
    int classes = 0;
    if (size > 0x7f800000u) classes |= bits & 0x400000u ? 1 : 0x80;
    if (size == 0) classes |= negative ? 4 : 2;
    if (size == 0x7f800000u) classes |= negative ? 0x10 : 8;
    if (size && size < 0x800000u) classes |= 0x20;
    if (negative && size && size < 0x7f800000u) classes |= 0x40;
    return (classes & kClasses) != 0;
  }));
}

// VPTERNLOGD: bit 4 x + 2 y + z of the table for each bit.
template <int kTable>
QUERN_EMULATED __m512i Ternary(__m512i x, __m512i y, __m512i z) {
  __m512i result{};
  for (int i = 0; i < 8; ++i) {
    if (kTable >> i & 1) result |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
  }
  return result;
}

template <int kHow>
QUERN_EMULATED __m256i ToHalves(__m512 x) {
  return Join<__m256i>(_mm256_cvtps_ph(Half<0>(x), kHow), _mm256_cvtps_ph(Half<1>(x), kHow));
}

template <int kHalf>
QUERN_EMULATED __m512i Insert(__m512i x, __m256i half) {
  return kHalf ? Join<__m512i>(Half<0>(x), half) : Join<__m512i>(half, Half<1>(x));
}

// VPDPBUSD: acc + the sum of four products of unsigned bytes of x by signed ones of y, which wraps around.
QUERN_EMULATED __m256i DotBytes(__m256i acc, __m256i x, __m256i y) {
  const __m256i even =
      _mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(y, 8));
  return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
}
// VPDPWSSD: the same of two products of signed 16-bit numbers.
QUERN_EMULATED __m256i DotPairs(__m256i acc, __m256i x, __m256i y) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(x, y));
}

// 32-bit lanes without their upper bits.
template <class V, class T>
QUERN_EMULATED V Narrow(__m512i x) {
  const Array<uint32_t, __m512i> from(x);
  return EachLane<T>(V{}, [&](int i, T) { return static_cast<T>(from.lane[i]); });
}
QUERN_EMULATED __m512i ToRange(__m512i x, int low, int high) {
  return EachLane<int>(x, [&](int, int lane) { return lane < low ? low : lane > high ? high : lane; });
}
template <class T>
QUERN_EMULATED __m512i WidenBytes(__m128i x) {
  const Array<T, __m128i> from(x);
  return EachLane<int>(__m512i{}, [&](int i, int) { return static_cast<int>(from.lane[i]); });
}
QUERN_EMULATED __mmask64 TestBytes(__m512i x, __m512i y) {
  return MaskOf<uint8_t>(x & y, [](uint8_t byte) { return byte != 0; });
}

template <class V, class T>
QUERN_EMULATED V Lanes(const T (&lanes)[16]) {
  return Load<V>(lanes);
}
QUERN_EMULATED __m512i Reversed(const int (&lanes)[16]) {
  return EachLane<int>(__m512i{}, [&](int i, int) { return lanes[15 - i]; });
}

}  // namespace
}  // namespace quern::ukernel::avx512

#define QUERN_TWICE(V, half) ::quern::ukernel::avx512::Join<V>(half, half)
#define QUERN_HALVES1(V, f, x) ::quern::ukernel::avx512::Halves<V>([](auto a) { return f(a); }, x)
#define QUERN_HALVES2(V, f, x, y) ::quern::ukernel::avx512::Halves<V>([](auto a, auto b) { return f(a, b); }, x, y)
#define QUERN_HALVES3(V, f, x, y, z) \
  ::quern::ukernel::avx512::Halves<V>([](auto a, auto b, auto c) { return f(a, b, c); }, x, y, z)
#define QUERN_WIDENED(V, f, x) \
  ::quern::ukernel::avx512::Join<V>(f(_mm256_castsi256_si128(x)), f(_mm256_extracti128_si256(x, 1)))

// Constants, casts, memory.
#define _mm512_setzero_ps() (__m512{})
#define _mm512_setzero_pd() (__m512d{})
#define _mm512_setzero_si512() (__m512i{})
#define _mm512_set1_ps(x) QUERN_TWICE(__m512, _mm256_set1_ps(x))
#define _mm512_set1_pd(x) QUERN_TWICE(__m512d, _mm256_set1_pd(x))
#define _mm512_set1_epi8(x) QUERN_TWICE(__m512i, _mm256_set1_epi8(x))
#define _mm512_set1_epi16(x) QUERN_TWICE(__m512i, _mm256_set1_epi16(x))
#define _mm512_set1_epi32(x) QUERN_TWICE(__m512i, _mm256_set1_epi32(x))
#define _mm512_broadcast_i32x4(x) QUERN_TWICE(__m512i, _mm256_broadcastsi128_si256(x))
#undef _mm512_setr_epi32
#define _mm512_setr_epi32(...) ::quern::ukernel::avx512::Lanes<__m512i, int>({__VA_ARGS__})
#undef _mm512_setr_ps
#define _mm512_setr_ps(...) ::quern::ukernel::avx512::Lanes<__m512, float>({__VA_ARGS__})
#undef _mm512_set_epi32
#define _mm512_set_epi32(...) ::quern::ukernel::avx512::Reversed({__VA_ARGS__})
#define _mm512_castsi512_ps(x) ((__m512)(x))
#define _mm512_castps_si512(x) ((__m512i)(x))
#define _mm512_castpd_ps(x) ((__m512)(x))
#define _mm512_castps512_ps256(x) ::quern::ukernel::avx512::Half<0>(x)
#define _mm512_zextps256_ps512(x) ::quern::ukernel::avx512::Join<__m512>(x, _mm256_setzero_ps())
#define _mm512_castsi512_si256(x) ::quern::ukernel::avx512::Half<0>(x)
#define _mm512_castsi256_si512(x) QUERN_TWICE(__m512i, x)
#undef _mm512_extracti64x4_epi64
#define _mm512_extracti64x4_epi64(x, half) ::quern::ukernel::avx512::Half<half>(x)
#undef _mm512_inserti64x4
#define _mm512_inserti64x4(x, y, half) ::quern::ukernel::avx512::Insert<half>(x, y)
#define _mm512_load_ps(p) ::quern::ukernel::avx512::Load<__m512>(p)
#define _mm512_store_ps(p, x) ::quern::ukernel::avx512::Store(p, x)
#define _mm512_loadu_ps(p) ::quern::ukernel::avx512::Load<__m512>(p)
#define _mm512_storeu_ps(p, x) ::quern::ukernel::avx512::Store(p, x)
#define _mm512_loadu_pd(p) ::quern::ukernel::avx512::Load<__m512d>(p)
#define _mm512_storeu_pd(p, x) ::quern::ukernel::avx512::Store(p, x)
#define _mm512_load_si512(p) ::quern::ukernel::avx512::Load<__m512i>(p)
#define _mm512_store_si512(p, x) ::quern::ukernel::avx512::Store(p, x)
#define _mm512_loadu_si512(p) ::quern::ukernel::avx512::Load<__m512i>(p)
#define _mm512_storeu_si512(p, x) ::quern::ukernel::avx512::Store(p, x)
#define _mm512_stream_si512(p, x) ::quern::ukernel::avx512::Store(p, x)
#define _mm512_maskz_loadu_ps(mask, p) ::quern::ukernel::avx512::MaskedLoad<float, __m512>(mask, p)
#define _mm512_maskz_loadu_pd(mask, p) ::quern::ukernel::avx512::MaskedLoad<double, __m512d>(mask, p)
#define _mm512_maskz_loadu_epi8(mask, p) ::quern::ukernel::avx512::MaskedLoad<uint8_t, __m512i>(mask, p)
#define _mm512_maskz_loadu_epi16(mask, p) ::quern::ukernel::avx512::MaskedLoad<uint16_t, __m512i>(mask, p)
#define _mm512_maskz_loadu_epi32(mask, p) ::quern::ukernel::avx512::MaskedLoad<uint32_t, __m512i>(mask, p)
#define _mm256_maskz_loadu_epi16(mask, p) ::quern::ukernel::avx512::MaskedLoad<uint16_t, __m256i>(mask, p)
#define _mm_maskz_loadu_epi8(mask, p) ::quern::ukernel::avx512::MaskedLoad<uint8_t, __m128i>(mask, p)
#define _mm512_mask_storeu_ps(p, mask, x) ::quern::ukernel::avx512::MaskedStore<float>(p, mask, x)
#define _mm512_mask_storeu_pd(p, mask, x) ::quern::ukernel::avx512::MaskedStore<double>(p, mask, x)
#define _mm512_mask_storeu_epi16(p, mask, x) ::quern::ukernel::avx512::MaskedStore<uint16_t>(p, mask, x)
#define _mm512_mask_storeu_epi32(p, mask, x) ::quern::ukernel::avx512::MaskedStore<uint32_t>(p, mask, x)
#define _mm256_mask_storeu_epi16(p, mask, x) ::quern::ukernel::avx512::MaskedStore<uint16_t>(p, mask, x)
#define _mm_mask_storeu_epi8(p, mask, x) ::quern::ukernel::avx512::MaskedStore<uint8_t>(p, mask, x)

// Arithmetic on floats.
#define _mm512_add_ps(x, y) QUERN_HALVES2(__m512, _mm256_add_ps, x, y)
#define _mm512_sub_ps(x, y) QUERN_HALVES2(__m512, _mm256_sub_ps, x, y)
#define _mm512_mul_ps(x, y) QUERN_HALVES2(__m512, _mm256_mul_ps, x, y)
#define _mm512_div_ps(x, y) QUERN_HALVES2(__m512, _mm256_div_ps, x, y)
#define _mm512_max_ps(x, y) QUERN_HALVES2(__m512, _mm256_max_ps, x, y)
#define _mm512_min_ps(x, y) QUERN_HALVES2(__m512, _mm256_min_ps, x, y)
#define _mm512_add_pd(x, y) QUERN_HALVES2(__m512d, _mm256_add_pd, x, y)
#define _mm512_fmadd_ps(x, y, z) QUERN_HALVES3(__m512, _mm256_fmadd_ps, x, y, z)
#define _mm512_fmsub_ps(x, y, z) QUERN_HALVES3(__m512, _mm256_fmsub_ps, x, y, z)
#define _mm512_fmadd_pd(x, y, z) QUERN_HALVES3(__m512d, _mm256_fmadd_pd, x, y, z)
#define _mm512_abs_ps(x) ((__m512)((__m512i)(x) & QUERN_TWICE(__m512i, _mm256_set1_epi32(0x7fffffff))))
#undef _mm512_roundscale_ps
#define _mm512_roundscale_ps(x, how) \
  ::quern::ukernel::avx512::Halves<__m512>([](auto a) { return _mm256_round_ps(a, how); }, x)
#define _mm512_reduce_max_ps(x)     \
  ::quern::ukernel::avx512::Reduce( \
      x, [](float a, float b) { return _mm_cvtss_f32(_mm_max_ss(_mm_set_ss(a), _mm_set_ss(b))); })
#define _mm512_reduce_min_ps(x)     \
  ::quern::ukernel::avx512::Reduce( \
      x, [](float a, float b) { return _mm_cvtss_f32(_mm_min_ss(_mm_set_ss(a), _mm_set_ss(b))); })
#define _mm512_reduce_add_ps(x)     \
  ::quern::ukernel::avx512::Reduce( \
      x, [](float a, float b) { return _mm_cvtss_f32(_mm_add_ss(_mm_set_ss(a), _mm_set_ss(b))); })
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask(x, y, predicate) ::quern::ukernel::avx512::Compare<predicate>(x, y)
#undef _mm512_mask_cmp_ps_mask
#define _mm512_mask_cmp_ps_mask(mask, x, y, predicate) \
  static_cast<__mmask16>((mask) & ::quern::ukernel::avx512::Compare<predicate>(x, y))
#undef _mm512_fpclass_ps_mask
#define _mm512_fpclass_ps_mask(x, classes) ::quern::ukernel::avx512::Classify<classes>(x)

// Arithmetic on integers.
#define _mm512_add_epi32(x, y) QUERN_HALVES2(__m512i, _mm256_add_epi32, x, y)
#define _mm512_sub_epi32(x, y) QUERN_HALVES2(__m512i, _mm256_sub_epi32, x, y)
#define _mm512_sub_epi8(x, y) QUERN_HALVES2(__m512i, _mm256_sub_epi8, x, y)
#define _mm512_mullo_epi32(x, y) QUERN_HALVES2(__m512i, _mm256_mullo_epi32, x, y)
#define _mm512_madd_epi16(x, y) QUERN_HALVES2(__m512i, _mm256_madd_epi16, x, y)
#define _mm512_maddubs_epi16(x, y) QUERN_HALVES2(__m512i, _mm256_maddubs_epi16, x, y)
#define _mm512_shuffle_epi8(x, y) QUERN_HALVES2(__m512i, _mm256_shuffle_epi8, x, y)
#define _mm512_unpacklo_epi32(x, y) QUERN_HALVES2(__m512i, _mm256_unpacklo_epi32, x, y)
#define _mm512_unpackhi_epi32(x, y) QUERN_HALVES2(__m512i, _mm256_unpackhi_epi32, x, y)
#define _mm512_unpacklo_epi64(x, y) QUERN_HALVES2(__m512i, _mm256_unpacklo_epi64, x, y)
#define _mm512_unpackhi_epi64(x, y) QUERN_HALVES2(__m512i, _mm256_unpackhi_epi64, x, y)
#define _mm512_and_si512(x, y) ((__m512i)(x) & (__m512i)(y))
#define _mm512_or_si512(x, y) ((__m512i)(x) | (__m512i)(y))
#define _mm512_xor_si512(x, y) ((__m512i)(x) ^ (__m512i)(y))
#define _mm512_slli_epi32(x, count) \
  ::quern::ukernel::avx512::Halves<__m512i>([&](auto a) { return _mm256_slli_epi32(a, count); }, x)
#define _mm512_srli_epi32(x, count) \
  ::quern::ukernel::avx512::Halves<__m512i>([&](auto a) { return _mm256_srli_epi32(a, count); }, x)
#undef _mm512_ternarylogic_epi32
#define _mm512_ternarylogic_epi32(x, y, z, table) ::quern::ukernel::avx512::Ternary<table>(x, y, z)
#define _mm512_mask_add_epi32(otherwise, mask, x, y) \
  ::quern::ukernel::avx512::Blend<uint32_t>(mask, otherwise, _mm512_add_epi32(x, y))
#define _mm512_mask_mov_epi32(otherwise, mask, x) ::quern::ukernel::avx512::Blend<uint32_t>(mask, otherwise, x)
#define _mm512_mask_blend_epi8(mask, otherwise, x) ::quern::ukernel::avx512::Blend<uint8_t>(mask, otherwise, x)
#define _mm512_test_epi8_mask(x, y) ::quern::ukernel::avx512::TestBytes(x, y)
#define _mm512_permutexvar_ps(indices, x) ((__m512)::quern::ukernel::avx512::Permute(indices, (__m512i)(x)))
#define _mm512_permutex2var_ps(x, indices, y) \
  ((__m512)::quern::ukernel::avx512::Permute((__m512i)(x), indices, (__m512i)(y)))
#define _mm512_permutex2var_epi32(x, indices, y) ::quern::ukernel::avx512::Permute(x, indices, y)
#define _mm512_dpbusd_epi32(acc, x, y) QUERN_HALVES3(__m512i, ::quern::ukernel::avx512::DotBytes, acc, x, y)
#define _mm512_dpwssd_epi32(acc, x, y) QUERN_HALVES3(__m512i, ::quern::ukernel::avx512::DotPairs, acc, x, y)

// Conversions.
#define _mm512_cvtph_ps(...) QUERN_WIDENED(__m512, _mm256_cvtph_ps, (__VA_ARGS__))
#define _mm512_cvtepu16_epi32(...) QUERN_WIDENED(__m512i, _mm256_cvtepu16_epi32, (__VA_ARGS__))
#define _mm512_cvtepu8_epi32(x) ::quern::ukernel::avx512::WidenBytes<uint8_t>(x)
#define _mm512_cvtepi8_epi32(x) ::quern::ukernel::avx512::WidenBytes<int8_t>(x)
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(x, how) ::quern::ukernel::avx512::ToHalves<(how) & 7>(x)
#define _mm512_cvttps_epi32(x) QUERN_HALVES1(__m512i, _mm256_cvttps_epi32, x)
#define _mm512_cvtepi32_ps(x) QUERN_HALVES1(__m512, _mm256_cvtepi32_ps, x)
#define _mm512_cvtepi32_epi16(x) ::quern::ukernel::avx512::Narrow<__m256i, uint16_t>(x)
#define _mm512_cvtsepi32_epi8(x) \
  ::quern::ukernel::avx512::Narrow<__m128i, int8_t>(::quern::ukernel::avx512::ToRange(x, -128, 127))
#define _mm512_mask_cvtepi32_storeu_epi8(p, mask, x) \
  ::quern::ukernel::avx512::MaskedStore<uint8_t>(p, mask, ::quern::ukernel::avx512::Narrow<__m128i, uint8_t>(x))
