// Counts what the process takes from the C library's heap.
#pragma once

#include <cstdint>

namespace quern_tool {

// Whether this build counts: sanitizers have an allocator of their own.
bool CountsAllocations();
// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign and operator new so far, by code of the command and
// of the library.
std::uint64_t Allocations();

}  // namespace quern_tool
