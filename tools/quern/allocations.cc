// The linker sends the allocations of the command and the library here (--wrap, see ../CMakeLists.txt), and from here
// to the allocator that the process would have used.
#include "allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<bool> g_counting{false};
std::atomic<std::uint64_t> g_allocations{0};
}  // namespace

#ifdef QUERN_COUNTS_ALLOCATIONS
namespace {
void Count() {
  if (g_counting.load(std::memory_order_relaxed)) g_allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

extern "C" {
void* __real_malloc(std::size_t bytes);
void* __real_calloc(std::size_t count, std::size_t bytes);
void* __real_realloc(void* data, std::size_t bytes);
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
int __real_posix_memalign(void** out, std::size_t alignment, std::size_t bytes);

void* __wrap_malloc(std::size_t bytes) {
  Count();
  return __real_malloc(bytes);
}
void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  Count();
  return __real_calloc(count, bytes);
}
void* __wrap_realloc(void* data, std::size_t bytes) {
  Count();
  return __real_realloc(data, bytes);
}
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  Count();
  return __real_aligned_alloc(alignment, bytes);
}
int __wrap_posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  Count();
  return __real_posix_memalign(out, alignment, bytes);
}
}

// Those of libstdc++ call malloc from a shared library, which the linker does not see.
void* operator new(std::size_t bytes) {
  void* data = std::malloc(bytes ? bytes : 1);
  if (!data) throw std::bad_alloc();
  return data;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* data = nullptr;
  if (posix_memalign(&data, static_cast<std::size_t>(alignment), bytes ? bytes : 1) != 0) throw std::bad_alloc();
  return data;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }
#endif

namespace quern_tool {

bool StartCountingAllocations() {
#ifdef QUERN_COUNTS_ALLOCATIONS
  g_counting = true;
  return true;
#else
  return false;
#endif
}

std::uint64_t Allocations() { return g_allocations.load(std::memory_order_relaxed); }

}  // namespace quern_tool
