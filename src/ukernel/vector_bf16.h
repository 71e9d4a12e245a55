// VDPBF16PS behind one name: the intrinsic, or plain C++ of its documented arithmetic where QUERN_ISA_EMULATED, so that
// its rows run on any host with AVX-512. For kernel files of AVX512-BF16 only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace quern::ukernel {
namespace {

#if QUERN_ISA_EMULATED
// A denormal counts as zero, of its sign.
inline float FlushDenormal(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  if (!(bits & 0x7f800000u)) bits &= 0x80000000u;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
inline float UpperBf16(uint32_t pair) {
  pair &= 0xffff0000u;
  float x;
  __builtin_memcpy(&x, &pair, sizeof(x));
  return FlushDenormal(x);
}
#endif

// acc + x.odd * y.odd, then + x.even * y.even, in each lane: fused multiply-adds rounded to nearest even, denormals
// flushed throughout.
#if QUERN_ISA_EMULATED
// Out of line: compiled once, not in each of a file's tiles.
[[maybe_unused]] __attribute__((noinline)) __m512 DotBf16Pairs(__m512 acc, __m512i x, __m512i y) {
  alignas(64) float sum[16];
  alignas(64) uint32_t a[16], b[16];
  _mm512_store_ps(sum, acc);
  _mm512_store_si512(a, x);
  _mm512_store_si512(b, y);
  for (int i = 0; i < 16; ++i) {
    const float odd = FlushDenormal(__builtin_fmaf(UpperBf16(a[i]), UpperBf16(b[i]), FlushDenormal(sum[i])));
    sum[i] = FlushDenormal(__builtin_fmaf(UpperBf16(a[i] << 16), UpperBf16(b[i] << 16), odd));
  }
  return _mm512_load_ps(sum);
}
#else
inline __m512 DotBf16Pairs(__m512 acc, __m512i x, __m512i y) { return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)y); }
#endif

}  // namespace
}  // namespace quern::ukernel
