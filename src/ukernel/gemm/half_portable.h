// Operands of tile_half.h in portable C++, by conversion to float32. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_half.h"
#include "ukernel/gemm/vector_f32_portable.h"
#include "ukernel/widen_portable.h"

namespace quern::ukernel {
namespace {

// Staged: the converted rows are read at one distance from one pointer.
template <Format F>
struct LhsWidened {
  static constexpr Format kFormat = F;
  static constexpr bool kStaged = true;
  static constexpr size_t kElement = 4;
  QUERN_INLINE static void Stage(const char* from, size_t count, float* to) {
    for (; count >= 4; count -= 4, from += 8, to += 4) {
      typedef uint16_t Half4 __attribute__((vector_size(8)));
      Half4 x;
      __builtin_memcpy(&x, from, sizeof(x));
      Vector::Store(to, WidenHalf<F>(__builtin_convertvector(x, HalfBits)));
    }
    for (; count; --count, from += 2, ++to) {
      uint16_t x;
      __builtin_memcpy(&x, from, sizeof(x));
      *to = WidenHalf<F>(HalfBits{x, 0, 0, 0})[0];
    }
  }
};

// The even and the odd k of pairs in lanes of 32 bits.
template <Format F>
struct WeightsHalf : WeightsInF32<Vector> {
  static constexpr int kParts = 2;
  template <int P>
  static Vector::Reg Weights(const char* p) {
    HalfBits w;
    __builtin_memcpy(&w, p, sizeof(w));
    return WidenHalf<F>(P == 0 ? w & 0xffffu : w >> 16);
  }
  template <int P>
  static Vector::Reg Lhs(const char* p) {
    return Vector::Broadcast(reinterpret_cast<const float*>(p) + P);
  }
};

}  // namespace
}  // namespace quern::ukernel
