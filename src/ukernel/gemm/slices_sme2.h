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
  QUERN_SVE_INLINE uint32_t Slice(uint64_t row) __arm_streaming {
    return static_cast<uint32_t>(4 * row) + T;
  }
  template <int T>
  QUERN_SVE_INLINE svfloat32x4_t Read(uint64_t row) __arm_streaming __arm_in("za") {
    return svcvt_f32_s32_x4(svread_za32_s32_vg1x4(Slice<T>(row)));
  }
  template <int T>
  QUERN_SVE_INLINE void Add(uint64_t row, svfloat32x4_t x) __arm_streaming __arm_inout("za") {
    svadd_za32_f32_vg1x4(Slice<T>(row), x);
  }
  QUERN_SVE_INLINE void Keep(svfloat32_t x, float* p) __arm_streaming {
    const svbool_t all = svptrue_b32();
    const svuint32_t i = svindex_u32(0, 1);  // quarter i % 4 has row i / 4 of those that are read together
    const svuint32_t quarter = svmul_x(all, svand_x(all, i, 3), static_cast<uint32_t>(svcntw() / 4));
    svst1(all, p, svtbl(x, svadd_x(all, quarter, svlsr_x(all, i, 2))));
  }
  QUERN_SVE_INLINE svfloat32x4_t Outer(const float* p, uint64_t row, svfloat32_t columns) __arm_streaming {
    const svfloat32_t x = svld1rq(svptrue_b32(), p + 4 * row);
    return svcreate4(svmul_lane(columns, x, 0), svmul_lane(columns, x, 1), svmul_lane(columns, x, 2),
                     svmul_lane(columns, x, 3));
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

  // The rows' sums times what the columns have too much, off tile T: products of pairs of int16, the sums' high and low
  // bytes by e * 256 and e.
  template <int T>
  QUERN_SVE_INLINE void TakeOff(svint32_t sums, svint32_t e) __arm_streaming __arm_inout("za") {
    const svbool_t all = svptrue_b8();
    const svint32_t high = svlsl_x(all, svasr_x(all, sums, 8), 16);
    const svint16_t pairs = svreinterpret_s16(svorr_x(all, high, svand_x(all, sums, 255)));
    svmops_za32_s16_m(T, all, all, pairs, Pairs(e));
  }
  QUERN_SVE_INLINE svint16_t Pairs(svint32_t e) __arm_streaming {
    const svbool_t all = svptrue_b32();
    return svreinterpret_s16(svorr_x(all, svand_x(all, e, 0xffff), svlsl_x(all, e, 24)));
  }
};

}  // namespace
}  // namespace quern::ukernel
