// Loads of SME2, several vectors each, for tile_sme.h. For kernel files of that ISA only.
#pragma once

#include <arm_sme.h>

#include "ukernel/gemm/tile_sme.h"

namespace quern::ukernel {
namespace {

struct Loads {
  static constexpr bool kIndexed = true;
  template <class E>
  QUERN_SVE_INLINE svcount_t All() __arm_streaming {
    return sizeof(E) == 4 ? svptrue_c32() : sizeof(E) == 2 ? svptrue_c16() : svptrue_c8();
  }
  template <class E>
  QUERN_SVE_INLINE auto Two(const E* p) __arm_streaming {
    return svld1_x2(All<E>(), p);
  }
  template <class E>
  QUERN_SVE_INLINE auto Four(const E* p, int64_t at) __arm_streaming {
    return svld1_vnum_x4(All<E>(), p, at);
  }
};

}  // namespace
}  // namespace quern::ukernel
