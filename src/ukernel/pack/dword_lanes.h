// Vectors of a dword per column, as wide as a file's ISA has them: what packers of blocks are made of. For kernel files
// only: internal linkage, their flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/float_lanes.h"
#include "ukernel/pin_order.h"

namespace quern::ukernel {
namespace {

// Rows of bytes a constant distance apart, a column's numbers each.
struct ColumnRows {
  const uint8_t* first;
  ptrdiff_t stride;

  const uint8_t* operator[](size_t c) const { return first + static_cast<ptrdiff_t>(c) * stride; }
  ColumnRows From(size_t c) const { return {(*this)[c], stride}; }
  ColumnRows At(ptrdiff_t bytes) const { return {first + bytes, stride}; }
};

// Pairs of lanes of 32 and of 64 bits interleaved, within 128 bits each.
#if defined(__AVX512F__)
inline Lanes Low32(Lanes a, Lanes b) { return (Lanes)_mm512_unpacklo_epi32((__m512i)a, (__m512i)b); }
inline Lanes High32(Lanes a, Lanes b) { return (Lanes)_mm512_unpackhi_epi32((__m512i)a, (__m512i)b); }
inline Lanes Low64(Lanes a, Lanes b) { return (Lanes)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b); }
inline Lanes High64(Lanes a, Lanes b) { return (Lanes)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b); }
#elif defined(__AVX2__)
inline Lanes Low32(Lanes a, Lanes b) { return (Lanes)_mm256_unpacklo_epi32((__m256i)a, (__m256i)b); }
inline Lanes High32(Lanes a, Lanes b) { return (Lanes)_mm256_unpackhi_epi32((__m256i)a, (__m256i)b); }
inline Lanes Low64(Lanes a, Lanes b) { return (Lanes)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b); }
inline Lanes High64(Lanes a, Lanes b) { return (Lanes)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b); }
#else
inline Lanes Low32(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Lanes High32(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
inline Lanes Low64(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5); }
inline Lanes High64(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, 2, 3, 6, 7); }
#endif

// The four dwords of column i in the first 128 bits, of column i + 4 in the next, and so on; `fours` are where columns
// 0, 4, .. begin.
inline Lanes LoadEveryFourth(const uint8_t* const (&fours)[kLanes / 4], ptrdiff_t at) {
  Lanes x;
#if defined(__AVX512F__)
  const auto load = [&](size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(fours[i] + at)); };
  const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(load(0)), load(1), 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(load(2)), load(3), 1);
  x = (Lanes)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#else
  for (size_t i = 0; i < kLanes / 4; ++i) __builtin_memcpy(reinterpret_cast<char*>(&x) + 16 * i, fours[i] + at, 16);
#endif
  return x;
}

// The four dwords of each of kLanes columns.
inline void LoadLanes(ColumnRows from, Lanes (&x)[4]) {
  const uint8_t* fours[kLanes / 4];
  for (size_t i = 0; i < kLanes / 4; ++i) {
    fours[i] = from[4 * i];
    asm("" : "+r"(fours[i]));  // addresses from these and the stride: there are not registers for one each
  }
  Lanes r[4];
  for (size_t i = 0; i < 4; ++i) r[i] = LoadEveryFourth(fours, static_cast<ptrdiff_t>(i) * from.stride);
  const Lanes a = Low32(r[0], r[1]), b = High32(r[0], r[1]), c = Low32(r[2], r[3]), d = High32(r[2], r[3]);
  x[0] = Low64(a, c);
  x[1] = High64(a, c);
  x[2] = Low64(b, d);
  x[3] = High64(b, d);
}

// The two dwords of each.
inline void LoadLanes(ColumnRows from, Lanes (&x)[2]) {
  typedef uint64_t Twos __attribute__((vector_size(sizeof(Lanes))));
  Twos a, b;  // columns 0 1 4 5 .. and 2 3 6 7 ..
  for (size_t i = 0; i < kLanes / 2; ++i) {
    const size_t c = i / 2 * 4 + i % 2;
    a[i] = LoadAs<uint64_t>(from[c]);
    b[i] = LoadAs<uint64_t>(from[c + 2]);
  }
  const Lanes low = Low32((Lanes)a, (Lanes)b), high = High32((Lanes)a, (Lanes)b);  // 0 2, 1 3
  x[0] = Low32(low, high);
  x[1] = High32(low, high);
}

// The dword of each.
inline void LoadLanes(ColumnRows from, Lanes (&x)[1]) {
  for (size_t i = 0; i < kLanes; ++i) x[0][i] = LoadAs<uint32_t>(from[i]);
}

// The float16 of each.
inline FloatLanes LoadF16(ColumnRows from) {
  HalfLanes x;
  for (size_t i = 0; i < kLanes; ++i) x[i] = LoadAs<uint16_t>(from[i]);
  return WidenHalves<Format::kF16>(x);
}

// To f16 or bf16.
inline void StoreHalves(Format format, FloatLanes x, char* to) {
  if (format == Format::kF16) {
    StoreFloats<Format::kF16>(to, x);
  } else {
    StoreFloats<Format::kBf16>(to, x);
  }
}

// Bytes 1 and 2 of each dword change places.
inline Lanes SwapMiddleBytes(Lanes x) {
#if defined(__AVX2__)
  PinOrder(x);  // compilers would make three of this and the shuffle before
#endif
#if defined(__AVX512F__)
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  return (Lanes)_mm512_shuffle_epi8((__m512i)x, _mm512_broadcast_i32x4(order));
#elif defined(__AVX2__)
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  return (Lanes)_mm256_shuffle_epi8((__m256i)x, _mm256_broadcastsi128_si256(order));
#else
  const Lanes swap = (x ^ x >> 8) & 0xff00u;
  return x ^ swap ^ swap << 8;
#endif
}

// The sum of the four bytes of each dword.
inline Lanes SumBytes(Lanes x) {
#if defined(__AVX512F__)
  const __m512i pairs = _mm512_maddubs_epi16((__m512i)x, _mm512_set1_epi8(1));
  return (Lanes)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif defined(__AVX2__)
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)x, _mm256_set1_epi8(1));
  return (Lanes)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
  x = (x & 0x00ff00ffu) + (x >> 8 & 0x00ff00ffu);
  return (x & 0xffffu) + (x >> 16);
#endif
}

}  // namespace
}  // namespace quern::ukernel
