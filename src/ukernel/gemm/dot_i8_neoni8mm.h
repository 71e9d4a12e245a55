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
  static void AddRow(int32x4_t* acc, const X& x) {
    Dot(acc, x, vdupq_n_s8(1), 0);
    Dot(acc, x, vdupq_n_s8(1), 1);
  }
  static int32x4_t RowSum(const int32x4_t* acc, int row) {
    const int32x4_t twice[2] = {*acc, *acc};
    return Reduce(twice, row);
  }
};

// Of rows that are packed in pairs.
struct DotNeonI8mmPairs : DotNeonI8mm<true> {
  static constexpr bool kPairs = true;
  static X Load(const char* const* p, int groups) {
    const auto* x = reinterpret_cast<const int8_t*>(p[0]);
    const int8x16_t low = vld1q_s8(x);
    return {{low, groups > 1 ? vld1q_s8(x + 16) : low}};
  }
};

}  // namespace
}  // namespace quern::ukernel
