// The float32 vector traits of tiles (tile_fma.h) on AVX2 with FMA. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace quern::ukernel {
namespace {

// Ones before zeros: a mask of n lanes starts 8 - n before the zeros.
alignas(64) static constexpr int32_t kMaskSource[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

struct Vector {
  using Scalar = float;
  using Reg = __m256;
  using Mask = size_t;  // lanes: a register only where one is loaded
  static constexpr int kLanes = 8, kUnit = 16, kLhsBlock = 1;
  static constexpr bool kCheapMasks = false;
  static constexpr bool kAsksAhead = true;
  static constexpr int kTileAhead = 0;
  static constexpr bool kIndexedRows = true;
  static constexpr int kPrefetch = 0;
  static constexpr int kFewRows = 2;  // so few that they wait for memory
  static Reg Zero() { return _mm256_setzero_ps(); }
  static Reg Set1(float x) { return _mm256_set1_ps(x); }
  static Reg Load(const float* p) { return _mm256_loadu_ps(p); }
  static Reg LoadMask(const float* p, Mask m) { return _mm256_maskload_ps(p, Bits(m)); }
  static void Store(float* p, Reg x) { _mm256_storeu_ps(p, x); }
  // Without VMASKMOVPS, which takes 10 to 20 cycles on AMD's cores.
  static void StoreMask(float* p, Reg x, Mask m) {
    if (m == kLanes) return Store(p, x);
    __m128 part = _mm256_castps256_ps128(x);
    if (m & 4) {
      _mm_storeu_ps(p, part);
      part = _mm256_extractf128_ps(x, 1);
      p += 4;
    }
    if (m & 2) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
      part = _mm_movehl_ps(part, part);
      p += 2;
    }
    if (m & 1) _mm_store_ss(p, part);
  }
  static Mask MakeMask(size_t lanes) { return lanes; }
  static __m256i Bits(Mask m) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskSource + 8 - m)); }
  static Reg Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg Min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Reg Max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
};

}  // namespace
}  // namespace quern::ukernel
