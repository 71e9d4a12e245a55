// int8 products of two rows by two columns in every 128 bits, by SVE's SMMLA and USMMLA, for tile_i8_sve.h. For kernel
// files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_i8_sve.h"

namespace quern::ukernel {
namespace {

template <bool kSignedLhs>
struct DotSveI8mm {
  static constexpr int kGroup = 8, kRows = 2, kSums = 4, kMostSets = 2;
  static constexpr bool kTurned = false, kPairs = false;

  QUERN_INLINE static svint64_t Load(const char* row, size_t k, svbool_t active) {
    return svreinterpret_s64(svld1rq(active, reinterpret_cast<const int8_t*>(row + k)));
  }
  QUERN_INLINE static svint32_t One(svint32_t acc, svint64_t x, svint8_t w) {
    if constexpr (kSignedLhs) return svmmla(acc, svreinterpret_s8(x), w);
    return svusmmla(acc, svreinterpret_u8(x), w);
  }
  QUERN_INLINE static void Four(svint64_t x, svint8x4_t w, svint32_t& a, svint32_t& b, svint32_t& c, svint32_t& d) {
    a = One(a, x, svget4(w, 0));
    b = One(b, x, svget4(w, 1));
    c = One(c, x, svget4(w, 2));
    d = One(d, x, svget4(w, 3));
  }
  template <int kSets, int kSet>
  QUERN_INLINE static void Multiply(const char* const* rows, size_t k, size_t left, svint8x4_t low, svint8x4_t high,
                                    svint32_t& a, svint32_t& b, svint32_t& c, svint32_t& d) {
    const svbool_t active = svwhilelt_b8_u64(0, left);
    const svint64_t x = Load(rows[0], k, active), y = Load(rows[1], k, active);
    if constexpr (kSet == 0) Four(svtrn1(x, y), low, a, b, c, d);
    if constexpr (kSet == kSets - 1) Four(svtrn2(x, y), high, a, b, c, d);
  }
  // Each 128 bits hold two columns of the first row, then of the second.
  template <int kRow, int kVector>
  QUERN_INLINE static svint32_t Get(svint32_t a, svint32_t b, svint32_t c, svint32_t d) {
    const svint64_t x = svreinterpret_s64(kVector == 0 ? a : c), y = svreinterpret_s64(kVector == 0 ? b : d);
    return svreinterpret_s32(kRow == 0 ? svuzp1(x, y) : svuzp2(x, y));
  }
};

// Of rows that are packed in pairs.
struct DotSveI8mmPairs : DotSveI8mm<true> {
  static constexpr bool kPairs = true;

  template <int kSets, int kSet>
  QUERN_INLINE static void Multiply(const char* const* rows, size_t k, size_t left, svint8x4_t low, svint8x4_t high,
                                    svint32_t& a, svint32_t& b, svint32_t& c, svint32_t& d) {
    if constexpr (kSet == 0) Four(Load(rows[0], 2 * k, svptrue_b8()), low, a, b, c, d);
    if constexpr (kSet == kSets - 1) Four(Load(rows[0] + 16, 2 * k, svdup_b8(left > 8)), high, a, b, c, d);
  }
};

}  // namespace
}  // namespace quern::ukernel
