// The end of a row of bytes that is no whole vector, read within the row. For kernel files of x86-64 only.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace quern::ukernel {
namespace {

// The last `rest` (1 to 15) bytes before `end` of a row that has `whole` of them; zeros behind.
inline __m128i LastBytes(const char* end, size_t rest, size_t whole) {
  if (whole >= 16) {
    alignas(32) static constexpr int8_t kForward[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(end - 16)),
                            _mm_loadu_si128(reinterpret_cast<const __m128i*>(kForward + 16 - rest)));
  }
  const char* from = end - rest;  // all of the row
  if (rest >= 8) {
    uint64_t low, high;
    __builtin_memcpy(&low, from, 8);
    __builtin_memcpy(&high, end - 8, 8);
    high = high >> (8 * (15 - rest)) >> 8;
    return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
  }
  uint64_t x = 0;
  if (rest >= 4) {
    uint32_t low, high;
    __builtin_memcpy(&low, from, 4);
    __builtin_memcpy(&high, end - 4, 4);
    x = low | (uint64_t{high} >> (8 * (8 - rest)) << 32);
  } else {
    for (size_t i = 0; i < rest; ++i) x |= uint64_t{static_cast<uint8_t>(from[i])} << (8 * i);
  }
  return _mm_cvtsi64_si128(static_cast<int64_t>(x));
}

}  // namespace
}  // namespace quern::ukernel
