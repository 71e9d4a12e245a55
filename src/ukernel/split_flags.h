// Which float32 numbers lose more by a split in bf16 terms than a float32 loop loses: what the packers report as
// PackFlags, line by line (a row of the left side, a column of a K block). Kernel-safe.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/pack.h"

namespace quern::ukernel {

// Largest magnitudes of lines that are safe: products of two are then so far from the ends of the range that sums of
// 2^14 of them do not overflow, and that what AMX flushes of numbers, terms and products (below 2^-126) is nothing
// beside them.
static constexpr float kSplitLow = 0x1p-50f, kSplitHigh = 0x1p56f;

// Numbers that count beside the largest of their line: others are lost in its rounding.
static constexpr float kSplitNear = 0x1p-24f;

// A line of k numbers that has at least this many times its largest in all has more than k / 16 numbers that count, and
// two at least: no need to count them.
static inline float SplitPlenty(size_t k) { return static_cast<float>(k) / 12.0f + 2.0f; }

// Of a line of k numbers of which `near` count. The six products of three terms that are summed leave out up to a
// quarter of the rounding of each product, and a call rounds once more where it adds to the sums of the K before it:
// many numbers make up for it, as a loop rounds at each of them. One that is a bf16 (1, in rows that pick another)
// leaves out nothing.
static inline uint32_t FewFlags(size_t near, float largest, size_t k) {
  const size_t least = k / 512 > 1 ? k / 512 : 1;
  const bool exact = near == 1 && (LoadAs<uint32_t>(&largest) & 0xffffu) == 0;
  if (near <= least && !exact) return kPackSplitUnsafe;
  return near * 16 <= k ? kPackSplitFew : kPackFine;
}

// Of the line at(0) .. at(k - 1).
template <class At>
static inline uint32_t SplitFlags(size_t terms, size_t k, At at) {
  float largest = 0;
  for (size_t i = 0; i < k; ++i) {
    const float x = at(i);
    if (x != x) return kPackSplitUnsafe;
    if (__builtin_fabsf(x) > largest) largest = __builtin_fabsf(x);
  }
  if (largest == 0) return kPackFine;
  if (largest < kSplitLow || largest > kSplitHigh) return kPackSplitUnsafe;
  if (terms < 3) return kPackFine;
  size_t near = 0;
  for (size_t i = 0; i < k; ++i) near += __builtin_fabsf(at(i)) >= largest * kSplitNear ? 1 : 0;
  return FewFlags(near, largest, k);
}

}  // namespace quern::ukernel
