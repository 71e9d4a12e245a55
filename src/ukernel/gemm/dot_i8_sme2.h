// The loop of int8 outer products on SME2, which loads four vectors at once, for tile_i8_sme.h. For kernel files of
// that ISA only.
#pragma once

#include "ukernel/gemm/tile_i8_sme.h"

namespace quern::ukernel {
namespace {

struct DotSme2 {
  template <bool kSignedLhs>
  QUERN_STREAMING void Panel(const int8_t* lhs, const int8_t* rhs, size_t groups) __arm_streaming __arm_inout("za") {
    const uint64_t four = 4 * svcntb();
    for (size_t i = groups / 4; i; --i, lhs += 2 * four, rhs += 2 * four) {
      Two<kSignedLhs>(lhs, rhs);
      Two<kSignedLhs>(lhs + four, rhs + four);
    }
    if (groups & 2) {
      Two<kSignedLhs>(lhs, rhs);
      lhs += four;
      rhs += four;
    }
    if (groups & 1) {
      const svcount_t all = svptrue_c8();
      const svint8x2_t x = svld1_x2(all, lhs), w = svld1_x2(all, rhs);
      OuterProducts<kSignedLhs>(svget2(x, 0), svget2(x, 1), svget2(w, 0), svget2(w, 1));
    }
  }
  template <bool kSignedLhs>
  QUERN_STREAMING void Two(const int8_t* lhs, const int8_t* rhs) __arm_streaming __arm_inout("za") {
    const svcount_t all = svptrue_c8();
    const svint8x4_t x = svld1_x4(all, lhs), w = svld1_x4(all, rhs);
    OuterProducts<kSignedLhs>(svget4(x, 0), svget4(x, 1), svget4(w, 0), svget4(w, 1));
    OuterProducts<kSignedLhs>(svget4(x, 2), svget4(x, 3), svget4(w, 2), svget4(w, 3));
  }
};

}  // namespace
}  // namespace quern::ukernel
