#include "tensor/memory_budget.h"

#include <string>
#include <utility>

#include "tensor/small_memory.h"

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

namespace {

// A part of a budget, for as long as somebody holds it.
struct Charged {
  Charged(std::shared_ptr<MemoryBudget> b, size_t n) : budget(std::move(b)), bytes(n) {}
  Charged(const Charged&) = delete;
  Charged& operator=(const Charged&) = delete;
  ~Charged() { budget->Release(bytes); }

  std::shared_ptr<MemoryBudget> budget;
  size_t bytes;
};

struct ChargedBlock : Charged {
  using Charged::Charged;
  ~ChargedBlock() { budget->pool().GiveBack(std::move(memory)); }
  MemoryPool::Block memory;
};

}  // namespace

Result<Tensor> AllocateCharged(const std::shared_ptr<MemoryBudget>& budget, DType dtype, const Shape& shape) {
  QUERN_ASSIGN_OR_RETURN(const size_t bytes, TensorBytes(dtype, shape));
  QUERN_RETURN_IF_ERROR(budget->Charge(bytes));
  constexpr size_t kLine = 64;
  if (const size_t padded = (bytes / kLine + 1) * kLine; padded < kSmallMemoryBytes) {
    void* data = nullptr;
    std::shared_ptr<Charged> owner = ShareWithMemory<Charged>(padded, &data, budget, bytes);
    return Tensor::Wrap(dtype, shape, data, std::move(owner));
  }
  auto owner = std::make_shared<ChargedBlock>(budget, bytes);
  Result<MemoryPool::Block> memory = budget->pool().Take(bytes);
  if (!memory.ok()) return memory.status().WithContext("a tensor of shape " + shape.ToString());
  owner->memory = std::move(memory).value();
  void* data = owner->memory.data();
  return Tensor::Wrap(dtype, shape, data, std::move(owner));
}

}  // namespace quern
