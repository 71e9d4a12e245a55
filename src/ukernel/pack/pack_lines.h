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

template <bool kPast, size_t kGroup, size_t kElement, size_t kUnit, size_t kLine, class Make>
void PackLinesOf(const RhsGeometry& g, const RhsShape& shape, const RhsSource& s, size_t unit_begin, size_t unit_end,
                 char* base, Make make) {
  // Few enough for the second level of the TLB, as each is written elsewhere.
  constexpr size_t kUnits = 256, kUnitRow = kUnit * kElement, kAheadOfRows = 8192;
  const LineWriter<kPast> writer;
  for (size_t u0 = unit_begin; u0 < unit_end; u0 += kUnits) {
    const size_t u1 = u0 + kUnits < unit_end ? u0 + kUnits : unit_end;
    // Short runs of rows far apart: hardware does not know which come next.
    const size_t ahead = RoundUp(CeilDiv(kAheadOfRows, (u1 - u0) * kUnitRow), kGroup);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride;
      for (size_t k = 0; k < shape.k; k += kGroup) {
        const size_t count = shape.k - k < kGroup ? shape.k - k : kGroup;
        const char* in = from + static_cast<ptrdiff_t>(k) * s.k_stride + u0 * kUnitRow;
        char* line = base + g.UnitOffset(u0) + (segment * g.segment_k + k) / kGroup * kLine;
        for (size_t u = u0; u < u1; ++u, in += kUnitRow, line += g.unit_stride) {
          const bool line_begins = (u - u0) * kUnitRow % 64 == 0, ends = u + 1 == u1;
          for (size_t r = 0; r < kGroup; ++r) {
            const char* row = in + static_cast<ptrdiff_t>(ahead + r) * s.k_stride;
            if (line_begins) __builtin_prefetch(row);
            if (ends) __builtin_prefetch(row + kUnitRow - 1);
          }
          make(writer, u, in, RealColumns<kUnit>(shape, u), count, line);
        }
      }
    }
  }
  writer.Fence();
}

// A line of kLine bytes holds kGroup k of kUnit columns. make(writer, u, in, columns, count, line) writes the line of
// unit u made of `count` rows from `in` on. Rows are read in runs as long as can be, and each line is written at once
// from registers: writes past the caches in bursts, of what was gathered first, are half as fast.
template <size_t kGroup, size_t kElement, size_t kUnit, size_t kLine, class Make>
void PackLines(const RhsGeometry& g, const RhsShape& shape, const RhsSource& s, size_t unit_begin, size_t unit_end,
               char* base, Make make) {
  if (PassesCaches(g.total_bytes)) {
    PackLinesOf<kCanPassCaches, kGroup, kElement, kUnit, kLine>(g, shape, s, unit_begin, unit_end, base, make);
  } else {
    PackLinesOf<false, kGroup, kElement, kUnit, kLine>(g, shape, s, unit_begin, unit_end, base, make);
  }
}

}  // namespace
}  // namespace quern::ukernel
