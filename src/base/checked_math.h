// Checked arithmetic for sizes that come from files and callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace quern {

// a*b, a+b, a-b, a*b+c, or nothing when the result does not fit.
template <typename T>
std::optional<T> CheckedMul(T a, T b) {
  T r;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional<T>(r);
}
template <typename T>
std::optional<T> CheckedAdd(T a, T b) {
  T r;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional<T>(r);
}
template <typename T>
std::optional<T> CheckedSub(T a, T b) {
  T r;
  return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional<T>(r);
}
template <typename T>
std::optional<T> CheckedMulAdd(T a, T b, T c) {
  T r;
  return __builtin_mul_overflow(a, b, &r) || __builtin_add_overflow(r, c, &r) ? std::nullopt : std::optional<T>(r);
}
// Product of dims; nothing for a negative dim or an overflow. An empty span gives 1.
inline std::optional<int64_t> CheckedProduct(std::span<const int64_t> dims) {
  int64_t r = 1;
  bool zero = false;
  for (int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      zero = true;
      continue;
    }
    if (__builtin_mul_overflow(r, d, &r)) return std::nullopt;
  }
  return zero ? 0 : r;
}

}  // namespace quern
