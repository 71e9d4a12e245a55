// int8 rows in blocks of 32, or panels of them, from float32, in C++ that compilers vectorize; the arithmetic of
// DynamicBlockParams. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/i8d_rows.h"

namespace quern::ukernel {
namespace {

template <class Loops>
uint32_t PackI8bRows(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin,
                     size_t panel_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  for (size_t row = panel_begin; row < panel_end; ++row) {
    const auto* x = reinterpret_cast<const float*>(SourceRow(s, 0, row));
    char* out = static_cast<char*>(packed) + row * g.panel_stride;
    auto* q = reinterpret_cast<int8_t*>(out);
    auto* scales = reinterpret_cast<float*>(out + g.block_scales_offset);
    size_t k = 0;
    for (; k < shape.k; k += layout.block) {
      const size_t count = shape.k - k < layout.block ? shape.k - k : layout.block;
      float lo = 0, hi = 0;
      Loops::Range(x + k, count, lo, hi);
      const DynamicBlock b = DynamicBlockParams(-lo > hi ? -lo : hi);
      Loops::Quantize(x + k, count, b.times, 0, q + k);
      scales[k / layout.block] = b.scale;
    }
    for (size_t i = shape.k; i < g.block_scales_offset; ++i) q[i] = 0;
    for (size_t i = k / layout.block; i < (g.panel_stride - g.block_scales_offset) / sizeof(float); ++i) scales[i] = 0;
  }
  return kPackFine;
}

// Panels of groups of 4 or 8 k.
template <class Loops>
uint32_t PackI8bPanels(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin,
                       size_t panel_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  const size_t group = layout.k_interleave;
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = static_cast<char*>(packed) + panel * g.panel_stride;
    auto* scales = reinterpret_cast<float*>(out + g.block_scales_offset);
    const size_t first = panel * g.m_unit;
    const size_t rows = shape.m - first < g.m_unit ? shape.m - first : g.m_unit;
    ClearBytes(out, rows < g.m_unit ? 0 : shape.k / group * group * g.m_unit, g.panel_stride);
    for (size_t r = 0; r < rows; ++r) {
      const auto* x = reinterpret_cast<const float*>(SourceRow(s, 0, first + r));
      for (size_t k = 0; k < shape.k; k += layout.block) {
        const size_t count = shape.k - k < layout.block ? shape.k - k : layout.block;
        float lo = 0, hi = 0;
        int8_t q[32];
        Loops::Range(x + k, count, lo, hi);
        const DynamicBlock b = DynamicBlockParams(-lo > hi ? -lo : hi);
        Loops::Quantize(x + k, count, b.times, 0, q);
        scales[k / layout.block * g.m_unit + r] = b.scale;
        (group == 8 ? PackGroups<8> : PackGroups<4>)(reinterpret_cast<const char*>(q), 0, 1, count, g.m_unit,
                                                     out + k * g.m_unit + r * group);
      }
    }
  }
  return kPackFine;
}

// The rows of a file, compiled with its ISA's flags.
[[maybe_unused]] constexpr LhsPackKernel I8bRow(float cycles_per_element, decltype(LhsPackKernel::run) run) {
  return {.isa = kIsa,
          .layout = kI8bRows,
          .source = Format::kF32,
          .forms = kLhsRows,
          .cycles_per_element = cycles_per_element,
          .run = QUERN_ISA_HERE ? run : nullptr};
}
[[maybe_unused]] constexpr LhsPackKernel I8bPanelsRow(const LhsLayout& layout, float cycles_per_element,
                                                      decltype(LhsPackKernel::run) run) {
  LhsPackKernel row = I8bRow(cycles_per_element, run);
  row.layout = layout;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
