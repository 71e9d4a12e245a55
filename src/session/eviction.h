// Eviction: which of the plans that are kept makes room for a new one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace quern {

// How many plans are kept of `nodes` nodes where one run may ask for several: more than a session keeps of its whole
// graph, `plan_cache_size`, while they are small.
inline size_t PlansKeptWithinARun(int plan_cache_size, size_t nodes) {
  constexpr size_t kFewNodes = 64, kTimes = 4;
  return static_cast<size_t>(std::max(plan_cache_size, 1)) * (nodes <= kFewNodes ? kTimes : 1);
}

// One of the half that was not used for longest. Always the oldest would be the next one wanted where shapes come round
// and round, as a state that grows in a loop has them, and are more than are kept.
class Eviction {
 public:
  // Its index of `count`, of which the first was used last.
  size_t Pick(size_t count) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return count - 1 - static_cast<size_t>((state_ >> 33) % ((count + 1) / 2));
  }

 private:
  uint64_t state_ = 0;
};

}  // namespace quern
