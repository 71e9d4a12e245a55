// Packed lines of 64 bytes that go past the caches where a whole matrix would not stay there: memory need not read what
// is overwritten, a third of the traffic. For kernel files only: internal linkage, their flags.
#pragma once

#include <cstddef>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

class LineStream {
 public:
  // bytes: of the packed matrix.
  explicit LineStream(size_t bytes) : past_caches_(kCan && bytes >= kLarge) {}
  LineStream(const LineStream&) = delete;
  LineStream& operator=(const LineStream&) = delete;
  ~LineStream() {
#if defined(__AVX__)
    if (past_caches_) _mm_sfence();  // other threads see all of it after this
#endif
  }

  // Where `bytes` for `to` are to be put together before Write: `stage`, or `to` itself.
  char* Lines(char* to, char* stage) const { return past_caches_ ? stage : to; }

  // Lines, from where they were put together; `to` is a multiple of 64, as are the bytes.
  void Write(char* to, const char* lines, size_t bytes) const {
#if defined(__AVX__)
    for (size_t i = 0; past_caches_ && i < bytes; i += 32) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + i)));
    }
#endif
    if (!past_caches_ && to != lines) __builtin_memcpy(to, lines, bytes);
  }

 private:
#if defined(__AVX__)
  static constexpr bool kCan = true;
#else
  static constexpr bool kCan = false;
#endif
  static constexpr size_t kLarge = size_t{4} << 20;  // more than a core's own caches hold
  bool past_caches_;
};

}  // namespace
}  // namespace quern::ukernel
