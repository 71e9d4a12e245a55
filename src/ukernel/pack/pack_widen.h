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

struct WidenRows {
  PackKernel rows[4];
};
[[maybe_unused]] constexpr WidenRows MakeWidenRows(float from_kn, float from_nk) {
  WidenRows all;
  for (int i = 0; i < 4; ++i) {
    const bool f16 = i & 1, kn = i & 2;
    all.rows[i] = {.isa = kIsa,
                   .layout = kF32x16,
                   .source = f16 ? Format::kF16 : Format::kBf16,
                   .contiguous_n = kn,
                   .contiguous_k = !kn,
                   .cycles_per_element = kn ? from_kn : from_nk};
    if (!QUERN_ISA_HERE) continue;
    if (kn) all.rows[i].run = f16 ? WidenFromKN<Format::kF16> : WidenFromKN<Format::kBf16>;
    if (!kn) {
      all.rows[i].run = f16 ? PackConverted<Format::kF16, Format::kF32, 1, false>
                            : PackConverted<Format::kBf16, Format::kF32, 1, false>;
    }
  }
  return all;
}

}  // namespace
}  // namespace quern::ukernel
