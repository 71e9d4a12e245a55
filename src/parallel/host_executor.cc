#include "parallel/host_executor.h"

#include <algorithm>

#include "base/check.h"
#include "parallel/region.h"

namespace quern {

HostExecutor::HostExecutor(const HostParallel& host)
    : host_(host), concurrency_(std::clamp<int>(host.concurrency, 1, kMaxSlots)) {
  QUERN_CHECK(host.parallel_for, "a host executor needs its parallel_for");
}

Status HostExecutor::ParallelFor(int64_t total, int64_t grain, Task task, const CancelToken* cancel, int max_slots) {
  if (grain < 1) grain = 1;
  const int64_t units = CeilDiv(total < 0 ? 0 : total, grain);
  const int slots = static_cast<int>(std::min<int64_t>(SlotCount(max_slots), units));
  const bool nested = RegionScope::Inside(this);
  const RegionScope scope(this);
  if (slots <= 1 || nested) return RunInline(total, grain, task, cancel);

  struct Shared {
    const HostExecutor* executor;
    RegionWork work;
    SlotShare shares[kMaxSlots];
  } shared{this, {}, {}};
  shared.work.Begin(total, grain, &task, cancel, slots, shared.shares);
  host_.parallel_for(
      host_.context,
      [](void* context, int64_t i) {
        Shared& s = *static_cast<Shared*>(context);
        const RegionScope inside(s.executor);
        // The index only says which rows come first. A host that repeats one, or makes one up, does no harm.
        const int slot = s.work.TakeSlot(static_cast<int>(std::clamp<int64_t>(i, 0, kMaxSlots)));
        if (slot >= 0) s.work.Participate(slot);
      },
      &shared, slots);
  // All bodies have ended, so every slot is free again; what the host left out is done here.
  shared.work.Participate(0);
  return RegionStatus(cancel);
}

}  // namespace quern
