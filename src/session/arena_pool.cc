#include "session/arena_pool.h"

#include <algorithm>
#include <utility>

namespace quern {

Result<AlignedBuffer> ArenaPool::Take(size_t bytes) {
  AlignedBuffer small;  // makes room for the one that is needed
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::find_if(idle_, [&](const AlignedBuffer& a) { return a.size_bytes() >= bytes; });
    if (fits != idle_.end()) {
      AlignedBuffer arena = std::move(*fits);
      idle_.erase(fits);
      return arena;
    }
    if (!idle_.empty()) {
      small = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  small = {};
  return AlignedBuffer::Allocate(bytes, {.huge_pages = true});
}

void ArenaPool::GiveBack(AlignedBuffer arena) {
  if (arena.data() == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto after =
      std::ranges::find_if(idle_, [&](const AlignedBuffer& a) { return a.size_bytes() >= arena.size_bytes(); });
  idle_.insert(after, std::move(arena));
}

}  // namespace quern
