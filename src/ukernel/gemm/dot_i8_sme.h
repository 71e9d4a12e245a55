// The loop of int8 outer products on SME for tile_i8_sme.h. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_i8_sme.h"

namespace quern::ukernel {
namespace {

struct DotSme {
  template <bool kSignedLhs>
  QUERN_STREAMING void Panel(const int8_t* lhs, const int8_t* rhs, size_t groups) __arm_streaming __arm_inout("za") {
    const uint64_t two = 2 * svcntb();
    for (size_t i = groups / 4; i; --i, lhs += 4 * two, rhs += 4 * two) {
      Group<kSignedLhs, 0>(lhs, rhs);
      Group<kSignedLhs, 2>(lhs, rhs);
      Group<kSignedLhs, 4>(lhs, rhs);
      Group<kSignedLhs, 6>(lhs, rhs);
    }
    for (groups &= 3; groups; --groups, lhs += two, rhs += two) Group<kSignedLhs, 0>(lhs, rhs);
  }
  template <bool kSignedLhs, int kVector>
  QUERN_STREAMING void Group(const int8_t* lhs, const int8_t* rhs) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b8();
    OuterProducts<kSignedLhs>(svld1_vnum(all, lhs, kVector), svld1_vnum(all, lhs, kVector + 1),
                              svld1_vnum(all, rhs, kVector), svld1_vnum(all, rhs, kVector + 1));
  }
};

}  // namespace
}  // namespace quern::ukernel
