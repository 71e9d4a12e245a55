// Pairs of 16-bit floats to float32 units. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/transform.h"

namespace quern::ukernel {
namespace {

// T::Run(pairs, even, odd): 64 bytes of pairs to two lines of float32.
template <class T>
uint32_t WidenPairs(const TransformArgs& a) {
  constexpr size_t kLine = 64;
  for (size_t u = 0; u < a.units; ++u) {
    const char* from = static_cast<const char*>(a.src) + u * a.src_unit_stride;
    char* to = static_cast<char*>(a.dst) + u * a.dst_unit_stride;
    for (size_t k = 0; k < a.k; k += 2, from += kLine, to += 2 * kLine) T::Run(from, to, to + kLine);
  }
  return kPackFine;
}

}  // namespace
}  // namespace quern::ukernel
