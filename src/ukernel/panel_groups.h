// Panels of [groups along K][rows][elements of a group] from rows whose k are contiguous: the left side's panels, and
// units of the right side from its transpose. For kernel files only: internal linkage.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/transpose_f32.h"

namespace quern::ukernel {
namespace {

// Squares of groups of 2, 4 or 8 bytes, transposed.
template <size_t kGroupBytes>
struct TransposeGroups;

template <>
struct TransposeGroups<4> : Transpose4 {};

template <>
struct TransposeGroups<8> {
  static constexpr size_t kSide = 2;
  typedef uint64_t V __attribute__((vector_size(16)));

  static void Run(const char* in, ptrdiff_t in_stride, char* out, size_t out_stride) {
    V a, b;
    __builtin_memcpy(&a, in, 16);
    __builtin_memcpy(&b, in + in_stride, 16);
    const V first = __builtin_shufflevector(a, b, 0, 2), second = __builtin_shufflevector(a, b, 1, 3);
    __builtin_memcpy(out, &first, 16);
    __builtin_memcpy(out + out_stride, &second, 16);
  }
};

template <>
struct TransposeGroups<2> {
  static constexpr size_t kSide = 8;
  typedef uint16_t V __attribute__((vector_size(16)));

  static void Run(const char* in, ptrdiff_t in_stride, char* out, size_t out_stride) {
    V x[8], y[8];
    for (int i = 0; i < 8; ++i) __builtin_memcpy(&x[i], in + i * in_stride, 16);
    for (int round = 0; round < 3; ++round) {  // a perfect shuffle of rows and halves each
      for (int i = 0; i < 4; ++i) {
        y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
        y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
      }
      for (int i = 0; i < 8; ++i) x[i] = y[i];
    }
    for (int i = 0; i < 8; ++i) __builtin_memcpy(out + static_cast<size_t>(i) * out_stride, &x[i], 16);
  }
};

// Bytes of a row that are no multiple of four are cleared by halves.
inline void ClearBytes(char* p, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i += 2) __builtin_memset(p + i, 0, 2);
}

// The first `bytes` of `rows` rows, a row after the other at `row_stride` from `from` on, to a panel of `unit` rows.
// The rest of a last group and of the rows is left as it is.
template <size_t kGroupBytes>
inline void PackGroups(const char* from, ptrdiff_t row_stride, size_t rows, size_t bytes, size_t unit, char* out) {
  using T = TransposeGroups<kGroupBytes>;
  const size_t line = unit * kGroupBytes;
  const size_t whole_rows = rows / T::kSide * T::kSide, whole = bytes / (T::kSide * kGroupBytes) * T::kSide;
  for (size_t r = 0; r < whole_rows; r += T::kSide) {
    const char* p = from + static_cast<ptrdiff_t>(r) * row_stride;
    for (size_t g = 0; g < whole; g += T::kSide) {
      T::Run(p + g * kGroupBytes, row_stride, out + g * line + r * kGroupBytes, line);
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    const char* p = from + static_cast<ptrdiff_t>(r) * row_stride;
    size_t g = r < whole_rows ? whole : 0;
    char* to = out + g * line + r * kGroupBytes;
    for (; (g + 1) * kGroupBytes <= bytes; ++g, to += line) __builtin_memcpy(to, p + g * kGroupBytes, kGroupBytes);
    size_t i = g * kGroupBytes;
    for (; i + 2 <= bytes; i += 2) __builtin_memcpy(to + (i - g * kGroupBytes), p + i, 2);
    if (i < bytes) to[i - g * kGroupBytes] = p[i];
  }
}

}  // namespace
}  // namespace quern::ukernel
