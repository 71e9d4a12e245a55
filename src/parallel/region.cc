#include "parallel/region.h"

namespace quern {

thread_local constinit const RegionScope* RegionScope::innermost_ = nullptr;

void RegionWork::Begin(int64_t total, int64_t grain, const Task* task, const CancelToken* cancel, int slots,
                       SlotShare* shares) {
  const int64_t units = CeilDiv(total, grain);
  total_ = total;
  grain_ = grain;
  chunks_ = units < slots * kChunksPerSlot ? units : slots * kChunksPerSlot;
  task_ = task;
  cancel_ = cancel;
  slots_ = slots;
  shares_ = shares;
  for (int s = 0; s < slots; ++s) {
    const IndexRange part = EvenPart(chunks_, slots, s);
    shares[s].next.store(part.begin, std::memory_order_relaxed);
    shares[s].end = part.end;
    shares[s].taken.store(false, std::memory_order_relaxed);
  }
}

int RegionWork::TakeSlot(int preferred) {
  const int first = preferred >= 0 && preferred < slots_ ? preferred : 0;
  for (int i = 0; i < slots_; ++i) {
    const int s = first + i < slots_ ? first + i : first + i - slots_;
    if (!shares_[s].taken.load(std::memory_order_relaxed) &&
        !shares_[s].taken.exchange(true, std::memory_order_acq_rel)) {
      return s;
    }
  }
  return -1;
}

bool RegionWork::Drain(SlotShare& share, int slot) {
  // The load spares the counter from running on without bound.
  while (share.next.load(std::memory_order_relaxed) < share.end) {
    if (cancelled()) return false;
    const int64_t chunk = share.next.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= share.end) break;
    const IndexRange items = EvenPart(total_, chunks_, chunk, grain_);
    (*task_)(slot, items.begin, items.end);
  }
  return true;
}

void RegionWork::Participate(int slot) {
  for (int i = 0; i < slots_; ++i) {
    const int victim = slot + i < slots_ ? slot + i : slot + i - slots_;
    if (!Drain(shares_[victim], slot)) return;
  }
}

Status RegionStatus(const CancelToken* cancel) {
  return cancel && cancel->cancelled() ? Cancelled("the run was cancelled") : OkStatus();
}

Status RunInline(int64_t total, int64_t grain, Task task, const CancelToken* cancel) {
  if (total <= 0) return RegionStatus(cancel);
  if (!cancel) {
    task(0, 0, total);
    return OkStatus();
  }
  // In pieces, so that cancelling takes effect; about as many as a region over several slots would have.
  constexpr int64_t kPieces = 16;
  const int64_t units = CeilDiv(total, grain < 1 ? 1 : grain);
  const int64_t pieces = units < kPieces ? units : kPieces;
  for (int64_t i = 0; i < pieces && !cancel->cancelled(); ++i) {
    const IndexRange items = EvenPart(total, pieces, i, grain < 1 ? 1 : grain);
    task(0, items.begin, items.end);
  }
  return RegionStatus(cancel);
}

Status InlineExecutor::ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel, int) {
  return RunInline(total, grain, task, cancel);
}

}  // namespace quern
