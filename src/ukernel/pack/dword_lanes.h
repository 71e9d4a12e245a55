// Vectors of a dword per column, as wide as a file's ISA has them: what packers of blocks are made of. For kernel files
// only: internal linkage, their flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/pack/float_lanes.h"

namespace quern::ukernel {
namespace {

// The four dwords at from[i] + at of each of kLanes columns.
inline void LoadLanes(const uint8_t* const* from, ptrdiff_t at, Lanes (&x)[4]) {
  typedef uint32_t Four __attribute__((vector_size(16)));
  const auto load = [&](size_t i) {
    Four r;
    __builtin_memcpy(&r, from[i] + at, sizeof(r));
    return r;
  };
#if defined(__AVX2__)
  Lanes r[4];
  for (size_t i = 0; i < 4; ++i) r[i] = __builtin_shufflevector(load(i), load(i + 4), 0, 1, 2, 3, 4, 5, 6, 7);
  const Lanes a = __builtin_shufflevector(r[0], r[1], 0, 8, 1, 9, 4, 12, 5, 13);
  const Lanes b = __builtin_shufflevector(r[0], r[1], 2, 10, 3, 11, 6, 14, 7, 15);
  const Lanes d = __builtin_shufflevector(r[2], r[3], 0, 8, 1, 9, 4, 12, 5, 13);
  const Lanes e = __builtin_shufflevector(r[2], r[3], 2, 10, 3, 11, 6, 14, 7, 15);
  x[0] = __builtin_shufflevector(a, d, 0, 1, 8, 9, 4, 5, 12, 13);
  x[1] = __builtin_shufflevector(a, d, 2, 3, 10, 11, 6, 7, 14, 15);
  x[2] = __builtin_shufflevector(b, e, 0, 1, 8, 9, 4, 5, 12, 13);
  x[3] = __builtin_shufflevector(b, e, 2, 3, 10, 11, 6, 7, 14, 15);
#else
  const Four r[4] = {load(0), load(1), load(2), load(3)};
  const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
  const Four d = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5), e = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  x[0] = __builtin_shufflevector(a, d, 0, 1, 4, 5);
  x[1] = __builtin_shufflevector(a, d, 2, 3, 6, 7);
  x[2] = __builtin_shufflevector(b, e, 0, 1, 4, 5);
  x[3] = __builtin_shufflevector(b, e, 2, 3, 6, 7);
#endif
}

// The two dwords there.
inline void LoadLanes(const uint8_t* const* from, ptrdiff_t at, Lanes (&x)[2]) {
  const auto load = [&](size_t i) { return LoadAs<uint64_t>(from[i] + at); };
  typedef uint64_t Twos __attribute__((vector_size(sizeof(Lanes))));
#if defined(__AVX2__)
  const Twos a = {load(0), load(1), load(4), load(5)}, b = {load(2), load(3), load(6), load(7)};
  x[0] = __builtin_shufflevector((Lanes)a, (Lanes)b, 0, 2, 8, 10, 4, 6, 12, 14);
  x[1] = __builtin_shufflevector((Lanes)a, (Lanes)b, 1, 3, 9, 11, 5, 7, 13, 15);
#else
  const Twos a = {load(0), load(1)}, b = {load(2), load(3)};
  x[0] = __builtin_shufflevector((Lanes)a, (Lanes)b, 0, 2, 4, 6);
  x[1] = __builtin_shufflevector((Lanes)a, (Lanes)b, 1, 3, 5, 7);
#endif
}

// The dword there.
inline void LoadLanes(const uint8_t* const* from, ptrdiff_t at, Lanes (&x)[1]) {
  const auto load = [&](size_t i) { return LoadAs<uint32_t>(from[i] + at); };
#if defined(__AVX2__)
  x[0] = Lanes{load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)};
#else
  x[0] = Lanes{load(0), load(1), load(2), load(3)};
#endif
}

// The float16 there.
inline FloatLanes LoadF16(const uint8_t* const* from, ptrdiff_t at) {
  const auto load = [&](size_t i) { return LoadAs<uint16_t>(from[i] + at); };
#if defined(__AVX2__)
  const HalfLanes x = {load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)};
#else
  const HalfLanes x = {load(0), load(1), load(2), load(3)};
#endif
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
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  return (Lanes)_mm256_shuffle_epi8((__m256i)x, _mm256_broadcastsi128_si256(order));
#else
  const Lanes swap = (x ^ x >> 8) & 0xff00u;
  return x ^ swap ^ swap << 8;
#endif
}

// The sum of the four bytes of each dword.
inline Lanes SumBytes(Lanes x) {
#if defined(__AVX2__)
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)x, _mm256_set1_epi8(1));
  return (Lanes)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
  x = (x & 0x00ff00ffu) + (x >> 8 & 0x00ff00ffu);
  return (x & 0xffffu) + (x >> 16);
#endif
}

}  // namespace
}  // namespace quern::ukernel
