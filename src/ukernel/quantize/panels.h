// Rows to panels of groups along K, elements as they are. For kernel files only: internal linkage.
#pragma once

#include "ukernel/panel_groups.h"
#include "ukernel/quantize/lhs_rows.h"

namespace quern::ukernel {
namespace {

template <size_t kElementBytes, size_t kGroupBytes>
uint32_t PackPanels(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin,
                    size_t panel_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  const size_t k_bytes = g.m_unit * kElementBytes;  // of one k of a panel
  const size_t row_bytes = shape.k * kElementBytes;
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = static_cast<char*>(packed) + panel * g.panel_stride;
    const size_t first = panel * g.m_unit;
    const size_t rows = shape.m - first < g.m_unit ? shape.m - first : g.m_unit;
    const bool gaps = rows < g.m_unit || shape.segments > 1 || row_bytes % kGroupBytes;
    ClearBytes(out, gaps ? 0 : shape.k * k_bytes, g.panel_stride);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      char* to = out + segment * g.segment_k * k_bytes;
      if (s.form != kLhsRowPointers) {
        PackGroups<kGroupBytes>(SourceRow(s, segment, first), s.row_stride, rows, row_bytes, g.m_unit, to);
      } else {
        for (size_t r = 0; r < rows; ++r) {
          PackGroups<kGroupBytes>(SourceRow(s, segment, first + r), 0, 1, row_bytes, g.m_unit, to + r * kGroupBytes);
        }
      }
    }
  }
  return kPackFine;
}

// The descriptor of a row. PackPanels is of the file's ISA.
constexpr LhsPackKernel PanelRow(const LhsLayout& layout, Format source, float cycles_per_element,
                                 decltype(LhsPackKernel::run) run) {
  return {.isa = kIsa,
          .layout = layout,
          .source = source,
          .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .cycles_per_element = cycles_per_element,
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
