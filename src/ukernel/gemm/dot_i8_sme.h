// The loop of int8 outer products on SME for tile_i8_sme.h. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_i8_sme.h"

namespace quern::ukernel {
namespace {

struct DotSme {
  template <bool kSignedLhs>
  QUERN_STREAMING void Panel(const int8_t* lhs, const int8_t* rhs, size_t groups) __arm_streaming __arm_inout("za") {
    const uint64_t vector = svcntb();
    for (; groups >= 2; groups -= 2, lhs += 4 * vector, rhs += 4 * vector) {
      Group<kSignedLhs>(lhs, rhs);
      Group<kSignedLhs>(lhs + 2 * vector, rhs + 2 * vector);
    }
    if (groups) Group<kSignedLhs>(lhs, rhs);
  }
  template <bool kSignedLhs>
  QUERN_STREAMING void Group(const int8_t* lhs, const int8_t* rhs) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b8();
    OuterProducts<kSignedLhs>(svld1(all, lhs), svld1_vnum(all, lhs, 1), svld1(all, rhs), svld1_vnum(all, rhs, 1));
  }
};

}  // namespace
}  // namespace quern::ukernel
