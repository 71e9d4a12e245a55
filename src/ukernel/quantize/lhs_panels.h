// Panels of K by rows from rows, 4 bytes of a row together: a float32, or a group of int8. For kernel files only:
// internal linkage, their flags.
#pragma once

#include "ukernel/quantize/lhs_rows.h"
#include "ukernel/transpose_f32.h"

namespace quern::ukernel {
namespace {

constexpr size_t kWord = 4;  // bytes that lie together

// `bytes` of a row to a column of groups `line` bytes apart.
template <size_t kGroup>
void PutGroups(const char* from, size_t bytes, char* to, size_t line) {
  for (; bytes >= kGroup; bytes -= kGroup, from += kGroup, to += line) __builtin_memcpy(to, from, kGroup);
  if (bytes) {
    char group[kGroup] = {};
    for (size_t i = 0; i < bytes; ++i) group[i] = from[i];
    __builtin_memcpy(to, group, kGroup);
  }
}

// Zeroes a panel from its line `first` on.
inline void ClearPanel(char* panel, size_t first, size_t line, size_t stride) {
  for (size_t i = first * line; i < stride; i += kWord) __builtin_memset(panel + i, 0, kWord);
}

[[maybe_unused]] uint32_t PackPanels(const LhsLayout& layout, const LhsShape& shape, const LhsSource& s,
                                     size_t panel_begin, size_t panel_end, void* packed) {
  constexpr size_t kSide = Transpose4::kSide;
  const LhsGeometry g = DescribeLhs(layout, shape);
  const size_t line = g.m_unit * kWord, element = FormatBytes(layout.element), bytes = shape.k * element;
  for (size_t panel = panel_begin; panel < panel_end; ++panel) {
    char* out = static_cast<char*>(packed) + panel * g.panel_stride;
    const size_t first = panel * g.m_unit;
    const size_t rows = shape.m - first < g.m_unit ? shape.m - first : g.m_unit;
    const bool gaps = rows < g.m_unit || shape.segments > 1;
    ClearPanel(out, gaps ? 0 : bytes / kWord, line, g.panel_stride);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      char* to = out + segment * g.segment_k * element * g.m_unit;
      const size_t squares = s.form == kLhsRowPointers ? 0 : rows / kSide * kSide;
      const size_t whole = bytes / (kSide * kWord) * (kSide * kWord);
      for (size_t r = 0; r < squares; r += kSide) {
        const char* from = SourceRow(s, segment, first + r);
        for (size_t i = 0; i < whole; i += kSide * kWord) {
          Transpose4::Run(from + i, s.row_stride, to + i / kWord * line + r * kWord, line);
        }
      }
      for (size_t r = 0; r < rows; ++r) {
        const size_t begin = r < squares ? whole : 0;
        PutGroups<kWord>(SourceRow(s, segment, first + r) + begin, bytes - begin, to + begin / kWord * line + r * kWord,
                         line);
      }
    }
  }
  return kPackFine;
}

}  // namespace
}  // namespace quern::ukernel
