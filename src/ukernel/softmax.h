// What softmax micro-kernels are given: those of float32 are functions of the vector family, those of float64 of the
// elementwise family. Kernel-safe.
#pragma once

#include <cstddef>

namespace quern::ukernel {

// What the blocks of a line so far leave to its next one. A number of its own without an element is a largest of it and
// a sum of 1.
template <class T>
struct SoftmaxCarry {
  T largest = -__builtin_huge_valf();
  T sum = 0;     // of e^(x - largest)
  T factor = 0;  // out: what the results of all earlier blocks have to be multiplied by
};

// Softmax over `count` (at least 1) elements that are `stride` apart, for `width` neighbouring lines; y may be x.
template <class T>
struct SoftmaxLines {
  size_t count = 1;
  ptrdiff_t stride = 1;  // elements
  size_t width = 1;
  const T* x = nullptr;
  T* y = nullptr;
  bool log = false;
  // Lines of neighbours (width 1, stride 1), `pitch` elements from one to the next.
  size_t lines = 1;
  ptrdiff_t pitch = 0;
  // Of one line of neighbours (width 1, stride 1, not log): what is added to x first, or null. Minus infinity there
  // hides an element, whatever x is; where all are hidden, the results are 0.
  const T* add[2] = {nullptr, nullptr};
  // Of such a line that comes in blocks, whose results become those of the softmax of the blocks so far; null: it is
  // whole. Where all elements so far are minus infinity, the results are 0 and the factor is 1.
  SoftmaxCarry<T>* carry = nullptr;
  // Of such a line, or of each of `lines`: where not null, y is left as e^(x - the largest) and what it has to be
  // multiplied by goes here, for those who multiply a shorter line that is made of y.
  T* inverse = nullptr;
  // Of each of `lines` to which nothing is added: where not null, the logarithm of its exponentials' sum, and y is not
  // written. Without an element that is above minus infinity it is minus infinity.
  T* log_sum = nullptr;
};

}  // namespace quern::ukernel
