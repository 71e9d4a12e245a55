// Loads of SME, a vector each, for tile_sme.h. For kernel files of that ISA only.
#pragma once

#include <arm_sme.h>

#include "ukernel/gemm/tile_sme.h"

namespace quern::ukernel {
namespace {

struct Loads {
  static constexpr bool kIndexed = false;
  template <class E>
  QUERN_SVE_INLINE auto One(const E* p, int64_t vector) __arm_streaming {
    return svld1_vnum(svptrue_b8(), p, vector);
  }
  template <class E>
  QUERN_SVE_INLINE auto Two(const E* p) __arm_streaming {
    return svcreate2(One(p, 0), One(p, 1));
  }
  template <class E>
  QUERN_SVE_INLINE auto Four(const E* p, int64_t at) __arm_streaming {
    return svcreate4(One(p, at), One(p, at + 1), One(p, at + 2), One(p, at + 3));
  }
};

}  // namespace
}  // namespace quern::ukernel
