#include "tensor/arena_plan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace quern {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 64 * kAlignment;  // one bit per line of a page below

size_t RoundUp(size_t x, size_t to) { return (x + to - 1) / to * to; }
// What a buffer takes; an empty one has an address of its own too.
size_t TakenBytes(const ArenaBuffer& b) { return RoundUp(std::max<size_t>(b.bytes, 1), kAlignment); }
bool Meet(const ArenaBuffer& a, const ArenaBuffer& b) { return a.first <= b.last && b.first <= a.last; }
int PageLine(size_t offset) { return static_cast<int>(offset / kAlignment % 64); }

}  // namespace

size_t PlanArena(std::span<ArenaBuffer> buffers) {
  std::vector<size_t> order(buffers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  });
  std::vector<size_t> placed;  // by offset
  size_t total = 0;
  for (size_t i : order) {
    ArenaBuffer& b = buffers[i];
    const size_t bytes = TakenBytes(b);
    // Lines of a page where this buffer must not start: the first, and those where its large neighbours in time do.
    uint64_t lines = 0;
    if (b.bytes >= kPage) {
      lines = 1;
      for (size_t j : placed) {
        if (buffers[j].bytes >= kPage && Meet(buffers[j], b)) lines |= uint64_t{1} << PageLine(buffers[j].offset);
      }
      if (lines == ~uint64_t{0}) lines = 1;
    }
    auto start_at = [&](size_t from) {
      const size_t at = RoundUp(from, kAlignment);
      return at + kAlignment * static_cast<size_t>(std::countr_one(std::rotr(lines, PageLine(at))));
    };
    size_t at = start_at(0);
    for (size_t j : placed) {
      const ArenaBuffer& o = buffers[j];
      if (!Meet(o, b)) continue;
      if (at + bytes <= o.offset) break;
      at = std::max(at, start_at(o.offset + TakenBytes(o)));
    }
    b.offset = at;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t c) { return buffers[a].offset < buffers[c].offset; }),
                  i);
    total = std::max(total, at + bytes);
  }
  return total;
}

}  // namespace quern
