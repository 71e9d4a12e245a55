// Dynamically quantized int8 rows and panels from float32, in C++ that compilers vectorize; the arithmetic of
// QuantizeDynamic. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/quantize/bytes_panels.h"

namespace quern::ukernel {
namespace {

constexpr size_t kLanes = 16;

// Extends [lo, hi] by x[0..count). Lanes apart: a float minimum may not be reordered by the compiler.
inline void Range(const float* x, size_t count, float& lo, float& hi) {
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

inline void Quantize(const float* x, size_t count, float scale, int zero_point, int8_t* q) {
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

inline void Put(char* base, size_t offset, size_t row, float x) {
  __builtin_memcpy(base + offset + row * sizeof(float), &x, sizeof(float));
}

[[maybe_unused]] uint32_t PackI8dRows(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s,
                                      size_t panel_begin, size_t panel_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  char* base = static_cast<char*>(packed);
  for (size_t row = panel_begin; row < panel_end; ++row) {
    char* out = base + row * g.panel_stride;
    float lo = 0, hi = 0;
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      Range(reinterpret_cast<const float*>(SourceRow(s, segment, row)), shape.k, lo, hi);
    }
    const DynamicRow p = DynamicRowParams(lo, hi);
    size_t at = 0;
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      Quantize(reinterpret_cast<const float*>(SourceRow(s, segment, row)), shape.k, p.scale,
               static_cast<int>(p.zero_point), reinterpret_cast<int8_t*>(out + at));
      const size_t next = segment + 1 < shape.segments ? at + g.segment_k : g.panel_stride;
      for (size_t i = at + shape.k; i < next; ++i) out[i] = 0;
      at = next;
    }
    Put(base, g.scales_offset, row, p.scale);
    Put(base, g.zero_points_offset, row, p.zero_point);
    Put(base, g.negated_zero_points_offset, row, -p.zero_point);
  }
  return kPackFine;
}

// Panels of 16 rows: AMX's A tiles.
[[maybe_unused]] uint32_t PackI8dPanels(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s,
                                        size_t panel_begin, size_t panel_end, void* packed) {
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
        Range(reinterpret_cast<const float*>(SourceRow(s, segment, first + r)), shape.k, lo, hi);
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
            Quantize(x + k, kPanelK, p.scale, static_cast<int>(p.zero_point), to);
          } else {
            Quantize(x + k, count, p.scale, static_cast<int>(p.zero_point), to);
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

// The rows of a file, compiled with its ISA's flags.
struct I8dKernels {
  LhsPackKernel rows[2];
};
[[maybe_unused]] constexpr I8dKernels MakeI8dRows(float cycles_per_element) {
  I8dKernels k;
  k.rows[0] = {.isa = kIsa,
               .layout = kI8dRows,
               .source = Format::kF32,
               .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
               .cycles_per_element = cycles_per_element,
               .run = QUERN_ISA_HERE ? PackI8dRows : nullptr};
  k.rows[1] = k.rows[0];
  k.rows[1].layout = kI8dPanels16;
  k.rows[1].run = QUERN_ISA_HERE ? PackI8dPanels : nullptr;
  return k;
}

}  // namespace
}  // namespace quern::ukernel
