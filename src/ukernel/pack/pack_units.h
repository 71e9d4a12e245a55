// Fast packers of units of whole elements (float32, float64) from row-major matrices. For kernel files only: internal
// linkage, their flags.
#pragma once

#include "ukernel/pack.h"
#include "ukernel/pack/pack_lines.h"

namespace quern::ukernel {
namespace {

// Zeroes what follows the elements of a unit.
inline void ClearRest(char* unit, size_t used, size_t stride) {
  for (size_t i = used; i < stride; i += 4) __builtin_memset(unit + i, 0, 4);
}

// Source with contiguous columns (K x N).
template <size_t kUnit, class Number = float>
uint32_t PackFromKN(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                    size_t unit_end, void* packed) {
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  constexpr size_t kElement = sizeof(Number), kLine = kUnit * kElement;
  const auto make = [](auto writer, size_t, const char* in, size_t columns, size_t, char* line) {
    if (columns == kUnit) return writer.Copy(line, in, kLine);
    char part[kLine];
    __builtin_memset(part, 0, kLine);
    for (size_t i = 0; i < columns * kElement; i += kElement) __builtin_memcpy(part + i, in + i, kElement);
    writer.Copy(line, part, kLine);
  };
  PackLines<1, kElement, kUnit, kLine>(g, shape, s, unit_begin, unit_end, base, make);
  for (size_t u = unit_begin; u < unit_end; ++u) {
    ClearRest(base + g.UnitOffset(u), g.padded_k * kLine, g.unit_stride);
  }
  return kPackFine;
}

// Source with contiguous K (N x K): transposed in squares of T::kSide by T::Run(in, in stride, out, out stride).
template <size_t kUnit, class T, class Number = float>
uint32_t PackFromNK(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                    size_t unit_end, void* packed) {
  constexpr size_t kElement = sizeof(Number);
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  const LineStream stream(g.total_bytes);
  alignas(64) char stage[T::kSide * kUnit * kElement];
  for (size_t u = unit_begin; u < unit_end; ++u) {
    char* unit = base + g.UnitOffset(u);
    const size_t columns = shape.n - u * kUnit < kUnit ? shape.n - u * kUnit : kUnit;
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
                         static_cast<ptrdiff_t>(u * kUnit) * s.n_stride;
      char* out = unit + segment * g.segment_k * kUnit * kElement;
      const size_t whole = columns == kUnit ? shape.k / T::kSide * T::kSide : 0;
      const auto row_bytes = static_cast<ptrdiff_t>(shape.k * kElement);
      for (size_t k = 0; k < whole; k += T::kSide) {
        char* to = out + k * kUnit * kElement;
        char* lines = stream.Lines(to, stage);
        const char* in = from + k * kElement;
        const auto at = static_cast<ptrdiff_t>(k * kElement);
        if (at % 64 == 0) PrefetchNext<kAheadOfWide>(from, at, row_bytes, s.n_stride, kUnit);
        for (size_t c = 0; c < kUnit; c += T::kSide) {
          T::Run(in + static_cast<ptrdiff_t>(c) * s.n_stride, s.n_stride, lines + c * kElement, kUnit * kElement);
        }
        stream.Write(to, lines, sizeof(stage));
      }
      for (size_t k = whole; k < shape.k; ++k) {
        for (size_t c = 0; c < kUnit; ++c) {
          char* to = out + (k * kUnit + c) * kElement;
          if (c < columns) {
            __builtin_memcpy(to, from + static_cast<ptrdiff_t>(c) * s.n_stride + k * kElement, kElement);
          } else {
            __builtin_memset(to, 0, kElement);
          }
        }
      }
    }
    ClearRest(unit, g.padded_k * kUnit * kElement, g.unit_stride);
  }
  return kPackFine;
}

}  // namespace
}  // namespace quern::ukernel
