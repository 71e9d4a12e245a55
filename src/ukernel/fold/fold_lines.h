// Folds of neighbouring elements and of rows, for any type: the compiler vectorizes them with the flags of the
// including file.
#pragma once

#include "ukernel/fold.h"
#include "ukernel/fold/lanes.h"

namespace quern::ukernel {
namespace {

// One step of a fold, on lanes or single elements, in place: acc = acc op x. Sums and products of integers take
// unsigned ones, which wrap around; for kSumAbs these are the bits of signed ones.
template <class T, FoldKind kKind>
struct FoldStep {
  T shift;
  template <class V>
  void operator()(V& acc, const V& x) const {
    if constexpr (kKind == FoldKind::kSum) {
      acc = acc + x;
    } else if constexpr (kKind == FoldKind::kSumAbs && std::is_floating_point_v<T>) {
      acc = acc + (x < T{0} ? -x : x);
    } else if constexpr (kKind == FoldKind::kSumAbs) {
      acc = acc + (x > static_cast<T>(~T{0}) / 2 ? -x : x);
    } else if constexpr (kKind == FoldKind::kSumSquares) {
      const V d = x - shift;
      acc = acc + d * d;
    } else if constexpr (kKind == FoldKind::kProd) {
      acc = acc * x;
    } else if constexpr (!std::is_floating_point_v<T>) {
      acc = (kKind == FoldKind::kMax ? acc > x : acc < x) ? acc : x;
    } else if constexpr (kKind == FoldKind::kMax) {
      acc = ((acc > x) | (acc != acc)) ? acc : x;
    } else {
      acc = ((acc < x) | (acc != acc)) ? acc : x;
    }
  }
};
// The step of an extreme among numbers, in a quarter of the time: `sum` is NaN in the end if one is none (or infinite).
// Multiply-adds, as cores whose maximum runs where they add have others to multiply.
template <FoldKind kKind, class V>
void NumberStep(V& acc, V& sum, const V& x) {
#ifdef __clang__
#pragma clang fp contract(fast)
#endif
  acc = (kKind == FoldKind::kMax ? acc > x : acc < x) ? acc : x;
  sum = sum + x * 0;
}
template <class T>
constexpr bool IsFloatExtreme(FoldKind kind) {
  return std::is_floating_point_v<T> && (kind == FoldKind::kMax || kind == FoldKind::kMin);
}
constexpr bool IsSum(FoldKind kind) {
  return kind == FoldKind::kSum || kind == FoldKind::kSumAbs || kind == FoldKind::kSumSquares;
}
// Joins two partial results.
template <class T, FoldKind kKind>
using FoldJoin = FoldStep<T, IsSum(kKind) ? FoldKind::kSum : kKind>;

// Joins the lanes of a vector: one half with the other, and so on. join(acc, x), of vectors and elements.
template <class T, class V, class Join>
T JoinLanesBy(const V& v, const Join& join) {
  constexpr size_t kLanes = sizeof(V) / sizeof(T);
  if constexpr (sizeof(V) > 16) {
    typename LanesOf<T, sizeof(V) / 2>::Type halves[2];
    static_assert(sizeof(halves) == sizeof(V));
    __builtin_memcpy(halves, &v, sizeof(V));
    join(halves[0], halves[1]);
    return JoinLanesBy<T>(halves[0], join);
  } else {
    T lanes[kLanes];
    __builtin_memcpy(lanes, &v, sizeof(V));
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t k = 0; k < half; ++k) join(lanes[k], lanes[k + half]);
    }
    return lanes[0];
  }
}
template <class T, FoldKind kKind, class V>
T JoinLanes(const V& v) {
  return JoinLanesBy<T>(v, FoldJoin<T, kKind>{0});
}

// Elements of one partial sum: 64 per lane of floats.
constexpr size_t kFoldBlock = 4096;

// The lanes' folds of `count` elements at x, at least one vector of them and at most kFoldBlock. kNumbers: of an
// extreme by NumberStep; false if these may not all be numbers.
template <class T, FoldKind kKind, bool kNumbers, class Lanes>
bool FoldToLanesBy(const T* x, size_t count, T shift, Lanes& folds) {
  constexpr size_t kLanes = sizeof(Lanes) / sizeof(T);
  const FoldJoin<T, kKind> join{0};
  Lanes acc[4], sum[4];
  for (Lanes& a : acc) Fill(a, FoldStart<T>(kKind));
  for (Lanes& s : sum) Fill(s, T{0});
  const auto step = [&](int k, const Lanes& v) {
    if constexpr (kNumbers) {
      NumberStep<kKind>(acc[k], sum[k], v);
    } else {
      FoldStep<T, kKind>{shift}(acc[k], v);
    }
  };
  size_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    Lanes v[4];
    for (int k = 0; k < 4; ++k) {
      Load(x + i + static_cast<size_t>(k) * kLanes, v[k]);
      step(k, v[k]);
    }
  }
  if (i > 0) {
    join(acc[0], acc[1]);
    join(acc[2], acc[3]);
    join(acc[0], acc[2]);
  }
  for (; i + kLanes <= count; i += kLanes) {
    Lanes v;
    Load(x + i, v);
    step(0, v);
  }
  if (i < count) {
    // The last ones in a vector that begins before them, which counts where they stand.
    Lanes v, nothing;
    Load(x + count - kLanes, v);
    Fill(nothing, kKind == FoldKind::kSumSquares ? shift : FoldStart<T>(kKind));
    ReplaceFirst<T>(v, kLanes - (count - i), nothing);
    step(0, v);
  }
  folds = acc[0];
  if constexpr (!kNumbers) return true;
  const T total = JoinLanes<T, FoldKind::kSum>(sum[0] + sum[1] + sum[2] + sum[3]);
  return total == total;
}
template <class T, FoldKind kKind, class Lanes>
void FoldToLanes(const T* x, size_t count, T shift, Lanes& folds) {
  constexpr size_t kMany = 8 * sizeof(Lanes) / sizeof(T);  // the sum's lanes are joined as well
  if constexpr (IsFloatExtreme<T>(kKind)) {
    if (count >= kMany && FoldToLanesBy<T, kKind, true>(x, count, shift, folds)) return;
  }
  FoldToLanesBy<T, kKind, false>(x, count, shift, folds);
}

template <class T, FoldKind kKind>
T FoldAll(const LineFold<T>& args) {
  constexpr size_t kLanes = sizeof(typename LanesOf<T>::Type) / sizeof(T);
  const FoldStep<T, kKind> step{args.shift};
  const FoldJoin<T, kKind> join{0};
  T total = FoldStart<T>(kKind);
  for (size_t begin = 0; begin < args.n; begin += kFoldBlock) {
    const size_t count = args.n - begin < kFoldBlock ? args.n - begin : kFoldBlock;
    const T* x = args.x + begin;
    if (count >= kLanes) {
      typename LanesOf<T>::Type folds;
      FoldToLanes<T, kKind>(x, count, args.shift, folds);
      join(total, JoinLanes<T, kKind>(folds));
    } else {
      T joined = FoldStart<T>(kKind);
      for (size_t i = 0; i < count; ++i) step(joined, x[i]);
      join(total, joined);
    }
  }
  return total;
}

// y: the folds of as many lines as a vector has lanes, `pitch` apart.
template <class T, FoldKind kKind>
void FoldLaneLines(const LineFold<T>& first, ptrdiff_t pitch, T* y) {
  using Lanes = typename LanesOf<T>::Type;
  constexpr size_t kLanes = sizeof(Lanes) / sizeof(T);
  constexpr std::make_index_sequence<kLanes> kOrder;
  const FoldJoin<T, kKind> join{0};
  Lanes lines[kLanes];
  const T* x = first.x;
  for (size_t i = 0; i < kLanes; ++i, x += pitch) FoldToLanes<T, kKind>(x, first.n, first.shift, lines[i]);
  // The halves of each are joined as one line's are, and two lines become one vector, their lanes in turn.
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      const Lanes a = lines[i], b = lines[i + half];
      Lanes high;
      Interleave<0>(a, b, kOrder, lines[i]);
      Interleave<kLanes / 2>(a, b, kOrder, high);
      join(lines[i], high);
    }
  }
  Lanes total;
  Fill(total, FoldStart<T>(kKind));
  join(total, lines[0]);
  Store(y, total);
}

template <class T, FoldKind kKind>
void FoldAllLines(const LinesFold<T>& args) {
  constexpr size_t kLanes = sizeof(typename LanesOf<T>::Type) / sizeof(T);
  LineFold<T> line = args.line;
  size_t i = 0;
  const auto next = [&](size_t count) {
    i += count;
    line.x = args.line.x + static_cast<ptrdiff_t>(i) * args.pitch;
  };
  if (line.n >= kLanes && line.n <= kFoldBlock) {
    for (; i + kLanes <= args.lines; next(kLanes)) FoldLaneLines<T, kKind>(line, args.pitch, args.y + i);
  }
  for (; i < args.lines; next(1)) args.y[i] = FoldAll<T, kKind>(line);
}

constexpr size_t kRowBlock = 64;

// kVectors * kBytes of columns from c on, in each window, step by step. With kNumbers, of extremes: by NumberStep,
// whose sums are added to `sums`.
template <class T, FoldKind kKind, size_t kBytes, int kVectors, bool kNumbers>
void FoldColumns(const RowsFold<T>& args, size_t c, typename LanesOf<T, kBytes>::Type& sums) {
  using Lanes = typename LanesOf<T, kBytes>::Type;
  constexpr size_t kLanes = kBytes / sizeof(T);
  const FoldStep<T, kKind> step{0};
  const FoldJoin<T, kKind> join{0};
  const T* from = args.x + c;
  T* to = args.y + c;
  Lanes sum[kVectors];
  for (Lanes& s : sum) Fill(s, T{0});
  for (size_t w = 0; w < args.windows; ++w, from += args.x_step, to += args.y_step) {
    Lanes total[kVectors];
    for (size_t row = 0; row == 0 || row < args.rows; row += kRowBlock) {
      const size_t end = args.rows - row < kRowBlock ? args.rows : row + kRowBlock;
      Lanes acc[kVectors];
      for (Lanes& a : acc) Fill(a, FoldStart<T>(kKind));
      for (size_t r = row; r < end; ++r) {
        const T* x = from + (args.offsets ? args.offsets[r] : static_cast<ptrdiff_t>(r) * args.row_stride);
        for (int v = 0; v < kVectors; ++v) {
          Lanes l;
          Load(x + static_cast<size_t>(v) * kLanes, l);
          if constexpr (kNumbers) {
            NumberStep<kKind>(acc[v], sum[v], l);
          } else {
            step(acc[v], l);
          }
        }
      }
      for (int v = 0; v < kVectors; ++v) {
        if (row == 0) {
          total[v] = acc[v];
        } else {
          join(total[v], acc[v]);
        }
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (IsSum(kKind)) total[v] = total[v] * args.scale;
      Store(to + static_cast<size_t>(v) * kLanes, total[v]);
    }
  }
  if constexpr (kNumbers) {
    for (int v = 0; v < kVectors; ++v) sums = sums + sum[v];
  }
}

// Whether, with kNumbers, all elements are numbers; else y is of no use.
template <class T, FoldKind kKind, bool kNumbers>
bool FoldRowsBy(const RowsFold<T>& args) {
  constexpr size_t kWide = 4 * 64 / sizeof(T);
  typename LanesOf<T>::Type sums;
  Fill(sums, T{0});
  T sum = 0;
  // Windows of more columns than one pass takes go one after the other, through memory in its order, unless they all
  // stay in a first-level cache.
  constexpr size_t kFirstLevel = 24576;
  RowsFold<T> part = args;
  const size_t step = static_cast<size_t>(args.x_step < 0 ? -args.x_step : args.x_step);
  if (args.n > kWide && args.windows * step * sizeof(T) > kFirstLevel) part.windows = 1;
  for (size_t w = 0; w < args.windows; w += part.windows, part.x += part.x_step, part.y += part.y_step) {
    size_t c = 0;
    for (; c + kWide <= part.n; c += kWide) FoldColumns<T, kKind, 64, 4, kNumbers>(part, c, sums);
    if (c + kWide / 2 <= part.n) {
      FoldColumns<T, kKind, 64, 2, kNumbers>(part, c, sums);
      c += kWide / 2;
    }
    CoverColumns<T, 64, true>(c, part.n, [&]<size_t kBytes>(size_t at) {
      if constexpr (kBytes == sizeof(sums)) return FoldColumns<T, kKind, kBytes, 1, kNumbers>(part, at, sums);
      typename LanesOf<T, kBytes>::Type narrow;
      Fill(narrow, T{0});
      FoldColumns<T, kKind, kBytes, 1, kNumbers>(part, at, narrow);
      if constexpr (kNumbers) sum += JoinLanes<T, FoldKind::kSum>(narrow);
    });
  }
  if constexpr (!kNumbers) return true;
  sum += JoinLanes<T, FoldKind::kSum>(sums);
  return sum == sum;
}

template <class T, FoldKind kKind>
void FoldAllRows(const RowsFold<T>& args) {
  if constexpr (IsFloatExtreme<T>(kKind)) {
    if (FoldRowsBy<T, kKind, true>(args)) return;
  }
  FoldRowsBy<T, kKind, false>(args);
}

// Integers whose sums and products wrap around; floats are their own.
template <class T>
struct WrappingOf {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct WrappingOf<float> {
  using Type = float;
};
template <>
struct WrappingOf<double> {
  using Type = double;
};

// f.operator()<type of the arithmetic, kind>().
template <class T, class F>
auto ByFoldKind(FoldKind kind, F f) {
  if (kind == FoldKind::kMax) return f.template operator()<T, FoldKind::kMax>();
  if constexpr (sizeof(T) > 1) {
    using U = typename WrappingOf<T>::Type;
    switch (kind) {
      case FoldKind::kSumAbs:
        return f.template operator()<U, std::is_unsigned_v<T> ? FoldKind::kSum : FoldKind::kSumAbs>();
      case FoldKind::kSumSquares:
        return f.template operator()<U, FoldKind::kSumSquares>();
      case FoldKind::kProd:
        return f.template operator()<U, FoldKind::kProd>();
      case FoldKind::kMin:
        break;
      default:
        return f.template operator()<U, FoldKind::kSum>();
    }
  }
  return f.template operator()<T, FoldKind::kMin>();
}

// `args` with the type of the arithmetic.
template <class U, class T>
LineFold<U> LineAs(const LineFold<T>& args) {
  return {.kind = args.kind, .n = args.n, .x = reinterpret_cast<const U*>(args.x), .shift = static_cast<U>(args.shift)};
}

template <class T>
T RunFold(const LineFold<T>& args) {
  return ByFoldKind<T>(args.kind,
                       [&]<class U, FoldKind kKind>() { return static_cast<T>(FoldAll<U, kKind>(LineAs<U>(args))); });
}

template <class T>
void RunFoldLines(const LinesFold<T>& args) {
  ByFoldKind<T>(args.line.kind, [&]<class U, FoldKind kKind>() {
    FoldAllLines<U, kKind>(
        {.line = LineAs<U>(args.line), .lines = args.lines, .pitch = args.pitch, .y = reinterpret_cast<U*>(args.y)});
  });
}

template <class T>
void RunFoldRows(const RowsFold<T>& args) {
  ByFoldKind<T>(args.kind, [&]<class U, FoldKind kKind>() {
    FoldAllRows<U, kKind>({.kind = kKind,
                           .rows = args.rows,
                           .n = args.n,
                           .x = reinterpret_cast<const U*>(args.x),
                           .offsets = args.offsets,
                           .row_stride = args.row_stride,
                           .scale = static_cast<U>(args.scale),
                           .y = reinterpret_cast<U*>(args.y),
                           .windows = args.windows,
                           .x_step = args.x_step,
                           .y_step = args.y_step});
  });
}

}  // namespace
}  // namespace quern::ukernel
