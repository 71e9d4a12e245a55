#include "tensor/arena_plan.h"

#include <algorithm>
#include <vector>

namespace quern {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;

size_t RoundUp(size_t x, size_t to) { return (x + to - 1) / to * to; }

}  // namespace

size_t PlanArena(std::span<ArenaBuffer> buffers) {
  std::vector<size_t> order(buffers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  });
  std::vector<size_t> placed;  // by offset
  size_t total = 0;
  size_t stagger = 0;
  for (size_t i : order) {
    ArenaBuffer& b = buffers[i];
    const size_t bytes = RoundUp(std::max<size_t>(b.bytes, 1), kAlignment);
    // Eight distinct cache lines within a page are enough to keep neighbours apart.
    const size_t skew = b.bytes >= kPage ? kAlignment * (1 + stagger++ % 8) : 0;
    auto start_at = [&](size_t from) {
      const size_t at = RoundUp(from, kAlignment);
      return skew != 0 && at % kPage == 0 ? at + skew : at;
    };
    size_t at = start_at(0);
    for (size_t j : placed) {
      const ArenaBuffer& o = buffers[j];
      if (o.last < b.first || b.last < o.first) continue;
      if (at + bytes <= o.offset) break;
      at = std::max(at, start_at(o.offset + RoundUp(std::max<size_t>(o.bytes, 1), kAlignment)));
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
