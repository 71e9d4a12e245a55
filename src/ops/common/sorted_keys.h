// Sorting of numbers of any type by keys that compare as they do.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/float16.h"

namespace quern {

struct KeyedIndex {
  uint64_t key;
  int64_t index;
};

// Keys of a type have as many bytes as its elements, those of 16-bit floats 4.
template <typename T>
inline constexpr int kKeyBytes = std::is_arithmetic_v<T> ? static_cast<int>(sizeof(T)) : 4;

// Smaller for smaller numbers, equal for equal ones; that of every NaN is the greatest.
template <typename T>
uint64_t OrderedKey(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    const Bits bits = x == 0 ? 0 : std::bit_cast<Bits>(x);
    const Bits key = bits ^ (bits & kSign ? ~Bits{0} : kSign);
    return x != x ? ~Bits{0} : key;
  } else if constexpr (!std::is_arithmetic_v<T>) {
    return OrderedKey(static_cast<float>(x));
  } else if constexpr (std::is_signed_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<Bits>(static_cast<Bits>(x) ^ (Bits{1} << (8 * sizeof(T) - 1)));
  } else {
    return x;
  }
}

// By rising keys, of equal ones in the order they come. `spare` has room for n. Keys have key_bytes.
void SortByKey(KeyedIndex* entries, KeyedIndex* spare, int64_t n, int key_bytes);

}  // namespace quern
