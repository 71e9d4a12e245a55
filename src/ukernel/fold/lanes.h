// Elements of any type that the compiler maps to the registers of the ISA of the including file.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace quern::ukernel {
namespace {

// kBytes of neighbouring elements: 16 or more, or a single element as itself.
template <class T, size_t kBytes = 64>
struct LanesOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};
template <class T>
struct LanesOf<T, sizeof(T)> {
  using Type = T;
};

template <class T, class V>
void Load(const T* p, V& v) {
  __builtin_memcpy(&v, p, sizeof v);
}
template <class T, class V>
void Store(T* p, const V& v) {
  __builtin_memcpy(p, &v, sizeof v);
}
template <class T, class V>
void Fill(V& v, T x) {
  if constexpr (std::is_same_v<T, V>) {
    v = x;
  } else {
    v = V{} + x;
  }
}

// Puts those of `otherwise` in the place of the first `count` lanes.
template <class T, class V>
void ReplaceFirst(V& v, size_t count, const V& otherwise) {
  V place, first;
  for (size_t k = 0; k < sizeof(V) / sizeof(T); ++k) place[k] = static_cast<T>(k);
  Fill(first, static_cast<T>(count));
  v = place >= first ? v : otherwise;
}

// y = one half of each of two vectors, their lanes in turn: a[first], b[first], a[first + 1], ...
template <size_t kFirst, class V, size_t... kLane>
void Interleave(const V& a, const V& b, std::index_sequence<kLane...>, V& y) {
  constexpr size_t kLanes = sizeof...(kLane);
  y = __builtin_shufflevector(a, b, (kFirst + kLane / 2 + kLane % 2 * kLanes)...);
}

// Calls f.operator()<bytes>(column) for blocks of at most kBytes that cover the columns [c, n). kOverlap: where fewer
// columns are left than a block has, it may begin before them.
template <class T, size_t kBytes, bool kOverlap, class F>
void CoverColumns(size_t c, size_t n, F f) {
  constexpr size_t kCount = kBytes / sizeof(T);
  for (; c + kCount <= n; c += kCount) f.template operator()<kBytes>(c);
  if (c == n) return;
  if constexpr (kOverlap) {
    if (n >= kCount) return f.template operator()<kBytes>(n - kCount);
  }
  if constexpr (kBytes > 16) {
    CoverColumns<T, kBytes / 2, kOverlap>(c, n, f);
  } else if constexpr (kCount > 1) {
    CoverColumns<T, sizeof(T), false>(c, n, f);
  }
}

}  // namespace
}  // namespace quern::ukernel
