// int8 dot products by SVE's SDOT for tile_i8_sve.h. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_i8_sve.h"

namespace quern::ukernel {
namespace {

template <bool kTurn>
struct DotSve {
  static constexpr int kGroup = 4, kRows = 1, kSums = 2, kMostSets = 4;
  static constexpr bool kTurned = kTurn, kPairs = false;

  template <int kSets, int kSet, int kLane>
  QUERN_INLINE static void Lane(svint8_t x, svint8x4_t w, svint32_t& a, svint32_t& b) {
    if constexpr (kLane % kSets == kSet) {
      a = svdot_lane(a, svget4(w, 2 * (kLane % 2)), x, kLane);
      b = svdot_lane(b, svget4(w, 2 * (kLane % 2) + 1), x, kLane);
    }
  }
  template <int kSets, int kSet>
  QUERN_INLINE static void Multiply(const char* const* rows, size_t k, size_t left, svint8x4_t low, svint8x4_t high,
                                    svint32_t& a, svint32_t& b) {
    svint8_t x = svld1rq(svwhilelt_b8_u64(0, left), reinterpret_cast<const int8_t*>(rows[0] + k));
    if (kTurn) x = sveor_x(svptrue_b8(), x, -128);
    Lane<kSets, kSet, 0>(x, low, a, b);
    Lane<kSets, kSet, 1>(x, low, a, b);
    Lane<kSets, kSet, 2>(x, high, a, b);
    Lane<kSets, kSet, 3>(x, high, a, b);
  }
  template <int, int kVector>
  QUERN_INLINE static svint32_t Get(svint32_t a, svint32_t b) {
    return kVector == 0 ? a : b;
  }
};

}  // namespace
}  // namespace quern::ukernel
