// Rows of floats to rows of floats of another width. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/quantize/lhs_rows.h"

namespace quern::ukernel {
namespace {

// T::kLanes numbers are converted by T::Run(from, to); those of a row's end by T::One.
template <class T, class From, class To>
uint32_t ConvertRows(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t row_begin,
                     size_t row_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  for (size_t row = row_begin; row < row_end; ++row) {
    char* out = static_cast<char*>(packed) + row * g.panel_stride;
    size_t used = 0;  // elements
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = SourceRow(s, segment, row);
      auto* to = reinterpret_cast<To*>(out) + segment * g.segment_k;
      size_t k = 0;
      for (; k + T::kLanes <= shape.k; k += T::kLanes) T::Run(from + k * sizeof(From), to + k);
      for (; k < shape.k; ++k) T::One(from + k * sizeof(From), to + k);
      for (; k < g.segment_k; ++k) to[k] = 0;
      used += g.segment_k;
    }
    for (size_t i = used * sizeof(To); i < g.panel_stride; i += sizeof(To)) __builtin_memset(out + i, 0, sizeof(To));
  }
  return kPackFine;
}

}  // namespace
}  // namespace quern::ukernel
