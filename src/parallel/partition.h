// How work is cut: even parts, so that 49 rows in blocks of at most 8 are 7 x 7 and not 6 x 8 + 1.
#pragma once

#include <cstdint>

namespace quern {

struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

// Ceiling of a / b for a >= 0, b > 0, without overflow.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a == 0 ? 0 : (a - 1) / b + 1; }

// Part `index` of [0, total) cut in `parts` (at least 1) parts. Borders are multiples of unit (at least 1) but for
// total itself; sizes in units differ by at most one, the larger first. Parts beyond the work are empty.
constexpr IndexRange EvenPart(int64_t total, int64_t parts, int64_t index, int64_t unit = 1) {
  const int64_t units = CeilDiv(total, unit);
  const int64_t base = units / parts;
  const int64_t extra = units % parts;
  const int64_t first = base * index + (index < extra ? index : extra);
  const int64_t last = first + base + (index < extra ? 1 : 0);
  // The last unit may be cut, and first * unit can then lie past total only when the part is empty.
  const auto border = [&](int64_t u) { return u >= units ? total : u * unit; };
  return {border(first), border(last)};
}

// Size of the largest block when [0, total) is cut evenly in blocks of at most max_block items whose sizes are
// multiples of unit (max_block at least unit): EvenBlock(49, 8) == 7, EvenBlock(100, 48, 16) == 48.
constexpr int64_t EvenBlock(int64_t total, int64_t max_block, int64_t unit = 1) {
  const int64_t units = CeilDiv(total, unit);
  const int64_t max_units = max_block / unit < 1 ? 1 : max_block / unit;
  const int64_t blocks = CeilDiv(units, max_units);
  return blocks == 0 ? 0 : CeilDiv(units, blocks) * unit;
}

}  // namespace quern
