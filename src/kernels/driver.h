// What the operator drivers share: counters, options, batch dimensions, and the conventions of their arguments.
// Drivers are immutable after creation; Plan decides for one set of shapes, Run allocates nothing and may be called by
// several threads at once, each with its own workspace.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu_features.h"
#include "base/status.h"
#include "kernels/select.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "ukernel/epilogue.h"

namespace quern::kernels {

using ukernel::EpilogueOp;

// Filled by runs that are given one; tests and `explain` read it.
struct DriverCounters {
  std::atomic<uint64_t> kernel_calls{0};
  std::atomic<uint64_t> transforms{0};       // block transforms run: one per (tile of columns, K block), whatever M
  std::atomic<uint64_t> transform_bytes{0};  // bytes of transformed panels written
  std::atomic<uint64_t> lhs_packed_bytes{0};
  std::atomic<uint64_t> rhs_packed_bytes{0};  // run-time right sides
  std::atomic<uint64_t> regions{0};           // parallel regions
  std::atomic<uint64_t> modes_entered{0};     // by rows that need a mode: at most one per worker and region
  std::atomic<uint64_t> images_summed{0};     // integer convolutions: an image's group, for weight zero points
  std::atomic<uint64_t> split_fallbacks{0};   // blocks that ran on FMA because a bf16 split was unsafe
};

inline constexpr size_t kMaxBatchDims = 6;

// One batch dimension: distances in bytes from one entry to the next; 0 repeats (broadcast).
struct BatchDim {
  size_t count = 1;
  ptrdiff_t lhs = 0;
  ptrdiff_t rhs = 0;  // run-time right side; for packed ones, in entries of PackedRhs (0 or a count of batches)
  ptrdiff_t dst = 0;
  ptrdiff_t ops[ukernel::kMaxEpilogueOps] = {};  // of each epilogue operand's `data`, of reductions' `out`
};

// What every Run takes besides its operands.
struct RunResources {
  Executor* executor = nullptr;         // at most the concurrency planned for is used
  const CancelToken* cancel = nullptr;  // may be null
  void* workspace = nullptr;            // 64-byte aligned
  size_t workspace_bytes = 0;
  DriverCounters* counters = nullptr;  // may be null
};

// [0, total) in pieces of at least `grain` over at most `slots` slots, each with scratch of its own; f(slot, begin,
// end). One slot runs on the calling thread, in pieces only where it may be cancelled.
template <class F>
Status ForEachBySlot(const RunResources& r, int slots, size_t total, size_t grain, F f) {
  const auto task = [&](int slot, int64_t begin, int64_t end) {
    f(static_cast<size_t>(slot), static_cast<size_t>(begin), static_cast<size_t>(end));
  };
  if (slots <= 1 && !r.cancel) {
    f(size_t{0}, size_t{0}, total);
    return OkStatus();
  }
  InlineExecutor self;
  Executor& executor = slots > 1 ? *r.executor : static_cast<Executor&>(self);
  if (r.counters && slots > 1) r.counters->regions.fetch_add(1, std::memory_order_relaxed);
  return executor.ParallelFor(static_cast<int64_t>(total), static_cast<int64_t>(grain), task, r.cancel, slots);
}

// [0, total) in pieces of at least `grain` over at most `slots` slots; f(begin, end).
template <class F>
Status ForEach(const RunResources& r, int slots, size_t total, size_t grain, F f) {
  if (slots <= 1 || total <= grain) {
    f(size_t{0}, total);
    return OkStatus();
  }
  if (r.counters) r.counters->regions.fetch_add(1, std::memory_order_relaxed);
  return r.executor->ParallelFor(
      static_cast<int64_t>(total), static_cast<int64_t>(grain),
      [&](int, int64_t begin, int64_t end) { f(static_cast<size_t>(begin), static_cast<size_t>(end)); }, r.cancel,
      slots);
}

}  // namespace quern::kernels
