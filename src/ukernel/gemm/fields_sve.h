// Weights of 2, 4 and 8 bits in units of SVE as vectors of bytes. For kernel files only: internal linkage.
#pragma once

#include <arm_sve.h>

#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// 16 k of a unit are eight vectors of bytes, kGroup / 2 for each group of kGroup k. A vector of storage holds those of
// 8 / kBits groups. Steps are as many k as there are in whole vectors of storage, 16 at least.
template <int kBits, int kGroup>
struct SveFields {
  static constexpr int kPerByte = 8 / kBits;
  static constexpr int kVectors = kGroup / 2;
  static constexpr int kStepK = kPerByte * kGroup > 16 ? kPerByte* kGroup : 16;
  static constexpr int kStepVectors = kStepK / kGroup * kVectors / kPerByte;  // of storage

  // Vector kIndex of the step.
  template <int kIndex>
  QUERN_INLINE static svuint8_t One(const char* p) {
    constexpr int kAt = kIndex / kVectors, kShift = kAt % kPerByte * kBits;
    const svbool_t all = svptrue_b8();
    svuint8_t x = svld1_vnum(all, reinterpret_cast<const uint8_t*>(p), kAt / kPerByte * kVectors + kIndex % kVectors);
    if constexpr (kShift > 0) x = svlsr_x(all, x, kShift);
    if constexpr (kShift + kBits < 8) x = svand_x(all, x, (1 << kBits) - 1);
    return x;
  }
};

}  // namespace
}  // namespace quern::ukernel
