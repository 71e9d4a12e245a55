// Fast packers of float32 units of 16 columns from 16-bit floats. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/pack/pack_converted.h"
#include "ukernel/pack/pack_lines.h"

namespace quern::ukernel {
namespace {

// Source with contiguous columns (K x N).
template <Format kFrom>
uint32_t WidenFromKN(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                     size_t unit_end, void* packed) {
  constexpr size_t kElement = FormatBytes(kFrom), kLine = kUnitColumns * sizeof(float);
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  const auto make = [&](auto writer, size_t, const char* in, size_t columns, size_t, char* line) {
    char part[kUnitColumns * kElement] = {};
    if (columns < kUnitColumns) {
      for (size_t i = 0; i < columns * kElement; ++i) part[i] = in[i];
      in = part;
    }
    for (size_t c = 0; c < kUnitColumns; c += kLanes) {
      writer.Put(line + c * sizeof(float), LoadFloats<kFrom>(in + c * kElement));
    }
  };
  PackLines<1, kElement, kUnitColumns, kLine>(g, shape, s, unit_begin, unit_end, base, make);
  for (size_t u = unit_begin; u < unit_end; ++u) ClearBytes(base + g.UnitOffset(u), g.padded_k * kLine, g.unit_stride);
  return kPackFine;
}

// Source with contiguous K (N x K): squares are widened, then transposed by T::Run as in pack_f32.h.
template <Format kFrom, class T>
uint32_t WidenFromNK(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                     size_t unit_end, void* packed) {
  constexpr size_t kElement = FormatBytes(kFrom), kLine = kUnitColumns * sizeof(float);
  constexpr size_t kSpan = 16;  // k of a square
  const RhsGeometry g = DescribeRhs(layout, shape);
  const LineStream stream(g.total_bytes);
  alignas(64) char wide[kUnitColumns][kSpan * sizeof(float)], stage[kSpan * kLine];
  for (size_t u = unit_begin; u < unit_end; ++u) {
    char* unit = static_cast<char*>(packed) + g.UnitOffset(u);
    const size_t columns = RealColumns(shape, u);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
                         static_cast<ptrdiff_t>(u * kUnitColumns) * s.n_stride;
      const char* const row = from;
      char* to = unit + segment * g.segment_k * kLine;
      for (size_t k = 0; k < shape.k; k += kSpan, from += kSpan * kElement, to += kSpan * kLine) {
        const size_t count = shape.k - k < kSpan ? shape.k - k : kSpan;
        if (k * kElement % 64 == 0) {
          PrefetchNext(row, static_cast<ptrdiff_t>(k * kElement), static_cast<ptrdiff_t>(shape.k * kElement),
                       s.n_stride, columns);
        }
        for (size_t c = 0; c < columns; ++c) {
          ConvertFloats<kFrom, Format::kF32>(from + static_cast<ptrdiff_t>(c) * s.n_stride, count, wide[c]);
        }
        if (columns < kUnitColumns || count < kSpan) {
          ClearBytes(to, 0, count * kLine);
          PackGroups<sizeof(float)>(wide[0], sizeof(wide[0]), columns, count * sizeof(float), kUnitColumns, to);
          continue;
        }
        char* lines = stream.Lines(to, stage);
        for (size_t c = 0; c < kUnitColumns; c += T::kSide) {
          for (size_t i = 0; i < kSpan; i += T::kSide) {
            T::Run(wide[c] + i * sizeof(float), sizeof(wide[0]), lines + i * kLine + c * sizeof(float), kLine);
          }
        }
        stream.Write(to, lines, sizeof(stage));
      }
    }
    ClearBytes(unit, g.padded_k * kLine, g.unit_stride);
  }
  return kPackFine;
}

struct WidenRows {
  PackKernel rows[4];
};
template <class T>
constexpr WidenRows MakeWidenRows(float from_kn, float from_nk) {
  WidenRows all;
  for (int i = 0; i < 4; ++i) {
    const bool f16 = i & 1, kn = i & 2;
    all.rows[i] = {.isa = kIsa,
                   .layout = kF32x16,
                   .source = f16 ? Format::kF16 : Format::kBf16,
                   .contiguous_n = kn,
                   .contiguous_k = !kn,
                   .cycles_per_element = kn ? from_kn : from_nk};
#if QUERN_ISA_HERE
    if (kn) all.rows[i].run = f16 ? WidenFromKN<Format::kF16> : WidenFromKN<Format::kBf16>;
    if (!kn) all.rows[i].run = f16 ? WidenFromNK<Format::kF16, T> : WidenFromNK<Format::kBf16, T>;
#endif
  }
  return all;
}

}  // namespace
}  // namespace quern::ukernel
