// Softmax and LogSoftmax as plain loops: the compiler vectorizes them with the flags of the including file.
#pragma once

#include "ukernel/elementwise/math_f64.h"
#include "ukernel/fold/fold_lines.h"
#include "ukernel/softmax.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {
namespace {

// e^x for x of at most 0, where denormal float32 results do not matter.
QUERN_MATH float SoftmaxExp(float x) { return ExpOfNormal(x); }
QUERN_MATH double SoftmaxExp(double x) { return Exp(x); }

constexpr size_t kSoftmaxBlock = 256;  // exponentials held at once

template <class T>
void SoftmaxLine(const SoftmaxLines<T>& args) {
  const size_t n = args.count;
  const T* x = args.x;
  T* y = args.y;
  const T largest = FoldAll<T, FoldKind::kMax>({.kind = FoldKind::kMax, .n = n, .x = x});
  T sum = 0;
  for (size_t begin = 0; begin < n; begin += kSoftmaxBlock) {
    const size_t count = n - begin < kSoftmaxBlock ? n - begin : kSoftmaxBlock;
    T scratch[kSoftmaxBlock];
    T* e = args.log ? scratch : y + begin;  // x is still needed for the logarithm, and y may be x
    QUERN_INDEPENDENT
    for (size_t i = 0; i < count; ++i) e[i] = SoftmaxExp(x[begin + i] - largest);
    sum += FoldAll<T, FoldKind::kSum>({.kind = FoldKind::kSum, .n = count, .x = e});
  }
  if (args.log) {
    const T log = Log(sum);
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - log;
  } else {
    const T inverse = T{1} / sum;
    QUERN_INDEPENDENT
    for (size_t i = 0; i < n; ++i) y[i] = y[i] * inverse;
  }
}

// At most 64 neighbouring lines from column c on.
template <class T>
void SoftmaxColumns(const SoftmaxLines<T>& args, size_t c, size_t width) {
  const FoldStep<T, FoldKind::kMax> larger{0};
  T largest[64], sum[64];
  for (size_t i = 0; i < width; ++i) {
    largest[i] = args.x[c + i];
    sum[i] = 0;
  }
  for (size_t k = 1; k < args.count; ++k) {
    const T* x = args.x + static_cast<ptrdiff_t>(k) * args.stride + c;
    for (size_t i = 0; i < width; ++i) larger(largest[i], x[i]);
  }
  for (size_t k = 0; k < args.count; ++k) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(k) * args.stride;
    const T* x = args.x + at + c;
    T* y = args.y + at + c;
    T e[64];
    for (size_t i = 0; i < width; ++i) {
      e[i] = SoftmaxExp(x[i] - largest[i]);
      sum[i] += e[i];
    }
    if (!args.log) __builtin_memcpy(y, e, width * sizeof(T));
  }
  for (size_t i = 0; i < width; ++i) sum[i] = args.log ? Log(sum[i]) : T{1} / sum[i];
  for (size_t k = 0; k < args.count; ++k) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(k) * args.stride;
    const T* x = args.x + at + c;
    T* y = args.y + at + c;
    if (args.log) {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < width; ++i) y[i] = (x[i] - largest[i]) - sum[i];
    } else {
      QUERN_INDEPENDENT
      for (size_t i = 0; i < width; ++i) y[i] *= sum[i];
    }
  }
}

template <class T>
void RunSoftmax(const SoftmaxLines<T>& args) {
  if (args.width == 1 && args.stride == 1) return SoftmaxLine(args);
  for (size_t c = 0; c < args.width; c += 64) SoftmaxColumns(args, c, args.width - c < 64 ? args.width - c : 64);
}

}  // namespace
}  // namespace quern::ukernel
