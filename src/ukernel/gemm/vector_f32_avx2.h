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
  using Mask = __m256i;
  static constexpr int kLanes = 8, kUnit = 16, kLhsBlock = 1;
  static constexpr bool kCheapMasks = false;
  static constexpr int kPrefetch = 0;
  static constexpr int kFewRows = 2;  // so few that they wait for memory
  static Reg Zero() { return _mm256_setzero_ps(); }
  static Reg Set1(float x) { return _mm256_set1_ps(x); }
  static Reg Load(const float* p) { return _mm256_loadu_ps(p); }
  static Reg LoadMask(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  static void Store(float* p, Reg x) { _mm256_storeu_ps(p, x); }
  static void StoreMask(float* p, Reg x, Mask m) { _mm256_maskstore_ps(p, m, x); }
  static Mask MakeMask(size_t lanes) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskSource + 8 - lanes));
  }
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
