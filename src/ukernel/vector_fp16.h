// VFMADDPH behind one name: the intrinsic, or plain C++ of its rounding where QUERN_ISA_EMULATED, so that its rows run
// on any host with AVX-512. 32 float16 lie in a register of integers. For kernel files of AVX512-FP16 only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/float16.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_EMULATED
// x * y + z rounded once to float16: the product is exact in float64, what its sum with z loses goes into the last bit.
inline uint16_t FmaHalfBits(uint16_t x, uint16_t y, uint16_t z) {
  const double product = static_cast<double>(F16BitsToF32(x)) * static_cast<double>(F16BitsToF32(y));
  const double addend = static_cast<double>(F16BitsToF32(z));
  double sum = product + addend;
  const double back = sum - product;
  const double lost = (product - (sum - back)) + (addend - back);
  if (lost != 0 && sum - sum == 0) {
    uint64_t bits;
    __builtin_memcpy(&bits, &sum, sizeof(bits));
    if ((lost > 0) != (sum > 0)) --bits;
    bits |= 1;
    __builtin_memcpy(&sum, &bits, sizeof(bits));
  }
  float narrow = static_cast<float>(sum);
  if (static_cast<double>(narrow) != sum && sum == sum) {
    uint32_t bits;
    __builtin_memcpy(&bits, &narrow, sizeof(bits));
    if (__builtin_fabs(static_cast<double>(narrow)) > __builtin_fabs(sum)) --bits;
    bits |= 1;
    __builtin_memcpy(&narrow, &bits, sizeof(bits));
  }
  return F32ToF16Bits(narrow);
}
#endif

// x * y + z in each lane, rounded once to nearest even; denormals are kept.
#if QUERN_ISA_EMULATED
// Out of line: compiled once, not in each of a file's tiles.
[[maybe_unused]] __attribute__((noinline)) __m512i FmaHalf(__m512i x, __m512i y, __m512i z) {
  alignas(64) uint16_t a[32], b[32], c[32];
  _mm512_store_si512(a, x);
  _mm512_store_si512(b, y);
  _mm512_store_si512(c, z);
  for (int i = 0; i < 32; ++i) c[i] = FmaHalfBits(a[i], b[i], c[i]);
  return _mm512_load_si512(c);
}
#else
inline __m512i FmaHalf(__m512i x, __m512i y, __m512i z) {
  return _mm512_castph_si512(_mm512_fmadd_ph(_mm512_castsi512_ph(x), _mm512_castsi512_ph(y), _mm512_castsi512_ph(z)));
}
#endif

}  // namespace
}  // namespace quern::ukernel
