#include "tensor/memory_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#define QUERN_POISONS_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUERN_POISONS_MEMORY 1
#endif
#endif
#ifdef QUERN_POISONS_MEMORY
#include <sanitizer/asan_interface.h>
#endif

namespace quern {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

// What is kept is nobody's: the address sanitizer finds who uses it all the same.
void Poison([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef QUERN_POISONS_MEMORY
  __asan_poison_memory_region(data, bytes);
#endif
}
void Unpoison([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef QUERN_POISONS_MEMORY
  __asan_unpoison_memory_region(data, bytes);
#endif
}

// Sizes of which there are eight between powers of two, so that tensors that grow from run to run find their memory.
size_t Rounded(size_t bytes) {
  const size_t step = std::max(std::bit_floor(bytes) / 8, kAlignment);
  return (bytes + step - 1) / step * step;
}

}  // namespace

MemoryPool::Block::~Block() {
  if (data_) Unpoison(data_, bytes_);
  std::free(data_);
}

MemoryPool::Block MemoryPool::FindKept(size_t bytes) {
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const bool fits = it->bytes_ >= bytes && it->bytes_ / 2 <= bytes;
    if (fits && (best == kept_.end() || it->bytes_ <= best->bytes_)) best = it;
  }
  if (best == kept_.end()) return {};
  Block found = std::move(*best);
  kept_.erase(best);
  kept_bytes_ -= found.bytes_;
  Unpoison(found.data_, found.bytes_);
  return found;
}

Result<MemoryPool::Block> MemoryPool::Take(size_t bytes) {
  const auto allocate = [](size_t size) { return Block(std::aligned_alloc(kAlignment, size), size); };
  const auto exhausted = [bytes] { return ResourceExhausted("no memory for " + std::to_string(bytes) + " bytes"); };
  const size_t padded = (bytes / kAlignment + 1) * kAlignment;
  if (padded < kLeastKept) {
    Block small = allocate(padded);
    return small.data_ ? Result<Block>(std::move(small)) : exhausted();
  }
  std::vector<Block> freed;  // outside of the lock
  const std::lock_guard lock(mutex_);
  Block block = FindKept(padded);
  if (!block.data_) {
    block = allocate(Rounded(padded));
    if (!block.data_) {
      freed.swap(kept_);
      kept_bytes_ = 0;
      freed.clear();
      block = allocate(padded);
    }
    if (!block.data_) return exhausted();
  }
  used_bytes_ += block.bytes_;
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  while (kept_bytes_ + used_bytes_ > most_used_bytes_) {
    kept_bytes_ -= kept_.front().bytes_;
    freed.push_back(std::move(kept_.front()));
    kept_.erase(kept_.begin());
  }
  return block;
}

void MemoryPool::GiveBack(Block block) {
  if (block.bytes_ < kLeastKept) return;
  Poison(block.data_, block.bytes_);
  const std::lock_guard lock(mutex_);
  used_bytes_ -= block.bytes_;
  kept_bytes_ += block.bytes_;
  kept_.push_back(std::move(block));
}

size_t MemoryPool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace quern
