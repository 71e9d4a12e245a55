// Dynamically quantized int8 from float32 in panels of 16 rows by 64 k: AMX's A tiles. For kernel files only: internal
// linkage, their flags.
#pragma once

#include "ukernel/quantize/bytes_panels.h"
#include "ukernel/quantize/i8d_rows.h"

namespace quern::ukernel {
namespace {

template <class Loops>
uint32_t PackI8dPanels(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin,
                       size_t panel_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  char* base = static_cast<char*>(packed);
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = base + panel * g.panel_stride;
    const size_t first = panel * kPanelRows;
    const size_t rows = shape.m - first < kPanelRows ? shape.m - first : kPanelRows;
    ClearPads(shape, g, rows, out);
    for (size_t r = 0; r < kPanelRows; ++r) {
      DynamicRow p;
      float lo = 0, hi = 0;
      for (size_t segment = 0; r < rows && segment < shape.segments; ++segment) {
        Loops::Range(reinterpret_cast<const float*>(SourceRow(s, segment, first + r)), shape.k, lo, hi);
      }
      if (r < rows) p = DynamicRowParams(lo, hi);
      for (size_t segment = 0; r < rows && segment < shape.segments; ++segment) {
        const auto* x = reinterpret_cast<const float*>(SourceRow(s, segment, first + r));
        const size_t begin = segment * g.segment_k;
        for (size_t k = 0, count; k < shape.k; k += count) {
          const size_t room = kPanelK - (begin + k) % kPanelK;
          count = shape.k - k < room ? shape.k - k : room;
          auto* to = reinterpret_cast<int8_t*>(out + r * kPanelK + PanelOffset(begin + k));
          if (count == kPanelK) {  // a length that compilers know
            Loops::Quantize(x + k, kPanelK, p.scale, static_cast<int>(p.zero_point), to);
          } else {
            Loops::Quantize(x + k, count, p.scale, static_cast<int>(p.zero_point), to);
          }
        }
      }
      Put(base, g.scales_offset, first + r, p.scale);
      Put(base, g.zero_points_offset, first + r, p.zero_point);
      Put(base, g.negated_zero_points_offset, first + r, -p.zero_point);
    }
  }
  return kPackFine;
}

}  // namespace
}  // namespace quern::ukernel
