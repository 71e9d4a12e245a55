// The first of each column in order: lanes hold the best so far of their columns, sorted.
#pragma once

#include "ukernel/fold/arg_lines.h"

namespace quern::ukernel {
namespace {

// Whether x comes before y, on lanes or single elements.
template <class T, bool kSmallest, class V, class W>
void ComesBefore(const V& x, const V& y, W& wins) {
  if constexpr (!std::is_floating_point_v<T>) {
    wins = kSmallest ? x < y : x > y;
  } else if constexpr (kSmallest) {
    wins = ((x >= y) == 0) & (x == x);
  } else {
    wins = ((x <= y) == 0) & (y == y);
  }
}

// kBytes of columns from c on.
template <class T, bool kSmallest, size_t kBytes>
void TopColumns(const RowsTop<T>& args, size_t c) {
  using Index = typename IndexOf<T>::Type;
  using Lanes = typename LanesOf<T, kBytes>::Type;
  using Places = typename LanesOf<Index, kBytes>::Type;
  constexpr size_t kLanes = kBytes / sizeof(T);
  Lanes best[kMostTopRows];
  Places place[kMostTopRows], now{};
  size_t held = 0;
  const T* x = args.x + c;
  for (size_t r = 0; r < args.rows; ++r, x += args.row_stride, now = now + Index{1}) {
    Lanes v;
    Load(x, v);
    if (held < args.k) {
      best[held] = v;
      place[held++] = now;
    }
    // An element stands before all that it comes before: these move on by one.
    decltype(v < v) wins, next;
    ComesBefore<T, kSmallest>(v, best[held - 1], wins);
    for (size_t j = held - 1; j > 0; --j) {
      ComesBefore<T, kSmallest>(v, best[j - 1], next);
      const Lanes value = wins ? v : best[j];
      const Places at = wins ? now : place[j];
      best[j] = next ? best[j - 1] : value;
      place[j] = next ? place[j - 1] : at;
      wins = next;
    }
    best[0] = wins ? v : best[0];
    place[0] = wins ? now : place[0];
  }
  for (size_t j = 0; j < held; ++j) {
    const ptrdiff_t to = static_cast<ptrdiff_t>(j) * args.y_stride + static_cast<ptrdiff_t>(c);
    if (args.values) Store(args.values + to, best[j]);
    if (args.places) {
      Index places[kLanes];
      Store(places, place[j]);
      for (size_t k = 0; k < kLanes; ++k) args.places[to + static_cast<ptrdiff_t>(k)] = places[k];
    }
  }
}

template <class T>
void RunTopRows(const RowsTop<T>& args) {
  CoverColumns<T, 64, true>(0, args.n, [&]<size_t kBytes>(size_t at) {
    args.smallest ? TopColumns<T, true, kBytes>(args, at) : TopColumns<T, false, kBytes>(args, at);
  });
}

}  // namespace
}  // namespace quern::ukernel
