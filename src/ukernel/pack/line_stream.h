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

// How many bytes before they are read lines of rows are asked for, to lie in the first and in the second level of
// caches; 0: not asked. Hardware does not follow so many rows at once.
struct Ahead {
  ptrdiff_t first, second;
};
// From memory to the second level, and shortly before to the first, where rows a multiple of a page apart share few
// lines.
[[maybe_unused]] constexpr Ahead kAhead{128, 512};
// Of 4 bytes and more, which are read as fast as memory gives them.
[[maybe_unused]] constexpr Ahead kAheadOfWide{512, 0};

// kLocality as of __builtin_prefetch: 3 for the first level, 2 for the second.
template <int kLocality>
inline void PrefetchRows(const char* at, ptrdiff_t stride, size_t rows) {
  for (size_t i = 0; i < rows; ++i, at += stride) __builtin_prefetch(at, 0, kLocality);
}

// Asks for lines of rows `stride` apart ahead of `at`, where the lines of `bytes` end for those of as many rows that
// follow.
template <Ahead kBytes = kAhead>
inline void PrefetchNext(const void* row, ptrdiff_t at, ptrdiff_t bytes, ptrdiff_t stride, size_t rows) {
  const auto first_of = [&](ptrdiff_t to) {
    const char* from = static_cast<const char*>(row) + to;
    return to < bytes ? from : from - bytes + static_cast<ptrdiff_t>(rows) * stride;
  };
  if constexpr (kBytes.second > 0) PrefetchRows<2>(first_of(at + kBytes.second), stride, rows);
  if constexpr (kBytes.first > 0) PrefetchRows<3>(first_of(at + kBytes.first), stride, rows);
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
