#include "tensor/memory_budget.h"

#include <string>

namespace quern {

MemoryBudget::MemoryBudget(int64_t limit_bytes, std::shared_ptr<MemoryPool> pool)
    : limit_bytes_(limit_bytes), pool_(pool ? std::move(pool) : std::make_shared<MemoryPool>()) {}

Status MemoryBudget::Charge(size_t bytes) {
  const auto more = static_cast<int64_t>(bytes);
  const int64_t held = held_bytes_.fetch_add(more, std::memory_order_relaxed);
  if (more <= limit_bytes_ && held <= limit_bytes_ - more) return OkStatus();
  Release(bytes);
  return ResourceExhausted(std::to_string(bytes) + " bytes more than the " + std::to_string(held) +
                           " held would pass the limit of " + std::to_string(limit_bytes_) + " bytes");
}

Result<Tensor> AllocateCharged(const std::shared_ptr<MemoryBudget>& budget, DType dtype, const Shape& shape) {
  QUERN_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(dtype, shape));
  QUERN_RETURN_IF_ERROR(budget->Charge(bytes));
  struct Charged {
    std::shared_ptr<MemoryBudget> budget;
    size_t bytes;
    MemoryPool::Block memory;
    Charged(std::shared_ptr<MemoryBudget> b, size_t n) : budget(std::move(b)), bytes(n) {}
    Charged(const Charged&) = delete;
    Charged& operator=(const Charged&) = delete;
    ~Charged() {
      budget->Release(bytes);
      budget->pool().GiveBack(std::move(memory));
    }
  };
  auto charged = std::make_shared<Charged>(budget, bytes);
  Result<MemoryPool::Block> memory = budget->pool().Take(bytes);
  if (!memory.ok()) return memory.status().WithContext("a tensor of shape " + shape.ToString());
  charged->memory = std::move(memory).value();
  void* data = charged->memory.data();
  return Tensor::Wrap(dtype, shape, data, std::move(charged));
}

}  // namespace quern
