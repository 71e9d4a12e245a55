// Fast packers of units of groups along K from row-major matrices, elements as they are. For kernel files only:
// internal linkage, their flags.
#pragma once

#include "ukernel/pack.h"
#include "ukernel/panel_groups.h"

namespace quern::ukernel {
namespace {

// Sixteen bytes of each row of a group interleaved: 8 columns of 16-bit elements, or 4 of float32 as they are.
inline void Interleave(const char* p, ptrdiff_t stride, char* out, size_t group) {
  typedef uint16_t V __attribute__((vector_size(16)));
  typedef uint32_t W __attribute__((vector_size(16)));
  V x[4];
  for (size_t i = 0; i < group; ++i) __builtin_memcpy(&x[i], p + static_cast<ptrdiff_t>(i) * stride, 16);
  if (group == 1) {
    __builtin_memcpy(out, &x[0], 16);
    return;
  }
  const V low = __builtin_shufflevector(x[0], x[1], 0, 8, 1, 9, 2, 10, 3, 11);
  const V high = __builtin_shufflevector(x[0], x[1], 4, 12, 5, 13, 6, 14, 7, 15);
  if (group == 2) {
    __builtin_memcpy(out, &low, 16);
    __builtin_memcpy(out + 16, &high, 16);
    return;
  }
  const W a = W(low), b = W(high);
  const W c = W(__builtin_shufflevector(x[2], x[3], 0, 8, 1, 9, 2, 10, 3, 11));
  const W d = W(__builtin_shufflevector(x[2], x[3], 4, 12, 5, 13, 6, 14, 7, 15));
  const W y[4] = {__builtin_shufflevector(a, c, 0, 4, 1, 5), __builtin_shufflevector(a, c, 2, 6, 3, 7),
                  __builtin_shufflevector(b, d, 0, 4, 1, 5), __builtin_shufflevector(b, d, 2, 6, 3, 7)};
  for (size_t i = 0; i < 4; ++i) __builtin_memcpy(out + 16 * i, &y[i], 16);
}

// Source with contiguous columns (K x N).
template <size_t kElementBytes, size_t kGroup>
void PackColumns(const char* from, ptrdiff_t k_stride, size_t columns, size_t k_count, size_t unit, char* out) {
  constexpr size_t kAtOnce = 16 / kElementBytes;
  for (size_t k = 0; k < k_count; k += kGroup, from += static_cast<ptrdiff_t>(kGroup) * k_stride) {
    size_t c = 0;
    for (; k + kGroup <= k_count && c + kAtOnce <= columns; c += kAtOnce) {
      Interleave(from + c * kElementBytes, k_stride, out + c * kGroup * kElementBytes, kGroup);
    }
    for (; c < columns; ++c) {
      for (size_t i = 0; i < kGroup && k + i < k_count; ++i) {
        __builtin_memcpy(out + (c * kGroup + i) * kElementBytes,
                         from + static_cast<ptrdiff_t>(i) * k_stride + c * kElementBytes, kElementBytes);
      }
    }
    out += unit * kGroup * kElementBytes;
  }
}

template <size_t kElementBytes, size_t kGroup, bool kColumns>
uint32_t PackUnits(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                   size_t unit_end, void* packed) {
  const RhsGeometry g = DescribeRhs(layout, shape);
  const size_t k_bytes = g.n_unit * kElementBytes;  // of one k of a unit
  for (size_t u = unit_begin; u < unit_end; ++u) {
    char* unit = static_cast<char*>(packed) + g.UnitOffset(u);
    const size_t columns = shape.n - u * g.n_unit < g.n_unit ? shape.n - u * g.n_unit : g.n_unit;
    const bool gaps = columns < g.n_unit || shape.k % kGroup;
    ClearBytes(unit, gaps ? 0 : g.segment_k * shape.segments * k_bytes, g.unit_stride);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
                         static_cast<ptrdiff_t>(u * g.n_unit) * s.n_stride;
      char* out = unit + segment * g.segment_k * k_bytes;
      if constexpr (kColumns) {
        PackColumns<kElementBytes, kGroup>(from, s.k_stride, columns, shape.k, g.n_unit, out);
      } else {
        PackGroups<kElementBytes * kGroup>(from, s.n_stride, columns, shape.k * kElementBytes, g.n_unit, out);
      }
    }
  }
  return kPackFine;
}

// The descriptor of a layout's packer from its own format. PackUnits is of the file's ISA.
constexpr PackKernel UnitRow(const PackLayout& layout, bool columns, float cycles_per_element,
                             decltype(PackKernel::run) run) {
  return {.isa = kIsa,
          .layout = layout,
          .source = layout.element,
          .contiguous_n = columns,
          .contiguous_k = !columns,
          .cycles_per_element = cycles_per_element,
          .run = run};
}

}  // namespace
}  // namespace quern::ukernel
