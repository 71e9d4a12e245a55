// MemoryBudget: how many bytes a run, or the weights of a session, may hold at once, and how many they do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "tensor/memory_pool.h"
#include "tensor/tensor.h"

namespace quern {

// Thread-safe: a tensor may be let go of on any thread.
class MemoryBudget {
 public:
  // Memory comes from the pool, which several budgets may have (null: a pool of its own).
  explicit MemoryBudget(int64_t limit_bytes, std::shared_ptr<MemoryPool> pool = nullptr);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // kResourceExhausted, with the numbers, when more than the limit would be held; nothing is charged then.
  Status Charge(size_t bytes);
  void Release(size_t bytes) { held_bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }
  MemoryPool& pool() { return *pool_; }
  int64_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }

 private:
  const int64_t limit_bytes_;
  const std::shared_ptr<MemoryPool> pool_;
  std::atomic<int64_t> held_bytes_{0};
};

// As Tensor::Allocate. The bytes count against the budget until the last view of the memory is gone.
Result<Tensor> AllocateCharged(const std::shared_ptr<MemoryBudget>& budget, DType dtype, const Shape& shape);

}  // namespace quern
