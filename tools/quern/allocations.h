// Counts what the process takes from the C library's heap.
#pragma once

#include <cstdint>

namespace quern_tool {

// Counts from now on, which costs each allocation some nanoseconds. False where this build cannot: sanitizers have an
// allocator of their own.
bool StartCountingAllocations();
// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign and operator new since, by code of the command and of
// the library.
std::uint64_t Allocations();

}  // namespace quern_tool
