// Where the rows of an LhsSource are. For kernel files only: internal linkage.
#pragma once

#include "ukernel/quantize.h"

namespace quern::ukernel {
namespace {

inline const char* SourceRow(const LhsSource& s, size_t segment, size_t row) {
  if (s.form == kLhsRowPointers) {
    const void* p = s.row_pointers[segment * s.row_pointer_pitch + row];
    return static_cast<const char*>(p) + (p == s.zero_row ? 0 : s.row_pointer_offset);
  }
  const ptrdiff_t tap = s.form == kLhsTaps ? s.taps[segment].lhs_offset : 0;
  return static_cast<const char*>(s.data) + tap + static_cast<ptrdiff_t>(row) * s.row_stride;
}

}  // namespace
}  // namespace quern::ukernel
