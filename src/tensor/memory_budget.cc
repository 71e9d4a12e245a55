#include "tensor/memory_budget.h"

#include <string>

namespace quern {

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
    Tensor memory;
    Charged(std::shared_ptr<MemoryBudget> b, size_t n) : budget(std::move(b)), bytes(n) {}
    Charged(const Charged&) = delete;
    Charged& operator=(const Charged&) = delete;
    ~Charged() { budget->Release(bytes); }
  };
  auto charged = std::make_shared<Charged>(budget, bytes);
  QUERN_ASSIGN_OR_RETURN(charged->memory, Tensor::Allocate(dtype, shape));
  void* data = charged->memory.raw_data();
  return Tensor::Wrap(dtype, shape, data, std::move(charged));
}

}  // namespace quern
