// AlignedBuffer: owned bytes, aligned for vector loads and AMX tiles, on huge pages when asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace quern {

// 64 bytes: a cache line, an AVX-512 register and a row of an AMX tile.
inline constexpr size_t kBufferAlignment = 64;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

struct BufferOptions {
  size_t alignment = kBufferAlignment;  // a power of two, at least sizeof(void*)
  bool huge_pages = false;              // advise 2 MB pages when the buffer has at least one; a hint, never an error
  bool zero = false;                    // contents are zero; else unspecified
};

// Move-only. The last cache line belongs wholly to the buffer: reading up to the next multiple of 64 bytes is in
// bounds.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBuffer();

  // kResourceExhausted, naming the size, when there is no memory. Zero bytes give a valid pointer that is not to be
  // read.
  static Result<AlignedBuffer> Allocate(size_t bytes, const BufferOptions& options = {});

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  size_t size_bytes() const { return size_; }

 private:
  AlignedBuffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quern
