// Packed lines of 64 bytes that go past the caches where a whole matrix would not stay there: memory need not read what
// is overwritten, a third of the traffic. For kernel files only: internal linkage, their flags.
#pragma once

#include <cstddef>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if defined(__AVX__)
[[maybe_unused]] constexpr bool kCanPassCaches = true;
#else
[[maybe_unused]] constexpr bool kCanPassCaches = false;
#endif

// Whether a packed matrix of so many bytes does: it is more than a core's own caches hold.
inline bool PassesCaches(size_t bytes) { return kCanPassCaches && bytes >= size_t{4} << 20; }

// Asks for the lines at `at` of rows `stride` apart, which are more than hardware follows at once.
inline void PrefetchRows(const char* at, ptrdiff_t stride, size_t rows) {
  for (size_t i = 0; i < rows; ++i, at += stride) __builtin_prefetch(at);
}
[[maybe_unused]] constexpr size_t kAheadBytes = 512;  // of what is read of a row

// Asks for the line at `at` of rows of `bytes`, or after their end for that of as many rows that follow them.
inline void PrefetchNext(const void* row, ptrdiff_t at, ptrdiff_t bytes, ptrdiff_t stride, size_t rows) {
  const char* from = static_cast<const char*>(row) + at;
  PrefetchRows(at < bytes ? from : from - bytes + static_cast<ptrdiff_t>(rows) * stride, stride, rows);
}

// How vectors are written: all of a line by one piece of code, so that it leaves the core whole.
template <bool kPast>
struct LineWriter {
  // V: a vector of 16, 32 or 64 bytes; `to` is a multiple of as many.
  template <class V>
  static void Put(char* to, V x) {
#if defined(__AVX__)
    if constexpr (kPast) {
      if constexpr (sizeof(V) == 16) _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)x);
      if constexpr (sizeof(V) == 32) _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)x);
#if defined(__AVX512F__)
      if constexpr (sizeof(V) == 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)x);
#endif
      return;
    }
#endif
    __builtin_memcpy(to, &x, sizeof(V));
  }

  // `bytes`, a multiple of 32 as `to` is, from anywhere.
  static void Copy(char* to, const char* lines, size_t bytes) {
    typedef char V __attribute__((vector_size(kCanPassCaches ? 32 : 16)));
    for (size_t i = 0; i < bytes; i += sizeof(V)) {
      V x;
      __builtin_memcpy(&x, lines + i, sizeof(V));
      Put(to + i, x);
    }
  }

  // Other threads see all that was written after this.
  static void Fence() {
#if defined(__AVX__)
    if constexpr (kPast) _mm_sfence();
#endif
  }
};

// Lines that are put together in L1 first.
class LineStream {
 public:
  // bytes: of the packed matrix.
  explicit LineStream(size_t bytes) : past_caches_(PassesCaches(bytes)) {}
  LineStream(const LineStream&) = delete;
  LineStream& operator=(const LineStream&) = delete;
  ~LineStream() {
    if (past_caches_) LineWriter<kCanPassCaches>::Fence();
  }

  // Where `bytes` for `to` are to be put together before Write: `stage`, or `to` itself.
  char* Lines(char* to, char* stage) const { return past_caches_ ? stage : to; }

  // Lines, from where they were put together; `to` is a multiple of 64, as are the bytes.
  void Write(char* to, const char* lines, size_t bytes) const {
    if (past_caches_) {
      LineWriter<kCanPassCaches>::Copy(to, lines, bytes);
    } else if (to != lines) {
      __builtin_memcpy(to, lines, bytes);
    }
  }

 private:
  bool past_caches_;
};

}  // namespace
}  // namespace quern::ukernel
