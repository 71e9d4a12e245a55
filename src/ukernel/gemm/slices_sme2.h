// Rows of ZA's tiles on SME2, four at a time, for tile_blocks_sme.h. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/loads_sme2.h"

namespace quern::ukernel {
namespace {

struct Slices {
  using L = Loads;
  static constexpr uint32_t kRows = 4;
  static constexpr bool kExcess = true;

  template <int T>
  QUERN_SVE_INLINE svfloat32x4_t Read(uint32_t row) __arm_streaming __arm_in("za") {
    return svcvt_f32_s32_x4(svread_za32_s32_vg1x4(4 * row + T));
  }
  template <int T>
  QUERN_SVE_INLINE void Add(uint32_t row, svfloat32x4_t x) __arm_streaming __arm_inout("za") {
    svadd_za32_f32_vg1x4(4 * row + T, x);
  }
  QUERN_SVE_INLINE svfloat32x4_t Scalars(const float* p) __arm_streaming {
    const uint64_t quarter = svcntw() / 4;
    return svcreate4(svdup_f32(p[0]), svdup_f32(p[quarter]), svdup_f32(p[2 * quarter]), svdup_f32(p[3 * quarter]));
  }
  QUERN_SVE_INLINE svfloat32x4_t Times(svfloat32x4_t x, svfloat32_t y) __arm_streaming {
    const svbool_t all = svptrue_b32();
    return svcreate4(svmul_x(all, svget4(x, 0), y), svmul_x(all, svget4(x, 1), y), svmul_x(all, svget4(x, 2), y),
                     svmul_x(all, svget4(x, 3), y));
  }
  QUERN_SVE_INLINE svfloat32x4_t Times(svfloat32x4_t x, svfloat32x4_t y) __arm_streaming {
    const svbool_t all = svptrue_b32();
    return svcreate4(svmul_x(all, svget4(x, 0), svget4(y, 0)), svmul_x(all, svget4(x, 1), svget4(y, 1)),
                     svmul_x(all, svget4(x, 2), svget4(y, 2)), svmul_x(all, svget4(x, 3), svget4(y, 3)));
  }

  // The rows' sums times what both vectors of columns have too much, off the tiles 0 and 1: products of pairs of
  // int16, the sums' high and low bytes by e * 256 and e.
  QUERN_SVE_INLINE void TakeOff(svint32_t sums, svint32_t e0, svint32_t e1) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b8();
    const svint32_t high = svlsl_x(all, svasr_x(all, sums, 8), 16);
    const svint16_t pairs = svreinterpret_s16(svorr_x(all, high, svand_x(all, sums, 255)));
    svmops_za32_s16_m(0, all, all, pairs, Pairs(e0));
    svmops_za32_s16_m(1, all, all, pairs, Pairs(e1));
  }
  QUERN_SVE_INLINE svint16_t Pairs(svint32_t e) __arm_streaming {
    const svbool_t all = svptrue_b32();
    return svreinterpret_s16(svorr_x(all, svand_x(all, e, 0xffff), svlsl_x(all, e, 24)));
  }
};

}  // namespace
}  // namespace quern::ukernel
