// HostExecutor: runs regions on a pool that the embedding program owns, through one C callback.
#pragma once

#include <cstdint>

#include "parallel/executor.h"

namespace quern {

// What a host supplies. The layout is part of the C ABI.
struct HostParallel {
  void* context;
  // Threads that may run bodies at once, at least 1. A hint: the host may use fewer, even none but the caller.
  int32_t concurrency;
  // Calls body(body_context, i) for i in [0, count), from any threads, in any order, all at once or one after the
  // other, and returns when all calls that it began have ended. It may leave calls out (a host whose workers are busy
  // or gone): the calling thread then does what is left. Must not throw.
  void (*parallel_for)(void* context, void (*body)(void* body_context, int64_t i), void* body_context, int64_t count);
};

// Cheap to make and without state of its own: a host whose pool exists only during a run makes one per run. Several
// threads may use one at once if the host's callback allows it.
class HostExecutor final : public Executor {
 public:
  // A region's state lies on the caller's stack, one cache line per slot; more than this many slots are not used.
  static constexpr int kMaxSlots = 64;

  // host.parallel_for must be set; the context must outlive this.
  explicit HostExecutor(const HostParallel& host);

  int concurrency() const override { return concurrency_; }
  Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel = nullptr,
                     int max_slots = 0) override;

 private:
  HostParallel host_;
  int concurrency_;
};

}  // namespace quern
