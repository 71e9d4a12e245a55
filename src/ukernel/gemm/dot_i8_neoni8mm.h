// int8 products of two rows by two columns by SMMLA and USMMLA for tile_i8_lanes.h. For kernel files of Arm's int8
// matrix instructions only.
#pragma once

#include "ukernel/gemm/tile_i8_lanes.h"
#include "ukernel/gemm/vector_i32_neon.h"

namespace quern::ukernel {
namespace {

struct PairOfRows {
  int8x16_t k8[2];  // 8 k of both rows
};

template <bool kSignedLhs>
struct DotNeonI8mm {
  using V = IntVector;
  using X = PairOfRows;
  static constexpr int kGroup = 8, kRows = 2, kWeights = 4, kSums = 1;
  static constexpr int kLatency = 16;
  static constexpr bool kTurned = false, kPairs = false;

  static int8x16_t LoadWeights(const char* p) { return vld1q_s8(reinterpret_cast<const int8_t*>(p)); }
  static X Load(const char* const* p, int) {
    const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(reinterpret_cast<const int8_t*>(p[0])));
    const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(reinterpret_cast<const int8_t*>(p[1])));
    return {{vreinterpretq_s8_s64(vtrn1q_s64(a, b)), vreinterpretq_s8_s64(vtrn2q_s64(a, b))}};
  }
  static void Dot(int32x4_t* acc, const X& x, int8x16_t w, int g) {
    *acc = kSignedLhs ? vmmlaq_s32(*acc, x.k8[g], w) : vusmmlaq_s32(*acc, vreinterpretq_u8_s8(x.k8[g]), w);
  }
  // Each accumulator holds two columns of the first row, then of the second.
  static int32x4_t Reduce(const int32x4_t* acc, int row) {
    const int64x2_t a = vreinterpretq_s64_s32(acc[0]), b = vreinterpretq_s64_s32(acc[1]);
    return vreinterpretq_s32_s64(row == 0 ? vtrn1q_s64(a, b) : vtrn2q_s64(a, b));
  }
  static void AddRow(int32x4_t* acc, const X& x, int8_t by) {
    Dot(acc, x, vdupq_n_s8(by), 0);
    Dot(acc, x, vdupq_n_s8(by), 1);
  }
  static int32x4_t RowSum(const int32x4_t* acc, int row) {
    const int32x4_t twice[2] = {*acc, *acc};
    return Reduce(twice, row);
  }

  // For tile_blocks_passes.h: the first and the third sum hold the first two columns of a vector of rows.
  static constexpr int kTogether = 1;
  static constexpr int kSlots[kWeights] = {0, 2, 1, 3};
  template <int kLoads>
  QUERN_INLINE static void LoadPiece(const char*& p, ptrdiff_t stride, X (&x)[kLoads]) {
    const char* q = p + stride;
    QUERN_UNROLL for (int i = 0; i < kLoads; ++i) {
      const char* const rows[] = {p + 16 * i, q + 16 * i};
      x[i] = Load(rows, 2);
    }
    p = q + stride;
  }
  template <int kLoads>
  QUERN_INLINE static void LoadOdd(const char*& p, X (&x)[kLoads]) {
    LoadPiece(p, 0, x);
  }
  static void ByColumns(float32x4_t a, float32x4_t b, float32x4_t (&out)[kWeights]) {
    const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    out[0] = vreinterpretq_f32_f64(vdupq_laneq_f64(x, 0));
    out[1] = vreinterpretq_f32_f64(vdupq_laneq_f64(x, 1));
    out[2] = vreinterpretq_f32_f64(vdupq_laneq_f64(y, 0));
    out[3] = vreinterpretq_f32_f64(vdupq_laneq_f64(y, 1));
  }
  static float32x4_t Column(const float* p, int i) {
    const float32x2_t x = vld1_f32(p + 2 * i);
    return vcombine_f32(x, x);
  }
  QUERN_INLINE static float32x4_t ByRows(const char*& p, ptrdiff_t stride, bool last) {
    const float32x2_t a = vld1_dup_f32(reinterpret_cast<const float*>(p));
    p += stride;
    if (last) return vcombine_f32(a, a);
    const float32x2_t b = vld1_dup_f32(reinterpret_cast<const float*>(p));
    p += stride;
    return vcombine_f32(a, b);
  }
  // A byte of each column to the bytes of its weights.
  static void SpreadZeros(const char* p, uint8x16_t (&out)[kWeights]) {
    const uint8x8_t x = vld1_u8(reinterpret_cast<const uint8_t*>(p));
    const uint16x8_t twice = vreinterpretq_u16_u8(vzip1q_u8(vcombine_u8(x, x), vcombine_u8(x, x)));
    const uint32x4_t low = vreinterpretq_u32_u16(vzip1q_u16(twice, twice));
    const uint32x4_t high = vreinterpretq_u32_u16(vzip2q_u16(twice, twice));
    out[0] = vreinterpretq_u8_u32(vzip1q_u32(low, low));
    out[1] = vreinterpretq_u8_u32(vzip2q_u32(low, low));
    out[2] = vreinterpretq_u8_u32(vzip1q_u32(high, high));
    out[3] = vreinterpretq_u8_u32(vzip2q_u32(high, high));
  }
  // Vectors of the first row, then of the second, to sums of both by two columns.
  static void Turn(int32_t* p) {
    QUERN_UNROLL for (int v = 0; v < 2; ++v) {
      const int32x4_t both[2] = {vld1q_s32(p + 4 * v), vld1q_s32(p + 8 + 4 * v)};
      vst1q_s32(p + 4 * v, Reduce(both, 0));
      vst1q_s32(p + 8 + 4 * v, Reduce(both, 1));
    }
  }
  static int32x4_t AddRows(int32x4_t total, const X& x) {
    return vdotq_s32(vdotq_s32(total, x.k8[0], vdupq_n_s8(1)), x.k8[1], vdupq_n_s8(1));
  }
  static void StoreSums(int32_t* p, int32x4_t total) { vst1_s32(p, vget_low_s32(vpaddq_s32(total, total))); }
};

// Of rows that are packed in pairs.
struct DotNeonI8mmPairs : DotNeonI8mm<true> {
  static constexpr bool kPairs = true;
  static X Load(const char* const* p, int groups) {
    const auto* x = reinterpret_cast<const int8_t*>(p[0]);
    const int8x16_t low = vld1q_s8(x);
    return {{low, groups > 1 ? vld1q_s8(x + 16) : low}};
  }
  template <int kLoads>
  QUERN_INLINE static void LoadPiece(const char*& p, ptrdiff_t stride, X (&x)[kLoads]) {
    const auto* from = reinterpret_cast<const int8_t*>(p);
    if constexpr (kLoads == 2) {  // one instruction, which moves on as well
      const int8x16x4_t four = vld1q_s8_x4(from);
      x[0] = {{four.val[0], four.val[1]}};
      x[1] = {{four.val[2], four.val[3]}};
    } else {
      x[0] = {{vld1q_s8(from), vld1q_s8(from + 16)}};
    }
    p += stride;
  }
  template <int kLoads>
  QUERN_INLINE static void LoadOdd(const char*& p, X (&x)[kLoads]) {
    LoadPiece(p, 0, x);
  }
};

}  // namespace
}  // namespace quern::ukernel
