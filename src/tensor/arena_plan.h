// Arena planning: offsets in one block of memory for buffers with known lifetimes.
#pragma once

#include <cstddef>
#include <span>

namespace quern {

struct ArenaBuffer {
  size_t bytes = 0;
  int first = 0, last = 0;  // steps, inclusive, during which the content must stay
  size_t offset = 0;        // set by PlanArena
};

// Gives every buffer an offset (a multiple of 64) so that buffers alive in a common step do not overlap, largest first
// into the lowest gap that fits. Returns the bytes of the arena. Buffers of a page or more start off multiples of 4096,
// and up to 63 of them that are alive together start at different offsets within a page (equal ones collide in the
// first-level cache).
size_t PlanArena(std::span<ArenaBuffer> buffers);

}  // namespace quern
