// Fast packers of floats that change their format on the way: a piece of a unit is converted in L1, then packed from
// there. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/float_lanes.h"
#include "ukernel/pack/pack_groups.h"

namespace quern::ukernel {
namespace {

template <Format kFrom, Format kTo>
inline void ConvertFloats(const char* from, size_t count, char* to) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    StoreFloats<kTo>(to + i * FormatBytes(kTo), LoadFloats<kFrom>(from + i * FormatBytes(kFrom)));
  }
  for (; i < count; ++i) {
    StoreFloat(kTo, to + i * FormatBytes(kTo), LoadFloat(kFrom, from + i * FormatBytes(kFrom)));
  }
}

// kGroup: k of a column that lie together. kColumns: the source's columns are contiguous, else its K.
template <Format kFrom, Format kTo, size_t kGroup, bool kColumns>
uint32_t PackConverted(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                       size_t unit_end, void* packed) {
  constexpr size_t kElement = FormatBytes(kTo), kStage = 8192;
  const RhsGeometry g = DescribeRhs(layout, shape);
  const size_t k_bytes = g.n_unit * kElement;    // of one k of a unit
  const size_t span = kStage / k_bytes / 8 * 8;  // k of a piece: 16 at least, of the longest vectors
  alignas(64) char stage[kStage];
  for (size_t u = unit_begin; u < unit_end; ++u) {
    char* unit = static_cast<char*>(packed) + g.UnitOffset(u);
    const size_t columns = shape.n - u * g.n_unit < g.n_unit ? shape.n - u * g.n_unit : g.n_unit;
    const bool gaps = columns < g.n_unit || shape.k % kGroup;
    ClearBytes(unit, gaps ? 0 : g.segment_k * shape.segments * k_bytes, g.unit_stride);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
                         static_cast<ptrdiff_t>(u * g.n_unit) * s.n_stride;
      char* out = unit + segment * g.segment_k * k_bytes;
      for (size_t k = 0; k < shape.k; k += span, out += span * k_bytes) {
        const size_t count = shape.k - k < span ? shape.k - k : span;
        const char* piece = from + static_cast<ptrdiff_t>(k) * s.k_stride;
        if constexpr (kColumns) {
          for (size_t i = 0; i < count; ++i, piece += s.k_stride) {
            ConvertFloats<kFrom, kTo>(piece, columns, (kGroup == 1 ? out : stage) + i * k_bytes);
          }
          if (kGroup > 1) {
            PackColumns<kElement, kGroup>(stage, static_cast<ptrdiff_t>(k_bytes), columns, count, g.n_unit, out);
          }
        } else {
          const size_t row_bytes = span * kElement;
          for (size_t c = 0; c < columns; ++c, piece += s.n_stride) {
            ConvertFloats<kFrom, kTo>(piece, count, stage + c * row_bytes);
          }
          PackGroups<kElement * kGroup>(stage, static_cast<ptrdiff_t>(row_bytes), columns, count * kElement, g.n_unit,
                                        out);
        }
      }
    }
  }
  return kPackFine;
}

}  // namespace
}  // namespace quern::ukernel
