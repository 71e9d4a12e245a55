// Bytes as they are to panels of 16 rows by 64 k: AMX's A tiles. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/quantize/lhs_rows.h"

namespace quern::ukernel {
namespace {

constexpr size_t kPanelRows = 16;
constexpr size_t kPanelK = 64;  // of a tile, whose rows are whole lines
constexpr size_t kPanelTileBytes = kPanelRows * kPanelK;

// Where element `at` of a panel's row is, from the row's first.
constexpr size_t PanelOffset(size_t at) { return at / kPanelK * kPanelTileBytes + at % kPanelK; }

inline void ClearLines(char* to, size_t begin, size_t end) {
  typedef uint8_t Line __attribute__((vector_size(64)));
  const Line zero = {};
  for (size_t i = begin; i < end; i += sizeof(zero)) __builtin_memcpy(to + i, &zero, sizeof(zero));
}

// Clears what the elements of a panel with `rows` rows leave: anything where rows are missing or segments have gaps,
// else what follows the last whole tile.
inline void ClearPads(const LhsShape& shape, const LhsGeometry& g, size_t rows, char* panel) {
  const bool gaps = rows < kPanelRows || (shape.segments > 1 && g.segment_k != shape.k);
  const size_t whole = g.segment_k * shape.segments / kPanelK * kPanelTileBytes;
  ClearLines(panel, gaps ? 0 : whole, g.panel_stride);
}

inline void CopyFew(char* to, const char* from, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) __builtin_memcpy(to + i, from + i, 16);
  for (; i < count; ++i) to[i] = from[i];
}

[[maybe_unused]] uint32_t PackBytesPanels(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s,
                                          size_t panel_begin, size_t panel_end, void* packed) {
  const LhsGeometry g = DescribeLhs(layout, shape);
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = static_cast<char*>(packed) + panel * g.panel_stride;
    const size_t first = panel * kPanelRows;
    const size_t rows = shape.m - first < kPanelRows ? shape.m - first : kPanelRows;
    ClearPads(shape, g, rows, out);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from[kPanelRows] = {};
      for (size_t r = 0; r < rows; ++r) from[r] = SourceRow(s, segment, first + r);
      const size_t begin = segment * g.segment_k;
      for (size_t k = 0, count; k < shape.k; k += count) {
        const size_t room = kPanelK - (begin + k) % kPanelK;
        count = shape.k - k < room ? shape.k - k : room;
        char* to = out + PanelOffset(begin + k);
        if (count == kPanelK) {
          for (size_t r = 0; r < rows; ++r) __builtin_memcpy(to + r * kPanelK, from[r] + k, kPanelK);
        } else {
          for (size_t r = 0; r < rows; ++r) CopyFew(to + r * kPanelK, from[r] + k, count);
        }
      }
    }
  }
  return kPackFine;
}

// The rows of a file, compiled with its ISA's flags.
[[maybe_unused]] constexpr LhsPackKernel BytesPanelsRow(Format source, const LhsLayout& layout,
                                                        float cycles_per_element) {
  return {.isa = kIsa,
          .layout = layout,
          .source = source,
          .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .cycles_per_element = cycles_per_element,
          .run = QUERN_ISA_HERE ? PackBytesPanels : nullptr};
}

}  // namespace
}  // namespace quern::ukernel
