// The loop of int8 outer products on SME2, which loads four vectors at once, for tile_i8_sme.h. For kernel files of
// that ISA only.
#pragma once

#include "ukernel/gemm/tile_i8_sme.h"

namespace quern::ukernel {
namespace {

struct DotSme2 {
  template <bool kSignedLhs>
  QUERN_STREAMING void Panel(const int8_t* lhs, const int8_t* rhs, size_t groups) __arm_streaming __arm_inout("za") {
    const uint64_t vector = svcntb();
    const svcount_t all = svptrue_c8();
    for (; groups >= 2; groups -= 2, lhs += 4 * vector, rhs += 4 * vector) {
      const svint8x4_t x = svld1_x4(all, lhs), w = svld1_x4(all, rhs);
      OuterProducts<kSignedLhs>(svget4(x, 0), svget4(x, 1), svget4(w, 0), svget4(w, 1));
      OuterProducts<kSignedLhs>(svget4(x, 2), svget4(x, 3), svget4(w, 2), svget4(w, 3));
    }
    if (groups) {
      const svint8x2_t x = svld1_x2(all, lhs), w = svld1_x2(all, rhs);
      OuterProducts<kSignedLhs>(svget2(x, 0), svget2(x, 1), svget2(w, 0), svget2(w, 1));
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
