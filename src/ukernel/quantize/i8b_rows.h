// int8 rows in blocks of 32 from float32; the arithmetic of DynamicBlockParams. For
// kernel files only: internal linkage, their flags.
#pragma once

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

// The row of a file, compiled with its ISA's flags.
constexpr LhsPackKernel I8bRow(float cycles_per_element, decltype(LhsPackKernel::run) run) {
  return {.isa = kIsa,
          .layout = kI8bRows,
          .source = Format::kF32,
          .forms = kLhsRows,
          .cycles_per_element = cycles_per_element,
          .run = QUERN_ISA_HERE ? run : nullptr};
}

}  // namespace
}  // namespace quern::ukernel
