// The generic packer of the left side: every layout, every source, element by element.
#include "ukernel/quantize.h"

#include <algorithm>
#include <cmath>

#include "ukernel/convert.h"
#include "ukernel/quantize/lhs_rows.h"
#include "ukernel/split_flags.h"

namespace quern::ukernel {
namespace {

DynamicRow RangeOf(const LhsShape& shape, const LhsSource& s, size_t row) {
  float lo = 0, hi = 0;
  for (size_t segment = 0; segment < shape.segments; ++segment) {
    const char* p = SourceRow(s, segment, row);
    for (size_t k = 0; k < shape.k; ++k) {
      const float x = LoadFloat(s.format, p + k * FormatBytes(s.format));
      lo = x < lo ? x : lo;
      hi = x > hi ? x : hi;
    }
  }
  return DynamicRowParams(lo, hi);
}

float LargestOf(Format format, const char* p, size_t count) {
  float largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float x = std::fabs(LoadFloat(format, p + i * FormatBytes(format)));
    largest = x > largest ? x : largest;
  }
  return largest;
}

size_t ElementOffset(const LhsLayout& l, size_t m_unit, size_t k, size_t row, size_t term) {
  const size_t il = l.k_interleave;
  const size_t terms = FormatTerms(l.element);
  const size_t chunk = l.k_multiple > il ? l.k_multiple : il;
  const size_t base = terms > 1 ? (k / chunk * terms + term) * chunk * m_unit : 0;
  const size_t rest = terms > 1 ? k % chunk : k;
  return (base + (rest / il * m_unit + row) * il + rest % il) * FormatBytes(l.element);
}

float Clamp(float x, float lo, float hi) { return x > lo ? (x < hi ? x : hi) : lo; }  // NaN becomes lo

}  // namespace

DynamicRow DynamicRowParams(float rmin, float rmax) {
  DynamicRow r;
  r.scale = rmin == rmax ? 1.0f : 255.0f / (rmax - rmin);
  const float low = rmin * r.scale;
  const float high = rmax * r.scale;
  const float z = (-128.0f + low) + (127.0f + high) > 0.0f ? -128.0f - low : 127.0f - high;
  r.zero_point = std::nearbyint(Clamp(z, -128.0f, 127.0f));
  return r;
}

int8_t QuantizeDynamic(float x, DynamicRow p) {
  const float scaled = x * p.scale;
  float whole = std::trunc(scaled);
  if (std::fabs(scaled - whole) >= 0.5f) whole += std::copysign(1.0f, scaled);  // half away from zero
  return static_cast<int8_t>(Clamp(whole + p.zero_point, -128.0f, 127.0f));
}

DynamicBlock DynamicBlockParams(float largest) {
  const float d = largest / 127.0f;
  DynamicBlock b;
  b.scale = F16BitsToF32(F32ToF16Bits(d));
  b.times = b.scale > 0.0f ? 1.0f / d : 0.0f;
  return b;
}

uint32_t PackLhs(const LhsLayout& l, const LhsShape& shape, const LhsSource& s, size_t panel_begin, size_t panel_end,
                 void* packed) {
  const LhsGeometry g = DescribeLhs(l, shape);
  const size_t element = FormatBytes(s.format);
  const size_t terms = FormatTerms(l.element);
  char* base = static_cast<char*>(packed);
  uint32_t flags = kPackFine;
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = base + panel * g.panel_stride;
    std::memset(out, 0, g.panel_stride);
    for (size_t r = 0; r < g.m_unit; ++r) {
      const size_t row = panel * g.m_unit + r;
      const bool real = row < shape.m;
      const bool dynamic = real && l.element == Format::kI8d;
      DynamicRow params = dynamic ? RangeOf(shape, s, row) : DynamicRow{};
      if (real && terms > 1) {
        flags |= SplitFlags(terms, shape.segments * shape.k, [&](size_t i) {
          return LoadFloat(s.format, SourceRow(s, i / shape.k, row) + i % shape.k * element);
        });
      }
      for (size_t segment = 0; real && segment < shape.segments; ++segment) {
        const char* p = SourceRow(s, segment, row);
        for (size_t k = 0; k < shape.k; ++k, p += element) {
          const size_t at = segment * g.segment_k + k;
          char* to = out + ElementOffset(l, g.m_unit, at, r, 0);
          int q = 0;
          switch (l.element) {
            case Format::kI8b:
              if (k % l.block == 0) {
                const DynamicBlock b =
                    DynamicBlockParams(LargestOf(s.format, p, std::min<size_t>(l.block, shape.k - k)));
                StoreAs(out + g.block_scales_offset + (k / l.block * g.m_unit + r) * sizeof(float), b.scale);
                params.scale = b.times;
              }
              [[fallthrough]];
            case Format::kI8d:
              q = QuantizeDynamic(LoadFloat(s.format, p), params);
              break;
            case Format::kI8:
              q = LoadAs<int8_t>(p);
              break;
            case Format::kU8:
              q = s.format == Format::kI8 ? LoadAs<int8_t>(p) + 128 : LoadAs<uint8_t>(p);
              break;
            default: {
              const float x = LoadFloat(s.format, p);
              if (terms == 1) {
                StoreFloat(l.element, to, x);
                continue;
              }
              uint16_t term[3];
              SplitBf16(x, terms, term);
              for (size_t t = 0; t < terms; ++t) StoreAs(out + ElementOffset(l, g.m_unit, at, r, t), term[t]);
              continue;
            }
          }
          *to = static_cast<char>(q);
        }
      }
      if (l.row_params) {
        StoreAs(base + g.scales_offset + row * 4, params.scale);
        StoreAs(base + g.zero_points_offset + row * 4, params.zero_point);
        StoreAs(base + g.negated_zero_points_offset + row * 4, -params.zero_point);
      }
    }
  }
  return flags;
}

const LhsPackKernel* FindLhsPackKernel(const LhsLayout& layout, const LhsSource& source, const CpuFacts& cpu,
                                       Lookup lookup) {
  const LhsPackKernel* best = nullptr;
  for (const KernelList<LhsPackKernel>* list : AllLhsPackKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const LhsPackKernel& row = list->rows[i];
      if (!(row.layout == layout) || row.source != source.format || !(row.forms & source.form)) continue;
      if (!RowRunsOn(row.isa, KernelGroup::kQuantize, cpu) || (lookup == Lookup::kRun && !row.run)) continue;
      if (!best || row.cycles_per_element < best->cycles_per_element) best = &row;
    }
  }
  return best;
}

}  // namespace quern::ukernel
