// Rows of ZA's tiles on SME, one at a time, for tile_blocks_sme.h. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/loads_sme.h"

namespace quern::ukernel {
namespace {

struct Slices {
  using L = Loads;
  static constexpr uint32_t kRows = 1;
  static constexpr bool kExcess = false;  // outer products of int16 came with SME2

  template <int T>
  QUERN_SVE_INLINE svfloat32_t Read(uint64_t row) __arm_streaming __arm_in("za") {
    const svbool_t all = svptrue_b32();
    return svcvt_f32_x(all, svread_hor_za32_m(svundef_s32(), all, T, static_cast<uint32_t>(row)));
  }
  template <int T>
  QUERN_SVE_INLINE void Add(uint64_t row, svfloat32_t x) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b32();
    svwrite_hor_za32_m(T, static_cast<uint32_t>(row), all,
                       svadd_x(all, svread_hor_za32_m(svundef_f32(), all, T, static_cast<uint32_t>(row)), x));
  }
  QUERN_SVE_INLINE void Keep(svfloat32_t x, float* p) __arm_streaming { svst1(svptrue_b32(), p, x); }
  QUERN_SVE_INLINE svfloat32_t Outer(const float* p, uint64_t row, svfloat32_t columns) __arm_streaming {
    return svmul_x(svptrue_b32(), columns, p[row]);
  }
  QUERN_SVE_INLINE svfloat32_t Times(svfloat32_t x, svfloat32_t y) __arm_streaming {
    return svmul_x(svptrue_b32(), x, y);
  }
};

}  // namespace
}  // namespace quern::ukernel
