// int8 dot products for tile_i8.h on any target: both sides widened to 16 bits. For kernel files only.
#pragma once

#include "ukernel/gemm/tile_i8.h"
#include "ukernel/gemm/vector_i32_portable.h"

namespace quern::ukernel {
namespace {

typedef int16_t Int16x8 __attribute__((vector_size(16)));

// Sums of the products of neighbours. Compilers do not find the instruction of baseline x86-64.
inline IntVector::Int MultiplyAddPairs(Int16x8 a, Int16x8 b) {
#if defined(__SSE2__)
  typedef short Native __attribute__((vector_size(16)));
  return (IntVector::Int)__builtin_ia32_pmaddwd128((Native)a, (Native)b);
#else
  typedef int16_t Half __attribute__((vector_size(8)));
  using Signed = IntVector::Signed;
  const Half a_even = __builtin_shufflevector(a, a, 0, 2, 4, 6), a_odd = __builtin_shufflevector(a, a, 1, 3, 5, 7);
  const Half b_even = __builtin_shufflevector(b, b, 0, 2, 4, 6), b_odd = __builtin_shufflevector(b, b, 1, 3, 5, 7);
  const Signed even = __builtin_convertvector(a_even, Signed) * __builtin_convertvector(b_even, Signed);
  const Signed odd = __builtin_convertvector(a_odd, Signed) * __builtin_convertvector(b_odd, Signed);
  return (IntVector::Int)(even + odd);
#endif
}

// Weights stay in place, so that widening takes shifts alone: the even and the odd k of each group. The left side is
// staged to match: k0 k2 k1 k3.
struct WeightsPortable {
  Int16x8 even, odd;
};

template <bool kSignedLhs>
struct DotPortable {
  using V = IntVector;
  using Weights = WeightsPortable;
  static constexpr bool kHoldsWeights = false;
  static constexpr int kShift = 0;
  static constexpr int kLatency = 1;
  static constexpr size_t kGroupBytes = 8;

  static Weights LoadWeights(const char* p) {
    typedef uint16_t Bits __attribute__((vector_size(16)));
    Bits x;
    __builtin_memcpy(&x, p, 16);
    return {(Int16x8)(x << 8) >> 8, (Int16x8)x >> 8};
  }
  static Int16x8 Pair(const char* p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, 4);
    return (Int16x8)IntVector::Set1Int(pair);
  }
  static const char* LoadGroup(const char* p) { return p; }
  static V::Int Dot(V::Int acc, const char* lhs, const Weights& w) {
    acc += MultiplyAddPairs(w.even, Pair(lhs));
    return acc + MultiplyAddPairs(w.odd, Pair(lhs + 4));
  }
  static void Stage(const char* from, size_t count, char* to) {
    typedef int8_t SignedBytes __attribute__((vector_size(8)));
    typedef uint8_t Bytes __attribute__((vector_size(8)));
    for (; count >= 8; count -= 8, from += 8, to += 16) {
      Bytes x;
      __builtin_memcpy(&x, from, 8);
      const Int16x8 wide =
          kSignedLhs ? __builtin_convertvector((SignedBytes)x, Int16x8) : __builtin_convertvector(x, Int16x8);
      const Int16x8 ordered = __builtin_shufflevector(wide, wide, 0, 2, 1, 3, 4, 6, 5, 7);
      __builtin_memcpy(to, &ordered, 16);
    }
    for (; count; from += 4, to += 8) {
      int16_t group[4] = {};
      constexpr int kAt[4] = {0, 2, 1, 3};
      for (int i = 0; i < 4 && count; ++i, --count) {
        group[kAt[i]] = kSignedLhs ? static_cast<int8_t>(from[i]) : static_cast<uint8_t>(from[i]);
      }
      __builtin_memcpy(to, group, 8);
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
