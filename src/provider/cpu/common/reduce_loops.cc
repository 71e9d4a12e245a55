#include "provider/cpu/common/reduce_loops.h"

#include <utility>

namespace quern::cpu {

ReduceLoops MakeLoops(const Shape& shape, const std::vector<bool>& reduced) {
  struct Group {
    int64_t extent, stride;
    bool reduced;
  };
  std::vector<Group> groups;
  const Shape strides = shape.ContiguousStrides();
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[d]) {
      groups.back() = {groups.back().extent * shape[d], strides[d], reduced[d]};
    } else {
      groups.push_back({shape[d], strides[d], reduced[d]});
    }
  }
  ReduceLoops loops;
  if (!groups.empty()) {
    (groups.back().reduced ? loops.run : loops.columns) = groups.back().extent;
    groups.pop_back();
  }
  loops.offsets = {0};
  for (const Group& g : groups) {
    if (!g.reduced) {
      loops.outer.push_back(g.extent);
      loops.outer_strides.push_back(g.stride);
      continue;
    }
    std::vector<ptrdiff_t> more;
    more.reserve(loops.offsets.size() * static_cast<size_t>(g.extent));
    for (ptrdiff_t o : loops.offsets) {
      for (int64_t i = 0; i < g.extent; ++i) more.push_back(o + i * g.stride);
    }
    loops.offsets = std::move(more);
  }
  return loops;
}

int64_t OuterOffset(const ReduceLoops& loops, int64_t index) {
  int64_t at = 0;
  for (int d = loops.outer.rank() - 1; d > 0; --d) {
    at += index % loops.outer[d] * loops.outer_strides[d];
    index /= loops.outer[d];
  }
  return loops.outer.rank() > 0 ? at + index * loops.outer_strides[0] : at;
}

}  // namespace quern::cpu
