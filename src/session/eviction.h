// Eviction: which of the plans that are kept makes room for a new one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

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
