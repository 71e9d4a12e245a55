// Tables of 256 bytes: those of each upper half of a byte are shuffled by the lower half, and the upper half's bits
// choose between them. For kernel files only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/affine.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if defined(__AVX512BW__)
struct MapVector {
  using V = __m512i;
  using Mask = __mmask64;
  static V Load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static void Store(uint8_t* p, V v) { _mm512_storeu_si512(p, v); }
  static V Table(const uint8_t* p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V LowerHalf(V x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
  static Mask Bit(V x, int bit) { return _mm512_test_epi8_mask(x, _mm512_set1_epi8(static_cast<char>(1 << bit))); }
  static V Shuffle(V table, V x) { return _mm512_shuffle_epi8(table, x); }
  static V Choose(Mask m, V no, V yes) { return _mm512_mask_blend_epi8(m, no, yes); }
};
#elif defined(__AVX2__)
struct MapVector {
  using V = __m256i;
  using Mask = __m256i;  // the upper bit of each byte
  static V Load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void Store(uint8_t* p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static V Table(const uint8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static V LowerHalf(V x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
  static Mask Bit(V x, int bit) { return _mm256_slli_epi16(x, 7 - bit); }
  static V Shuffle(V table, V x) { return _mm256_shuffle_epi8(table, x); }
  static V Choose(Mask m, V no, V yes) { return _mm256_blendv_epi8(no, yes, m); }
};
#endif

#if defined(__AVX2__)
// Of the 1 << kLevels tables from kTable on.
template <int kLevels, int kTable>
inline MapVector::V MapTree(const MapVector::V* tables, const MapVector::Mask* bits, MapVector::V lower) {
  if constexpr (kLevels == 0) {
    return MapVector::Shuffle(tables[kTable], lower);
  } else {
    const MapVector::V no = MapTree<kLevels - 1, kTable>(tables, bits, lower);
    const MapVector::V yes = MapTree<kLevels - 1, kTable + (1 << (kLevels - 1))>(tables, bits, lower);
    return MapVector::Choose(bits[kLevels - 1], no, yes);
  }
}
#endif

void RunMap(const MapBytesArgs& a) {
  size_t i = 0;
#if defined(__AVX2__)
  constexpr size_t kBytes = sizeof(MapVector::V);
  if (a.n >= kBytes) {
    MapVector::V tables[16];
    for (int t = 0; t < 16; ++t) tables[t] = MapVector::Table(a.table + 16 * t);
    for (; i + kBytes <= a.n; i += kBytes) {
      const MapVector::V x = MapVector::Load(a.x + i);
      MapVector::Mask bits[4];
      for (int b = 0; b < 4; ++b) bits[b] = MapVector::Bit(x, 4 + b);
      MapVector::Store(a.y + i, MapTree<4, 0>(tables, bits, MapVector::LowerHalf(x)));
    }
  }
#endif
  // Eight at a time: a store of one byte may be to anywhere, and everything would be read again after it.
  for (; i + 8 <= a.n; i += 8) {
    uint64_t from, bytes = 0;
    __builtin_memcpy(&from, a.x + i, 8);
    for (int k = 0; k < 64; k += 8) bytes |= uint64_t{a.table[from >> k & 0xff]} << k;
    __builtin_memcpy(a.y + i, &bytes, 8);
  }
  for (; i < a.n; ++i) a.y[i] = a.table[a.x[i]];
}

}  // namespace
}  // namespace quern::ukernel
