// The float64 vector traits of tiles (tile_fma.h) on AVX2 with FMA. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace quern::ukernel {
namespace {

// Ones before zeros: a mask of n lanes starts 4 - n before the zeros.
alignas(64) static constexpr int64_t kDoubleMaskSource[8] = {-1, -1, -1, -1, 0, 0, 0, 0};

struct DoubleVector {
  using Scalar = double;
  using Reg = __m256d;
  using Mask = size_t;  // lanes: a register only where one is loaded
  static constexpr int kLanes = 4, kUnit = 8, kLhsBlock = 1;
  static constexpr bool kCheapMasks = false;
  static constexpr bool kAsksAhead = true;
  static constexpr int kTileAhead = 0;
  static Reg Zero() { return _mm256_setzero_pd(); }
  static Reg Load(const double* p) { return _mm256_loadu_pd(p); }
  static Reg LoadMask(const double* p, Mask m) { return _mm256_maskload_pd(p, Bits(m)); }
  static void Store(double* p, Reg x) { _mm256_storeu_pd(p, x); }
  // Without VMASKMOVPD, as in float32.
  static void StoreMask(double* p, Reg x, Mask m) {
    if (m == kLanes) return Store(p, x);
    __m128d part = _mm256_castpd256_pd128(x);
    if (m & 2) {
      _mm_storeu_pd(p, part);
      part = _mm256_extractf128_pd(x, 1);
      p += 2;
    }
    if (m & 1) _mm_store_sd(p, part);
  }
  static Mask MakeMask(size_t lanes) { return lanes; }
  static __m256i Bits(Mask m) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kDoubleMaskSource + 4 - m));
  }
  static Reg Broadcast(const double* p) { return _mm256_broadcast_sd(p); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
};

}  // namespace
}  // namespace quern::ukernel
