// Dynamically quantized int8 from float32: rows, or panels of groups of 4 or 8 k by rows. The arithmetic of
// QuantizeDynamic. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/panel_groups.h"
#include "ukernel/quantize/lhs_rows.h"

namespace quern::ukernel {
namespace {

// The loops in C++ that compilers vectorize.
struct PlainLoops {
  static constexpr size_t kLanes = 16;

  // Extends [lo, hi] by x[0..count). Lanes apart: a float minimum may not be reordered by the compiler.
  static void Range(const float* x, size_t count, float& lo, float& hi) {
    float low[kLanes] = {}, high[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (size_t j = 0; j < kLanes; ++j) {
        low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
        high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
      }
    }
    for (; i < count; ++i) {
      low[0] = x[i] < low[0] ? x[i] : low[0];
      high[0] = x[i] > high[0] ? x[i] : high[0];
    }
    for (size_t j = 0; j < kLanes; ++j) {
      lo = low[j] < lo ? low[j] : lo;
      hi = high[j] > hi ? high[j] : hi;
    }
  }

  static void Quantize(const float* x, size_t count, float scale, int zero_point, int8_t* q) {
    for (size_t i = 0; i < count; ++i) {
      float y = x[i] * scale;
      y = y > -512.0f ? (y < 512.0f ? y : 512.0f) : -512.0f;  // far outside of int8; NaN becomes the lowest value
      const int whole = static_cast<int>(y);
      const float rest = y - static_cast<float>(whole);
      const int rounded = whole + (rest >= 0.5f) - (rest <= -0.5f) + zero_point;  // half away from zero
      const int clamped = rounded < -128 ? -128 : rounded > 127 ? 127 : rounded;
      q[i] = static_cast<int8_t>(clamped);
    }
  }
};

inline void Put(char* base, size_t offset, size_t row, float x) {
  __builtin_memcpy(base + offset + row * sizeof(float), &x, sizeof(float));
}

// One row; in panels (m_unit > 1) by way of a buffer.
template <class Loops>
DynamicRow PackI8dRow(const LhsGeometry& g, const LhsShape& shape, const LhsSource& s, size_t row, size_t group,
                      char* out) {
  float lo = 0, hi = 0;
  for (size_t segment = 0; segment < shape.segments; ++segment) {
    Loops::Range(reinterpret_cast<const float*>(SourceRow(s, segment, row)), shape.k, lo, hi);
  }
  const DynamicRow p = DynamicRowParams(lo, hi);
  const size_t line = g.m_unit * group;
  for (size_t segment = 0; segment < shape.segments; ++segment) {
    const auto* x = reinterpret_cast<const float*>(SourceRow(s, segment, row));
    char* to = out + segment * g.segment_k * g.m_unit;
    const int zero_point = static_cast<int>(p.zero_point);
    if (g.m_unit == 1) {
      Loops::Quantize(x, shape.k, p.scale, zero_point, reinterpret_cast<int8_t*>(to));
      continue;
    }
    constexpr size_t kBuffer = 256;
    for (size_t k = 0; k < shape.k; k += kBuffer) {
      const size_t count = shape.k - k < kBuffer ? shape.k - k : kBuffer;
      int8_t q[kBuffer];
      Loops::Quantize(x + k, count, p.scale, zero_point, q);
      (group == 8 ? PackGroups<8> : PackGroups<4>)(reinterpret_cast<const char*>(q), 0, 1, count, g.m_unit,
                                                   to + k / group * line);
    }
  }
  return p;
}

template <class Loops>
uint32_t PackI8d(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s, size_t panel_begin,
                 size_t panel_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  const size_t group = g.m_unit == 1 ? 4 : layout.k_interleave;
  char* base = static_cast<char*>(packed);
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = base + panel * g.panel_stride;
    const size_t first = panel * g.m_unit;
    const size_t rows = shape.m - first < g.m_unit ? shape.m - first : g.m_unit;
    // Pads: anywhere in a panel with missing rows or with gaps between segments, else at its end.
    const bool gaps = rows < g.m_unit || (shape.segments > 1 && g.segment_k != shape.k);
    const size_t used = (shape.segments - 1) * g.segment_k + shape.k;
    ClearBytes(out, gaps ? 0 : used / group * g.m_unit * group, g.panel_stride);
    for (size_t r = 0; r < rows; ++r) {
      const DynamicRow p = PackI8dRow<Loops>(g, shape, s, first + r, group, out + r * group);
      Put(base, g.scales_offset, first + r, p.scale);
      Put(base, g.zero_points_offset, first + r, p.zero_point);
      Put(base, g.negated_zero_points_offset, first + r, -p.zero_point);
    }
  }
  return kPackFine;
}

// The row of a file, compiled with its ISA's flags.
constexpr LhsPackKernel I8dRow(const LhsLayout& layout, float cycles_per_element, decltype(LhsPackKernel::run) run) {
  return {.isa = kIsa,
          .layout = layout,
          .source = Format::kF32,
          .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .cycles_per_element = cycles_per_element,
          .run = QUERN_ISA_HERE ? run : nullptr};
}

}  // namespace
}  // namespace quern::ukernel
