// Units of columns made of lines, from sources with contiguous columns (K x N). For kernel files only:
// internal linkage, their flags.
#pragma once

#include "ukernel/pack.h"
#include "ukernel/pack/line_stream.h"

namespace quern::ukernel {
namespace {

[[maybe_unused]] constexpr size_t kLineBytes = 64, kUnitColumns = 16;

// Columns that unit u has.
template <size_t kUnit = kUnitColumns>
size_t RealColumns(const RhsShape& shape, size_t u) {
  const size_t left = shape.n - u * kUnit;
  return left < kUnit ? left : kUnit;
}

// A line of kLine bytes holds kGroup k of kUnit columns. make(in, columns, count, line) makes one of `count` rows from
// `in` on; finish(u, lines, bytes) sees the lines of a unit that lie behind each other before they are written. Many
// units at a time, so that reads are long and each line is read once, as rows a multiple of a page apart push each
// other out of L1; so few rows that what is written stays there.
template <size_t kGroup, size_t kElement, size_t kUnit, size_t kLine, class Make, class Finish>
void PackLines(const RhsGeometry& g, const RhsShape& shape, const RhsSource& s, size_t unit_begin, size_t unit_end,
               char* base, Make make, Finish finish) {
  constexpr size_t kUnits = 32, kLines = 8, kRows = kLines * kGroup;
  constexpr size_t kAheadRows = 8 / kElement, kUnitRow = kUnit * kElement;
  const LineStream stream(g.total_bytes);
  alignas(64) char stage[kUnits][kLines * kLine];
  for (size_t u0 = unit_begin; u0 < unit_end; u0 += kUnits) {
    const size_t u1 = u0 + kUnits < unit_end ? u0 + kUnits : unit_end;
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride;
      for (size_t k0 = 0; k0 < shape.k; k0 += kRows) {
        const size_t k1 = k0 + kRows < shape.k ? k0 + kRows : shape.k;
        const size_t begin = (segment * g.segment_k + k0) / kGroup * kLine;  // within units
        for (size_t k = k0; k < k1; k += kGroup) {
          const char* in = from + static_cast<ptrdiff_t>(k) * s.k_stride + u0 * kUnitRow;
          for (size_t u = u0; u < u1; ++u, in += kUnitRow) {
            // Short runs of rows far apart: hardware does not know which come next.
            if ((u - u0) * kUnitRow % 64 == 0) {
              for (size_t r = 0; r < kGroup; ++r) {
                __builtin_prefetch(in + static_cast<ptrdiff_t>(kAheadRows + r) * s.k_stride);
              }
            }
            char* lines = stream.Lines(base + g.UnitOffset(u) + begin, stage[u - u0]);
            const size_t count = k1 - k < kGroup ? k1 - k : kGroup;
            make(in, RealColumns<kUnit>(shape, u), count, lines + (k - k0) / kGroup * kLine);
          }
        }
        // Afterwards: what was just stored in parts cannot be loaded whole for some cycles.
        const size_t bytes = (k1 - k0 + kGroup - 1) / kGroup * kLine;
        for (size_t u = u0; u < u1; ++u) {
          char* to = base + g.UnitOffset(u) + begin;
          char* lines = stream.Lines(to, stage[u - u0]);
          finish(u, lines, bytes);
          stream.Write(to, lines, bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
