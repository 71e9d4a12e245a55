#include "base/limits.h"

#include <unistd.h>

namespace quern {

int64_t PhysicalMemoryBytes() {
  static const int64_t bytes = [] {
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? pages * page_bytes : int64_t{64} << 30;  // not told: as tensor_bytes
  }();
  return bytes;
}

}  // namespace quern
