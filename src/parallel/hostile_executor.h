// HostileExecutor: for tests; does everything that the Executor's contract permits and a kind pool does not do.
#pragma once

#include <cstdint>
#include <mutex>
#include <random>

#include "parallel/executor.h"

namespace quern {

// Cuts each region at random multiples of the grain, runs the pieces one after the other in random order, some on the
// calling thread and some on threads made for one piece, each with a random slot. The same seed and the same sequence
// of regions give the same cuts. Slow, and it allocates.
class HostileExecutor final : public Executor {
 public:
  explicit HostileExecutor(uint64_t seed, int concurrency = 5);

  int concurrency() const override { return concurrency_; }
  Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel = nullptr,
                     int max_slots = 0) override;

 private:
  int64_t Draw(int64_t below);  // uniform in [0, below)

  int concurrency_;
  std::mutex mutex_;
  std::mt19937_64 random_;
};

}  // namespace quern
