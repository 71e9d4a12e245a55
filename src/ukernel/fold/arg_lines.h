// Where the greatest or smallest element stands, among neighbours and down columns, for any type.
#pragma once

#include "ukernel/fold/fold_lines.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

// The first i < n (or the last) with matches(x[i]), of which there is one: blocks of 64 are looked at as a whole.
template <class T, class F>
size_t FirstMatch(size_t n, const T* x, F matches) {
  constexpr size_t kAtOnce = 64;
  size_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    unsigned found = 0;
    for (size_t k = 0; k < kAtOnce; ++k) found |= matches(x[i + k]);
    if (found) break;
  }
  while (!matches(x[i])) ++i;
  return i;
}
template <class T, class F>
size_t LastMatch(size_t n, const T* x, F matches) {
  constexpr size_t kAtOnce = 64;
  for (; n >= kAtOnce; n -= kAtOnce) {
    unsigned found = 0;
    for (size_t k = 0; k < kAtOnce; ++k) found |= matches(x[n - kAtOnce + k]);
    if (found) break;
  }
  while (!matches(x[n - 1])) --n;
  return n - 1;
}

// The extreme of each block is found as a value; only the block that has the extreme of all is searched for it.
template <class T, bool kSmallest>
size_t ArgOfLine(const LineArg<T>& args) {
  constexpr size_t kBlock = 4096;
  constexpr FoldKind kKind = kSmallest ? FoldKind::kMin : FoldKind::kMax;
  T best{};
  size_t at = 0;
  for (size_t begin = 0; begin < args.n; begin += kBlock) {
    const size_t count = args.n - begin < kBlock ? args.n - begin : kBlock;
    const T extreme = FoldAll<T, kKind>({.kind = kKind, .n = count, .x = args.x + begin});
    if constexpr (std::is_floating_point_v<T>) {
      if (extreme != extreme) return begin + FirstMatch(count, args.x + begin, [](T v) { return v != v; });
    }
    if (begin == 0 || (kSmallest ? extreme < best : extreme > best) || (args.which.last && extreme == best)) {
      best = extreme;
      at = begin;
    }
  }
  const size_t count = args.n - at < kBlock ? args.n - at : kBlock;
  const auto equal = [best](T v) { return v == best; };
  return at + (args.which.last ? LastMatch(count, args.x + at, equal) : FirstMatch(count, args.x + at, equal));
}

template <class T>
size_t RunArg(const LineArg<T>& args) {
  return args.which.smallest ? ArgOfLine<T, true>(args) : ArgOfLine<T, false>(args);
}

// One step down a column, on lanes or single elements: x of place `now` takes the place of the best so far if it wins.
template <class T, bool kSmallest, bool kLast, class V, class P>
void Challenge(const V& x, const P& now, V& best, P& place) {
  if constexpr (!std::is_floating_point_v<T>) {
    const auto wins = kSmallest ? (kLast ? x <= best : x < best) : (kLast ? x >= best : x > best);
    best = wins ? x : best;
    place = wins ? now : place;
  } else {  // what is not "stays" wins: also a NaN
    const auto stays = kSmallest ? (kLast ? x > best : x >= best) : (kLast ? x < best : x <= best);
    const auto wins = (stays == 0) & (best == best);
    best = wins ? x : best;
    place = wins ? now : place;
  }
}

// Integers as wide as an element.
template <class T>
struct IndexOf {
  using Type = std::conditional_t<
      sizeof(T) == 8, int64_t,
      std::conditional_t<sizeof(T) == 4, int32_t, std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>;
};

// kBytes of columns from c on. Lanes count rows in integers as wide as they are, which 8 bits soon exhaust: so many
// rows are folded at a time.
template <class T, bool kSmallest, bool kLast, size_t kBytes>
void ArgColumns(const RowsArg<T>& args, size_t c) {
  using Index = typename IndexOf<T>::Type;
  using Lanes = typename LanesOf<T, kBytes>::Type;
  using Places = typename LanesOf<Index, kBytes>::Type;
  constexpr size_t kLanes = kBytes / sizeof(T);
  constexpr size_t kRows = static_cast<size_t>(FoldStart<Index>(FoldKind::kMin));
  T best_of_all[kLanes];
  for (size_t row = 0; row < args.rows; row += kRows) {
    const size_t count = args.rows - row < kRows ? args.rows - row : kRows;
    const T* x = args.x + static_cast<ptrdiff_t>(row) * args.row_stride + c;
    Lanes best;
    Places place{}, now{};
    Load(x, best);
    for (size_t r = 1; r < count; ++r) {
      x += args.row_stride;
      Lanes v;
      Load(x, v);
      now = now + Index{1};
      Challenge<T, kSmallest, kLast>(v, now, best, place);
    }
    T bests[kLanes];
    Index places[kLanes];
    Store(bests, best);
    Store(places, place);
    for (size_t k = 0; k < kLanes; ++k) {
      const int64_t at = static_cast<int64_t>(row) + places[k];
      if (row == 0) {
        best_of_all[k] = bests[k];
        args.y[c + k] = at;
      } else {
        Challenge<T, kSmallest, kLast>(bests[k], at, best_of_all[k], args.y[c + k]);
      }
    }
  }
}

template <class T, bool kSmallest, bool kLast>
void ArgOfRows(const RowsArg<T>& args) {
  CoverColumns<T, 64, true>(0, args.n,
                            [&]<size_t kBytes>(size_t at) { ArgColumns<T, kSmallest, kLast, kBytes>(args, at); });
}

template <class T>
void RunArgRows(const RowsArg<T>& args) {
  if (args.which.smallest) {
    args.which.last ? ArgOfRows<T, true, true>(args) : ArgOfRows<T, true, false>(args);
  } else {
    args.which.last ? ArgOfRows<T, false, true>(args) : ArgOfRows<T, false, false>(args);
  }
}

// kStep 0: any.
template <class T, ptrdiff_t kStep>
void GreatestOfStep(const GreatestStep<T>& args) {
  const ptrdiff_t step = kStep ? kStep : args.x_step;
  const T* x = args.x;
  T* best = args.best;
  int64_t* place = args.place;
  const auto n = static_cast<ptrdiff_t>(args.n);
  const int64_t first = args.first;
  QUERN_INDEPENDENT
  for (ptrdiff_t i = 0; i < n; ++i) {
    const T v = x[i * step], b = best[i];
    const bool wins = (place[i] < 0) | (v > b) | ((v != v) & (b == b));
    best[i] = wins ? v : b;
    place[i] = wins ? first + i * step : place[i];
  }
}

template <class T>
void RunGreatest(const GreatestStep<T>& args) {
  if (args.x_step == 1) return GreatestOfStep<T, 1>(args);
  if (args.x_step == 2) return GreatestOfStep<T, 2>(args);
  GreatestOfStep<T, 0>(args);
}

}  // namespace
}  // namespace quern::ukernel
