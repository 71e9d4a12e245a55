// Memory for tests of kernels that shows every access beyond its end.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace quern::ukernel {

// Memory that ends right before an inaccessible page, so that reading past the end is caught.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes = 0) : bytes_(bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (bytes + page - 1) / page * page + (bytes == 0 ? page : 0);
    mapped_ = body + page;
    void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(static_cast<char*>(p) + body, page, PROT_NONE) != 0) {
      std::perror("GuardedBuffer");
      std::abort();
    }
    base_ = static_cast<char*>(p);
    data_ = base_ + body - bytes;
  }
  ~GuardedBuffer() { munmap(base_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  size_t mapped_ = 0;
  char* base_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace quern::ukernel
