// The rows of a call's left side, tap by tap, in every form that is read in place. For kernel files only: internal
// linkage.
#pragma once

#include "ukernel/gemm.h"
#include "ukernel/gemm/epilogue_f32.h"

namespace quern::ukernel {
namespace {

// Runs f(row, rhs) for each tap: MR pointers to the first of its k elements in each row, and its weights in the first
// unit. T is the left side's element.
template <class T, int MR, class F>
QUERN_INLINE void EachTap(const GemmArgs& a, F f) {
  const size_t taps = a.lhs_form == kLhsRows ? 1 : a.tap_count;
  for (size_t t = 0; t < taps; ++t) {
    const T* row[MR];
    const char* rhs = static_cast<const char*>(a.rhs);
    if (a.lhs_form == kLhsRowPointers) {
      rhs += t * a.rhs_tap_stride;
      const void* const* from = a.row_pointers + t * a.row_pointer_pitch;
      bool padding = from[0] == a.zero_row;
      for (int r = 1; padding && r < MR; ++r) padding = from[r] == a.zero_row;
      if (padding) continue;            // most taps of a kernel that reaches far beyond the image
      if (a.row_pointer_offset == 0) {  // as most calls have it: for taps of few k this is a good part of the work
        QUERN_UNROLL for (int r = 0; r < MR; ++r) row[r] = static_cast<const T*>(from[r]);
      } else {
        QUERN_UNROLL for (int r = 0; r < MR; ++r) {
          const ptrdiff_t offset = from[r] == a.zero_row ? 0 : a.row_pointer_offset;
          row[r] = reinterpret_cast<const T*>(static_cast<const char*>(from[r]) + offset);
        }
      }
    } else {
      const char* lhs = static_cast<const char*>(a.lhs);
      if (a.lhs_form == kLhsTaps) {
        lhs += a.taps[t].lhs_offset;
        rhs += a.taps[t].rhs_offset;
      }
      QUERN_UNROLL for (int r = 0; r < MR; ++r) row[r] = reinterpret_cast<const T*>(lhs + r * a.lhs_row_stride);
    }
    f(row, rhs);
  }
}

}  // namespace
}  // namespace quern::ukernel
