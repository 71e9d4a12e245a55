// Softmax and LogSoftmax as plain loops: the compiler vectorizes them with the flags of the including file.
#pragma once

#include "ukernel/elementwise/math_f64.h"
#include "ukernel/fold/fold_lines.h"
#include "ukernel/softmax.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

// e^x for x of at most 0, where denormal float32 results do not matter.
QUERN_MATH float SoftmaxExp(float x) { return ExpOfNegative(x); }
QUERN_MATH double SoftmaxExp(double x) { return Exp(x); }

constexpr size_t kSoftmaxBlock = 4096;  // elements whose exponentials are summed in lanes

// The largest of n numbers; any of the others where one is not a number, which the exponentials' sum then is not
// either.
template <class T>
T LargestNumber(size_t n, const T* x) {
  using Lanes = typename LanesOf<T>::Type;
  constexpr size_t kLanes = sizeof(Lanes) / sizeof(T);
  const auto larger = [](auto& acc, const auto& v) { acc = v > acc ? v : acc; };
  if (n < kLanes) {
    T largest = x[0];
    for (size_t i = 1; i < n; ++i) larger(largest, x[i]);
    return largest;
  }
  Lanes acc[2], v[2];
  for (Lanes& a : acc) Load(x, a);
  for (size_t i = kLanes; i < n; i += 2 * kLanes) {
    // The last vectors begin before the end, with numbers that were seen.
    for (size_t k = 0; k < 2; ++k) {
      Load(x + (i + (k + 1) * kLanes <= n ? i + k * kLanes : n - kLanes), v[k]);
      larger(acc[k], v[k]);
    }
  }
  larger(acc[0], acc[1]);
  return JoinLanesBy<T>(acc[0], larger);
}

// x plus a, where minus infinity in a stands above any x.
template <class T>
void AddHiding(size_t n, const T* x, const T* a, T* y) {
  QUERN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) y[i] = a[i] == -__builtin_huge_valf() ? a[i] : x[i] + a[i];
}

// y[i] = e^(x[i] - largest), where y is not null, and their sum; n at most kSoftmaxBlock, y may be x.
template <class T>
T SumOfExps(size_t n, const T* x, T largest, T* y) {
  using Lanes = typename LanesOf<T>::Type;
  constexpr size_t kLanes = sizeof(Lanes) / sizeof(T);
  constexpr size_t kSide = 4;
  Lanes sums[kSide];
  for (Lanes& sum : sums) Fill(sum, T{0});
  const auto exps = [&](const T* from, Lanes& to) {
    T e[kLanes];
    QUERN_INDEPENDENT
    for (size_t i = 0; i < kLanes; ++i) e[i] = SoftmaxExp(from[i] - largest);
    Load(e, to);
  };
  const auto step = [&](size_t at, Lanes& sum) {
    Lanes v;
    exps(x + at, v);
    if (y) Store(y + at, v);
    sum += v;
  };
  size_t i = 0;
  for (; i + kSide * kLanes <= n; i += kSide * kLanes) {
    T e[kSide * kLanes];
    QUERN_INDEPENDENT_BY_FOURS
    for (size_t j = 0; j < kSide * kLanes; ++j) e[j] = SoftmaxExp(x[i + j] - largest);
    for (size_t k = 0; k < kSide; ++k) {
      Lanes v;
      Load(e + k * kLanes, v);
      if (y) Store(y + i + k * kLanes, v);
      sums[k] += v;
    }
  }
  if (i + 2 * kLanes <= n) {
    step(i, sums[0]);
    step(i + kLanes, sums[1]);
    i += 2 * kLanes;
  }
  if (i + kLanes <= n) {
    step(i, sums[2]);
    i += kLanes;
  }
  Lanes last, zero, there;
  Fill(zero, T{0});
  if (i < n && n >= kLanes) {
    // In a vector that begins before them, where what stands there is no operand any more.
    const size_t from = n - kLanes;
    exps(x + from, last);
    if (y) {
      Load(y + from, there);
      ReplaceFirst<T>(last, i - from, there);
      Store(y + from, last);
    }
    ReplaceFirst<T>(last, i - from, zero);
    sums[1] += last;
  } else if (i < n) {
    T rest[kLanes];
    for (T& r : rest) r = -__builtin_huge_valf();
    __builtin_memcpy(rest, x + i, (n - i) * sizeof(T));
    exps(rest, last);
    Store(rest, last);
    if (y) __builtin_memcpy(y + i, rest, (n - i) * sizeof(T));
    sums[1] += last;
  }
  sums[0] += sums[1];
  sums[2] += sums[3];
  sums[0] += sums[2];
  return JoinLanes<T, FoldKind::kSum>(sums[0]);
}

template <bool kCarries, class T>
void SoftmaxLine(const SoftmaxLines<T>& args) {
  const size_t n = args.count;
  const T* x = args.x;
  T* y = args.y;
  for (const T* a : args.add) {
    if (!a) continue;
    AddHiding(n, x, a, y);
    x = y;
  }
  T largest = LargestNumber(n, x);
  if (kCarries && !(largest > args.carry->largest)) largest = args.carry->largest;
  if (largest == -__builtin_huge_valf() && (args.add[0] || kCarries)) {
    // Unless one that is not hidden is no number, which the comparisons passed over.
    const T any = FoldAll<T, FoldKind::kMax>({.kind = FoldKind::kMax, .n = n, .x = x});
    for (size_t i = 0; i < n; ++i) y[i] = any != any ? any : T{0};
    if (args.inverse) *args.inverse = 1;
    if (kCarries) *args.carry = any != any ? SoftmaxCarry<T>{any, any, any} : SoftmaxCarry<T>{largest, 0, 1};
    return;
  }
  T sum = 0;
  for (size_t begin = 0; begin < n; begin += kSoftmaxBlock) {
    const size_t count = n - begin < kSoftmaxBlock ? n - begin : kSoftmaxBlock;
    sum += SumOfExps<T>(count, x + begin, largest, y + begin);
  }
  T earlier = 0;
  if (kCarries) {
    earlier = args.carry->sum * SoftmaxExp(args.carry->largest - largest);
    sum += earlier;
  }
  const T inverse = T{1} / sum;
  if (kCarries) *args.carry = {largest, sum, earlier * inverse};
  if (args.inverse) {
    *args.inverse = inverse;
    return;
  }
  QUERN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) y[i] = y[i] * inverse;
}

// Lines to which nothing is added. The largest of the next one is looked for before the exponentials of a line, and a
// line is finished after those of the next one, so that the core has work while lanes are joined.
template <class T>
void SoftmaxFollowing(const SoftmaxLines<T>& args) {
  const size_t n = args.count;
  const T* x = args.x;
  T* y = args.y;
  const auto finish = [&](const T* from, T* to, T largest, T factor) {
    if (args.log) {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < n; ++i) to[i] = (from[i] - largest) - factor;
    } else {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < n; ++i) to[i] = to[i] * factor;
    }
  };
  const ptrdiff_t pitch = args.pitch;
  T before = 0, largest = LargestNumber(n, x), factor = 0;  // of the line before, of this one, what finishes the former
  for (size_t line = 0; line < args.lines; ++line, x += pitch, y += pitch) {
    const T next = line + 1 < args.lines ? LargestNumber(n, x + pitch) : T{0};
    T sum = 0;
    for (size_t begin = 0; begin < n; begin += kSoftmaxBlock) {
      const size_t count = n - begin < kSoftmaxBlock ? n - begin : kSoftmaxBlock;
      // x is still needed for the logarithm, and y may be x.
      sum += SumOfExps<T>(count, x + begin, largest, args.log ? nullptr : y + begin);
    }
    if (line > 0 && !args.inverse) finish(x - pitch, y - pitch, before, factor);
    factor = args.log ? static_cast<T>(Log(sum)) : T{1} / sum;
    if (args.inverse) args.inverse[line] = factor;
    before = largest;
    largest = next;
  }
  if (args.lines > 0 && !args.inverse) finish(x - pitch, y - pitch, before, factor);
}

constexpr size_t kSoftmaxColumns = 64;

// At most kSoftmaxColumns neighbouring lines from column c on. Of few, dense ones several elements of each are taken as
// lines of their own, side by side, and joined.
template <class T>
void SoftmaxColumns(const SoftmaxLines<T>& args, size_t c, size_t width) {
  const bool dense = args.stride == static_cast<ptrdiff_t>(width);
  const size_t side = dense && args.count * width >= kSoftmaxColumns ? kSoftmaxColumns / width : 1;
  const size_t wide = side * width;
  const size_t steps = args.count / side, rest = args.count % side * width;
  const ptrdiff_t step = static_cast<ptrdiff_t>(side) * args.stride;
  // f(x, y, n) for all elements, `wide` of them at a time but for the last ones.
  const auto for_all = [&](auto f) {
    const T* x = args.x + c;
    T* y = args.y + c;
    for (size_t k = 0; k < steps; ++k, x += step, y += step) f(x, y, wide);
    if (rest > 0) f(x, y, rest);
  };
  const FoldStep<T, FoldKind::kMax> larger{0};
  T largest[kSoftmaxColumns], sum[kSoftmaxColumns];
  for (size_t i = 0; i < wide; ++i) {
    largest[i] = args.x[c + i];
    sum[i] = 0;
  }
  for_all([&](const T* x, T*, size_t n) {
    for (size_t i = 0; i < n; ++i) larger(largest[i], x[i]);
  });
  for (size_t i = width; i < wide; ++i) larger(largest[i % width], largest[i]);
  for (size_t i = width; i < wide; ++i) largest[i] = largest[i - width];
  for_all([&](const T* x, T* y, size_t n) {
    T e[kSoftmaxColumns];
    for (size_t i = 0; i < n; ++i) {
      e[i] = SoftmaxExp(x[i] - largest[i]);
      sum[i] += e[i];
    }
    if (!args.log) __builtin_memcpy(y, e, n * sizeof(T));
  });
  for (size_t i = width; i < wide; ++i) sum[i % width] += sum[i];
  for (size_t i = 0; i < width; ++i) sum[i] = args.log ? Log(sum[i]) : T{1} / sum[i];
  for (size_t i = width; i < wide; ++i) sum[i] = sum[i - width];
  for_all([&](const T* x, T* y, size_t n) {
    if (args.log) {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < n; ++i) y[i] = (x[i] - largest[i]) - sum[i];
    } else {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < n; ++i) y[i] *= sum[i];
    }
  });
}

// The logarithms of a block of lines are taken at once. The largest of the next line is looked for before the
// exponentials of a line. The sums of long lines are added up in float64.
template <class T>
void LogSumsOfExps(const SoftmaxLines<T>& args) {
  constexpr size_t kLines = 64;
  constexpr T kEnd = static_cast<T>(kInfinity);
  const size_t n = args.count;
  const T* x = args.x;
  T largest[kLines], sums[kLines], next = LargestNumber(n, x);
  for (size_t first = 0; first < args.lines; first += kLines) {
    const size_t lines = args.lines - first < kLines ? args.lines - first : kLines;
    for (size_t i = 0; i < lines; ++i, x += args.pitch) {
      largest[i] = next;
      sums[i] = T{1};
      if (first + i + 1 < args.lines) next = LargestNumber(n, x + args.pitch);
      if (Abs(largest[i]) == kEnd) {  // or one of the others is no number
        largest[i] = FoldAll<T, FoldKind::kMax>({.kind = FoldKind::kMax, .n = n, .x = x});
        continue;
      }
      double sum = 0;
      for (size_t begin = 0; begin < n; begin += kSoftmaxBlock) {
        const size_t count = n - begin < kSoftmaxBlock ? n - begin : kSoftmaxBlock;
        sum += static_cast<double>(SumOfExps<T>(count, x + begin, largest[i], nullptr));
      }
      sums[i] = static_cast<T>(sum);
    }
    T* y = args.log_sum + first;
    QUERN_INDEPENDENT
    for (size_t i = 0; i < lines; ++i) y[i] = largest[i] + Log(sums[i]);
  }
}

template <class T>
void RunSoftmax(const SoftmaxLines<T>& args) {
  if (args.log_sum) return LogSumsOfExps(args);
  if (args.carry) return SoftmaxLine<true>(args);
  if (args.width == 1 && args.stride == 1) {
    return args.add[0] || args.add[1] ? SoftmaxLine<false>(args) : SoftmaxFollowing(args);
  }
  for (size_t c = 0; c < args.width; c += kSoftmaxColumns) {
    SoftmaxColumns(args, c, args.width - c < kSoftmaxColumns ? args.width - c : kSoftmaxColumns);
  }
}

}  // namespace
}  // namespace quern::ukernel
