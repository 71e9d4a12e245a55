// What the back ends of Executor share: the cut of a region into chunks, their distribution, and nesting.
#pragma once

#include <atomic>
#include <cstdint>

#include "parallel/executor.h"
#include "parallel/partition.h"

namespace quern {

// The chunks of one slot: [next, end). Its owner takes from it, and so does a helper that has run out of its own.
struct alignas(64) SlotShare {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
  std::atomic<bool> taken{false};
};

// A region's items as chunks, split statically over slots (so that the same rows stay on the same core from one region
// to the next) with helping. Begin happens before every Participate; participants may come late or not at all.
class RegionWork {
 public:
  // Chunks per slot: enough that a slow core can be helped, few enough that their cost does not show.
  static constexpr int64_t kChunksPerSlot = 6;

  // shares: at least `slots` of them, owned by the caller. total, grain and slots are at least 1.
  void Begin(int64_t total, int64_t grain, const Task* task, const CancelToken* cancel, int slots, SlotShare* shares);

  int slots() const { return slots_; }

  // Takes a free slot, `preferred` if it can be had; -1 when all are taken. A slot stays taken to the region's end.
  int TakeSlot(int preferred);
  // Runs chunks under a slot that the caller took: its own, then what others have left; returns when none is left to
  // take (others may still run theirs) or the token is set.
  void Participate(int slot);

  bool cancelled() const { return cancel_ && cancel_->cancelled(); }

 private:
  // Runs chunks of `share` until it is empty (true) or the token is set (false).
  bool Drain(SlotShare& share, int slot);

  int64_t total_ = 0;
  int64_t grain_ = 1;
  int64_t chunks_ = 0;
  const Task* task_ = nullptr;
  const CancelToken* cancel_ = nullptr;
  int slots_ = 0;
  SlotShare* shares_ = nullptr;
};

// Marks the calling thread as being inside a region of an executor, for the scope's life.
class RegionScope {
 public:
  explicit RegionScope(const Executor* executor) : executor_(executor), outer_(innermost_) { innermost_ = this; }
  ~RegionScope() { innermost_ = outer_; }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

  static bool Inside(const Executor* executor) {
    for (const RegionScope* s = innermost_; s; s = s->outer_) {
      if (s->executor_ == executor) return true;
    }
    return false;
  }

 private:
  static thread_local constinit const RegionScope* innermost_;
  const Executor* executor_;
  const RegionScope* outer_;
};

// The whole region on the calling thread, in order, with slot 0. Without a token it is one call.
Status RunInline(int64_t total, int64_t grain, Task task, const CancelToken* cancel);

// The status of a region whose token may be set.
Status RegionStatus(const CancelToken* cancel);

}  // namespace quern
