// Memory for tests of kernels that shows every access beyond its end.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

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

// Elements in such memory; undefined ones are not zero.
template <class T>
class GuardedArray {
 public:
  explicit GuardedArray(size_t count) : buffer_(count * sizeof(T)), count_(count) {
    std::memset(buffer_.data(), 0x55, buffer_.bytes());
  }
  GuardedArray(std::initializer_list<T> values) : GuardedArray(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  T& operator[](size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + count_; }
  size_t size() const { return count_; }

 private:
  GuardedBuffer buffer_;
  size_t count_;
};

}  // namespace quern::ukernel
