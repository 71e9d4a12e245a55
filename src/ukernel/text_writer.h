// Text in a buffer of the caller, cut where that ends: names and reasons without allocation. Kernel-safe.
#pragma once

#include <cstddef>

namespace quern::ukernel {

class TextWriter {
 public:
  // Room for `bytes` characters and, unless bytes is 0, always the closing zero among them.
  TextWriter(char* text, size_t bytes) : text_(text), bytes_(bytes) {
    if (bytes_) text_[0] = 0;
  }

  // Characters written, or that more room would have held.
  size_t length() const { return length_; }

  TextWriter& Text(const char* s) {
    while (*s) Put(*s++);
    return *this;
  }
  TextWriter& Number(size_t x) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + x % 10);
      x /= 10;
    } while (x);
    while (count) Put(digits[--count]);
    return *this;
  }

 private:
  void Put(char c) {
    if (length_ + 1 < bytes_) {
      text_[length_] = c;
      text_[length_ + 1] = 0;
    }
    ++length_;
  }

  char* text_;
  size_t bytes_;
  size_t length_ = 0;
};

}  // namespace quern::ukernel
