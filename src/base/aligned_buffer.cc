#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace quern {
namespace {
// More than any process can address: asked for by a wrong size, and never passed on to the allocator.
constexpr size_t kMaxBufferBytes = size_t{1} << 47;
}  // namespace

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t bytes, const BufferOptions& options) {
  const bool huge = options.huge_pages && bytes >= kHugePageBytes;
  const size_t alignment = huge && options.alignment < kHugePageBytes ? kHugePageBytes : options.alignment;
  const size_t rounded = bytes == 0 ? kBufferAlignment : ((bytes - 1) / kBufferAlignment + 1) * kBufferAlignment;
  void* memory = nullptr;
  if (bytes > kMaxBufferBytes || posix_memalign(&memory, alignment, rounded) != 0) {
    return ResourceExhausted("cannot allocate " + std::to_string(bytes) + " bytes");
  }
  // Only whole huge pages are advised, so that the rest of the heap keeps its page size.
  if (huge) madvise(memory, rounded / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  if (options.zero) std::memset(memory, 0, rounded);
  return AlignedBuffer(static_cast<std::byte*>(memory), bytes);
}

}  // namespace quern
