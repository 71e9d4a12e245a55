// ArenaPool: memory that runs of an executable take one after another, whatever plan they have.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/aligned_buffer.h"

namespace quern {

// Thread-safe. Holds as many arenas as runs went at once, each as large as the largest that was asked for in its place:
// the plans that are kept for many shapes hold none.
class ArenaPool {
 public:
  // At least `bytes`; contents are unspecified. Allocates nothing where a kept one is large enough.
  Result<AlignedBuffer> Take(size_t bytes);
  void GiveBack(AlignedBuffer arena);

 private:
  std::mutex mutex_;
  std::vector<AlignedBuffer> idle_;  // ascending
};

}  // namespace quern
