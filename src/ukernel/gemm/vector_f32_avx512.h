// The float32 vector traits of tiles (tile_fma.h) on AVX-512. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace quern::ukernel {
namespace {

struct Vector {
  using Scalar = float;
  using Reg = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = 16, kUnit = 16, kLhsBlock = 1;
  static constexpr bool kCheapMasks = true;
  static constexpr bool kAsksAhead = true;
  static constexpr int kTileAhead = 1024;  // bytes ahead in each unit, asked L1 for: 4 to 9 % on Cascade Lake
  static constexpr int kPrefetch = 1024;   // bytes ahead in each unit: 4 % where panels come out of L2
  static constexpr int kFewRows = 4;       // so few that they wait for memory
  static Reg Zero() { return _mm512_setzero_ps(); }
  static Reg Set1(float x) { return _mm512_set1_ps(x); }
  static Reg Load(const float* p) { return _mm512_loadu_ps(p); }
  static Reg LoadMask(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  static void Store(float* p, Reg x) { _mm512_storeu_ps(p, x); }
  static void StoreMask(float* p, Reg x, Mask m) { _mm512_mask_storeu_ps(p, m, x); }
  static Mask MakeMask(size_t lanes) { return static_cast<Mask>((1u << lanes) - 1u); }
  static Reg Broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg Sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg Mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg Div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg Min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Reg Max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
};

// With the first half of a vector as a type of its own.
struct HalvedVector : Vector {
  using Narrow = __m256;
  static constexpr int kNarrowLanes = 8;
  static Narrow LoadNarrow(const float* p) { return _mm256_loadu_ps(p); }
  static Narrow First(Reg x) { return _mm512_castps512_ps256(x); }
  static Reg Widen(Narrow x) { return _mm512_zextps256_ps512(x); }
  static Narrow AddNarrow(Narrow a, Narrow b) { return _mm256_add_ps(a, b); }
  static Narrow BroadcastNarrow(const float* p) { return _mm256_set1_ps(*p); }
  static Narrow FmaNarrow(Narrow a, Narrow b, Narrow c) { return _mm256_fmadd_ps(a, b, c); }
};

}  // namespace
}  // namespace quern::ukernel
