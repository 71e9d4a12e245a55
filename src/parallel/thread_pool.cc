#include "parallel/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "parallel/region.h"

namespace quern {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int64_t kDefaultSpinNs = 50'000;
// Regions that can have helpers at once; further callers run theirs alone.
constexpr int kMaxRegions = 16;

using Clock = std::chrono::steady_clock;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // `yield` is a no-op on most cores; isb waits about as long as x86's pause
#endif
}

// Spins until ready() or for spin_ns; returns the last ready().
template <typename Ready>
bool SpinUntil(int64_t spin_ns, Ready ready) {
  if (ready()) return true;
  if (spin_ns <= 0) return false;
  const Clock::time_point deadline = Clock::now() + std::chrono::nanoseconds(spin_ns);
  do {
    for (int i = 0; i < 8; ++i) {
      Pause();
      if (ready()) return true;
    }
  } while (Clock::now() < deadline);
  return false;
}

}  // namespace

struct ThreadPool::Worker {
  enum State : int { kBusy, kSpinning, kSleeping };

  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> state{kBusy};
};

// A place for a running region. Places live as long as the pool, so that a late worker never touches freed memory; the
// bit kOpen of state and the count of attached workers decide who may read the rest.
struct ThreadPool::Region {
  static constexpr uint32_t kOpen = 1u << 31;     // workers may attach
  static constexpr uint32_t kWaiting = 1u << 30;  // the caller sleeps until the last worker detaches
  static constexpr uint32_t kCount = kWaiting - 1;

  alignas(64) std::atomic<uint32_t> state{0};
  std::atomic<bool> in_use{false};
  RegionWork work;
  std::unique_ptr<SlotShare[]> shares;
  std::mutex mutex;
  std::condition_variable done;

  bool Attach() {
    uint32_t s = state.load(std::memory_order_relaxed);
    while (s & kOpen) {
      if (state.compare_exchange_weak(s, s + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  void Detach() {
    const uint32_t before = state.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kCount) != 1 || !(before & kWaiting)) return;
    // The caller may be gone already and the place in use again: then this wakes somebody who looks and sleeps on.
    {
      const std::lock_guard lock(mutex);
    }
    done.notify_all();
  }

  // Lets no more workers in and waits for those inside.
  void CloseAndWait(int64_t spin_ns) {
    if ((state.fetch_and(~kOpen, std::memory_order_acq_rel) & kCount) == 0) return;
    const auto left = [this] { return (state.load(std::memory_order_acquire) & kCount) == 0; };
    if (SpinUntil(spin_ns, left)) return;
    std::unique_lock lock(mutex);
    state.fetch_or(kWaiting, std::memory_order_acq_rel);
    done.wait(lock, left);
  }
};

ThreadPool::ThreadPool(const ThreadPoolOptions& options, const Topology& topology)
    : spin_ns_(options.spin_ns < 0 ? kDefaultSpinNs : options.spin_ns) {
  const int threads = std::clamp(options.threads > 0 ? options.threads : topology.default_threads, 1, kMaxThreads);
  if (threads > topology.running_cpus) spin_ns_.store(0, std::memory_order_relaxed);
  regions_.reserve(kMaxRegions);
  for (int i = 0; i < kMaxRegions && threads > 1; ++i) {
    auto region = std::make_unique<Region>();
    region->shares = std::make_unique<SlotShare[]>(static_cast<size_t>(threads));
    regions_.push_back(std::move(region));
  }
  for (int i = 1; i < threads; ++i) workers_.push_back(std::make_unique<Worker>());

  // Workers inherit this mask: the program's signals go to the program's threads. Faults stay where they happen.
  sigset_t blocked, previous;
  sigfillset(&blocked);
  for (int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  int started = 0;
  try {
    for (; started < threads - 1; ++started) {
      workers_[static_cast<size_t>(started)]->thread = std::thread([this, started] { RunWorker(started); });
    }
  } catch (const std::system_error&) {
    // The limit on threads is reached; those that run are the pool. The others' places stay, unused: workers that run
    // never look at them, and callers only look at the first concurrency_ - 1.
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  concurrency_ = started + 1;
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_seq_cst);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  WakeWorkers(concurrency_ - 1);  // all are idle or will look at stop_ next
  for (int i = 0; i < concurrency_ - 1; ++i) workers_[static_cast<size_t>(i)]->thread.join();
}

ThreadPool::Region* ThreadPool::ClaimRegion() {
  for (const auto& region : regions_) {
    if (!region->in_use.load(std::memory_order_relaxed) && !region->in_use.exchange(true, std::memory_order_acquire)) {
      return region.get();
    }
  }
  return nullptr;
}

Status ThreadPool::ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel, int max_slots) {
  if (grain < 1) grain = 1;
  const int64_t units = CeilDiv(total < 0 ? 0 : total, grain);
  const int slots = static_cast<int>(std::min<int64_t>(SlotCount(max_slots), units));
  const bool nested = RegionScope::Inside(this);
  const RegionScope scope(this);
  Region* region = slots > 1 && !nested ? ClaimRegion() : nullptr;
  if (!region) return RunInline(total, grain, task, cancel);

  region->work.Begin(total, grain, &task, cancel, slots, region->shares.get());
  const int own = region->work.TakeSlot(0);
  region->state.store(Region::kOpen, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  WakeWorkers(slots - 1);
  region->work.Participate(own);
  region->CloseAndWait(spin_ns());
  region->in_use.store(false, std::memory_order_release);
  return RegionStatus(cancel);
}

void ThreadPool::WakeWorkers(int count) {
  // From the first worker on, so that a region on a subset meets the same ones each time. One that spins comes by
  // itself; one that is busy may come later, so another is woken in its place.
  for (int i = 0; i < concurrency_ - 1 && count > 0; ++i) {
    Worker& w = *workers_[static_cast<size_t>(i)];
    const int state = w.state.load(std::memory_order_seq_cst);
    if (state == Worker::kBusy) continue;
    --count;
    if (state == Worker::kSpinning) continue;
    {
      const std::lock_guard lock(w.mutex);
    }
    w.wake.notify_one();
  }
}

void ThreadPool::RunWorker(int index) {
  pthread_setname_np(pthread_self(), ("quern-" + std::to_string(index + 1)).c_str());  // at most 15 characters fit
  const RegionScope scope(this);
  Worker& worker = *workers_[static_cast<size_t>(index)];
  while (!stop_.load(std::memory_order_acquire)) {
    const uint32_t seen = epoch_.load(std::memory_order_seq_cst);
    if (!HelpRegions(index + 1)) AwaitWork(worker, seen);
  }
}

bool ThreadPool::HelpRegions(int preferred_slot) {
  bool helped = false;
  for (const auto& region : regions_) {
    if (!region->Attach()) continue;
    const int slot = region->work.TakeSlot(preferred_slot);
    if (slot >= 0) {
      region->work.Participate(slot);
      helped = true;
    }
    region->Detach();
  }
  return helped;
}

void ThreadPool::AwaitWork(Worker& worker, uint32_t seen) {
  const auto changed = [&] { return epoch_.load(std::memory_order_seq_cst) != seen; };
  worker.state.store(Worker::kSpinning, std::memory_order_relaxed);
  if (!SpinUntil(spin_ns(), changed)) {
    std::unique_lock lock(worker.mutex);
    // The order matters, and is why these are seq_cst: a caller first moves the epoch and then looks who sleeps; a
    // worker first says that it sleeps and then looks at the epoch. One of the two sees the other.
    worker.state.store(Worker::kSleeping, std::memory_order_seq_cst);
    worker.wake.wait(lock, changed);
  }
  worker.state.store(Worker::kBusy, std::memory_order_relaxed);
}

}  // namespace quern
