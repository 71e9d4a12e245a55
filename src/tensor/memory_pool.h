// MemoryPool: memory of tensors whose size only a run tells, kept for the next ones. The C library gives large blocks
// back to the system, which then clears and maps each page anew.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"

namespace quern {

// Thread-safe. What is in use and what is kept together are never more than was in use at once.
class MemoryPool {
 public:
  // Owned memory, aligned for vectors, of the pool that it goes back to.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Block& operator=(Block&& other) noexcept {
      std::swap(data_, other.data_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Block();
    void* data() const { return data_; }

   private:
    friend class MemoryPool;
    Block(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
    void* data_ = nullptr;
    size_t bytes_ = 0;  // as allocated
  };

  // Blocks smaller than this are the C library's alone, which keeps them itself.
  static constexpr size_t kLeastKept = size_t{64} << 10;

  // At least `bytes` bytes, with the rest of the last line; kResourceExhausted, naming the size, when there is no
  // memory. Contents are unspecified.
  Result<Block> Take(size_t bytes);
  void GiveBack(Block block);
  size_t kept_bytes() const;

 private:
  Block FindKept(size_t bytes);

  mutable std::mutex mutex_;
  std::vector<Block> kept_;  // the last ones given back at the end
  size_t kept_bytes_ = 0, used_bytes_ = 0, most_used_bytes_ = 0;
};

}  // namespace quern
