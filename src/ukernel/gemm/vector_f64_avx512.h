// The float64 vector traits of tiles (tile_fma.h) on AVX-512. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace quern::ukernel {
namespace {

struct DoubleVector {
  using Scalar = double;
  using Reg = __m512d;
  using Mask = __mmask8;
  static constexpr int kLanes = 8, kUnit = 8, kLhsBlock = 1;
  static constexpr bool kCheapMasks = true;
  static constexpr bool kAsksAhead = true;
  static constexpr int kTileAhead = 1024;  // bytes ahead in each unit, asked L1 for: 4 to 9 % on Cascade Lake
  static Reg Zero() { return _mm512_setzero_pd(); }
  static Reg Load(const double* p) { return _mm512_loadu_pd(p); }
  static Reg LoadMask(const double* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
  static void Store(double* p, Reg x) { _mm512_storeu_pd(p, x); }
  static void StoreMask(double* p, Reg x, Mask m) { _mm512_mask_storeu_pd(p, m, x); }
  static Mask MakeMask(size_t lanes) { return static_cast<Mask>((1u << lanes) - 1u); }
  static Reg Broadcast(const double* p) { return _mm512_set1_pd(*p); }
  static Reg Fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
};

}  // namespace
}  // namespace quern::ukernel
