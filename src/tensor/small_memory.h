// Memory of small tensors in one allocation with what owns it. Blocks that the C library aligns itself come from none
// of its caches, which costs several times as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace quern {

// Larger blocks gain nothing.
inline constexpr size_t kSmallMemoryBytes = size_t{64} << 10;

// Allocates `bytes` more, aligned for vectors, behind the object; *memory is where.
template <typename T>
struct MemoryBehind {
  using value_type = T;
  static constexpr size_t kAlignment = 64;

  MemoryBehind(size_t behind_bytes, void** where) : bytes(behind_bytes), memory(where) {}
  template <typename U>
  MemoryBehind(const MemoryBehind<U>& o) : bytes(o.bytes), memory(o.memory) {}  // NOLINT: as allocators convert
  T* allocate(size_t n) {
    const size_t object_bytes = n * sizeof(T);
    char* p = static_cast<char*>(::operator new(object_bytes + kAlignment + bytes));
    *memory = p + object_bytes + (kAlignment - reinterpret_cast<uintptr_t>(p + object_bytes) % kAlignment) % kAlignment;
    return reinterpret_cast<T*>(p);
  }
  void deallocate(T* p, size_t) { ::operator delete(p); }
  template <typename U>
  bool operator==(const MemoryBehind<U>&) const {
    return true;
  }

  size_t bytes;
  void** memory;  // used by allocate() alone
};

// An Owner of these arguments, with that many bytes of memory for as long as it lives: less than kSmallMemoryBytes.
template <typename Owner, typename... Args>
std::shared_ptr<Owner> ShareWithMemory(size_t bytes, void** memory, Args&&... args) {
  return std::allocate_shared<Owner>(MemoryBehind<Owner>(bytes, memory), std::forward<Args>(args)...);
}

}  // namespace quern
