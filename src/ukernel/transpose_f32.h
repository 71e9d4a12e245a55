// Squares of float32 transposed on any target. For kernel files only: internal linkage.
#pragma once

#include <cstddef>

namespace quern::ukernel {
namespace {

struct Transpose4 {
  static constexpr size_t kSide = 4;
  typedef float V __attribute__((vector_size(16)));

  static void Run(const char* in, ptrdiff_t in_stride, char* out, size_t out_stride) {
    V a, b, c, d;
    __builtin_memcpy(&a, in, 16);
    __builtin_memcpy(&b, in + in_stride, 16);
    __builtin_memcpy(&c, in + 2 * in_stride, 16);
    __builtin_memcpy(&d, in + 3 * in_stride, 16);
    const V ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const V cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
    __builtin_memcpy(out, &a, 16);
    __builtin_memcpy(out + out_stride, &b, 16);
    __builtin_memcpy(out + 2 * out_stride, &c, 16);
    __builtin_memcpy(out + 3 * out_stride, &d, 16);
  }
};

}  // namespace
}  // namespace quern::ukernel
