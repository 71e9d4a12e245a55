// ThreadPool: the default Executor, Quern's own small pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/executor.h"
#include "parallel/topology.h"

namespace quern {

struct ThreadPoolOptions {
  int threads = 0;           // slots, the caller's included; 0: the topology's default_threads
  int64_t spin_ns = 50'000;  // how long an idle worker looks for work before it sleeps; < 0 means this default
};

// threads - 1 workers; the calling thread of a region is its first participant. Each region is split statically over
// its slots; who has finished helps the others. An idle worker spins for spin_ns and then sleeps; with more threads
// than CPUs that can run at once (affinity, cgroup quota) nobody spins, because a spinning thread would keep a working
// one from its core. Regions of several callers run at once and share the workers. The destructor joins the workers; no
// region may be running then.
class ThreadPool final : public Executor {
 public:
  // Starts the workers. Where the system refuses some, the pool has fewer: concurrency() tells.
  explicit ThreadPool(const ThreadPoolOptions& options = {}) : ThreadPool(options, HostTopology()) {}
  ThreadPool(const ThreadPoolOptions& options, const Topology& topology);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int concurrency() const override { return concurrency_; }
  Status ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel = nullptr,
                     int max_slots = 0) override;

  // May be called at any time; 0 makes idle workers sleep at once.
  void SetSpin(int64_t spin_ns) { spin_ns_.store(spin_ns < 0 ? 0 : spin_ns, std::memory_order_relaxed); }
  int64_t spin_ns() const { return spin_ns_.load(std::memory_order_relaxed); }

 private:
  struct Worker;
  struct Region;

  void RunWorker(int index);
  // Joins regions until none has work for this worker; true if it took part in any.
  bool HelpRegions(int preferred_slot);
  // Until work may be there: spins, then sleeps. `seen` is the epoch before the last look at the regions.
  void AwaitWork(Worker& worker, uint32_t seen);
  void WakeWorkers(int count);
  Region* ClaimRegion();

  int concurrency_ = 1;
  std::atomic<int64_t> spin_ns_;
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> epoch_{0};  // counts regions opened: a change means that there may be work
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace quern
