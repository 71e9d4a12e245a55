// What softmax micro-kernels are given: those of float32 are functions of the vector family, those of float64 of the
// elementwise family. Kernel-safe.
#pragma once

#include <cstddef>

namespace quern::ukernel {

// Softmax over `count` (at least 1) elements that are `stride` apart, for `width` neighbouring lines; y may be x.
template <class T>
struct SoftmaxLines {
  size_t count = 1;
  ptrdiff_t stride = 1;  // elements
  size_t width = 1;
  const T* x = nullptr;
  T* y = nullptr;
  bool log = false;
  // Of one line of neighbours (width 1, stride 1, not log): what is added to x first, or null. Minus infinity there
  // hides an element, whatever x is; where all are hidden, the results are 0.
  const T* add[2] = {nullptr, nullptr};
};

}  // namespace quern::ukernel
