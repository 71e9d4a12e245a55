// FlushingExecutor: another executor whose tasks flush denormal numbers, and work that is done so.
#pragma once

#include "base/denormals.h"
#include "parallel/executor.h"

namespace quern {

// Without state of its own: made per run. `inner` must outlive it.
class FlushingExecutor final : public Executor {
 public:
  explicit FlushingExecutor(Executor& inner) : inner_(inner) {}

  int concurrency() const override { return inner_.concurrency(); }
  Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel, int max_slots) override {
    auto flushing = [task](int slot, int64_t begin, int64_t end) {
      const DenormalFlushScope flush;
      task(slot, begin, end);
    };
    return inner_.ParallelFor(total, grain, flushing, cancel, max_slots);
  }

 private:
  Executor& inner_;
};

// run(executor), where the calling thread and the tasks of that executor, which are `inner`'s, flush denormals.
template <class F>
auto WithDenormalsFlushed(Executor& inner, F run) {
  FlushingExecutor flushing(inner);
  const DenormalFlushScope flush;
  return run(flushing);
}

}  // namespace quern
