// Fast packers of 16-bit pairs from row-major matrices. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/pack.h"
#include "ukernel/pack/pack_lines.h"

namespace quern::ukernel {
namespace {

// What is written of the elements that are read:
//   kSource, kDest             formats
//   kLanes, Pairs(writer, a, b, to)
//                              that many columns of two k, `b` null for zeros, to [kLanes][2]
//   Square(in, stride, put)    8 rows of 16 elements transposed in pairs: put(line, vector of 8 pairs) for each of 8
template <class C>
struct PackHalf {
  static constexpr size_t kUnit = 16, kPairBytes = 64, kElement = FormatBytes(C::kSource);

  static void One(const char* from, char* to) { StoreFloat(C::kDest, to, LoadFloat(C::kSource, from)); }

  static void ClearRest(char* unit, size_t used, size_t stride) {
    for (size_t i = used; i < stride; i += 4) __builtin_memset(unit + i, 0, 4);
  }

  // A pair of k of a unit with `columns` real ones; column c is at a + c * stride and, unless null, b + c * stride.
  static void PartPair(const char* a, const char* b, ptrdiff_t stride, size_t columns, char* to) {
    __builtin_memset(to, 0, kPairBytes);
    for (size_t c = 0; c < columns; ++c) {
      One(a + static_cast<ptrdiff_t>(c) * stride, to + 4 * c);
      if (b) One(b + static_cast<ptrdiff_t>(c) * stride, to + 4 * c + 2);
    }
  }

  // Source with contiguous columns (K x N).
  static uint32_t FromKN(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                         size_t unit_end, void* packed) {
    const RhsGeometry g = DescribeRhs(layout, shape);
    char* base = static_cast<char*>(packed);
    const auto make = [&](auto writer, size_t, const char* a, size_t columns, size_t count, char* line) {
      const char* b = count == 2 ? a + s.k_stride : nullptr;
      if (columns < kUnit) {
        char part[kPairBytes];
        PartPair(a, b, kElement, columns, part);
        return writer.Copy(line, part, kPairBytes);
      }
      for (size_t c = 0; c < kUnit; c += C::kLanes) {
        C::Pairs(writer, a + c * kElement, b ? b + c * kElement : nullptr, line + 4 * c);
      }
    };
    PackLines<2, kElement, kUnit, kPairBytes>(g, shape, s, unit_begin, unit_end, base, make);
    const size_t used = (shape.segments * g.segment_k + 1) / 2 * kPairBytes;
    for (size_t u = unit_begin; u < unit_end; ++u) ClearRest(base + g.UnitOffset(u), used, g.unit_stride);
    return kPackFine;
  }

  // Lines of 16 k of a whole unit. The first square waits in L1 for the second: lines leave the core whole.
  template <class Writer>
  static void TwoSquares(Writer writer, const char* in, ptrdiff_t stride, char* lines) {
    constexpr size_t kHalf = kPairBytes / 2;
    alignas(32) char first[8 * kHalf];
    C::Square(in, stride, [&](size_t i, auto x) { StoreAs(first + i * kHalf, x); });
    C::Square(in + 8 * stride, stride, [&](size_t i, auto x) {
      writer.Put(lines + i * kPairBytes, LoadAs<decltype(x)>(first + i * kHalf));
      writer.Put(lines + i * kPairBytes + kHalf, x);
    });
  }

  template <bool kPast>
  static void UnitFromNK(const RhsShape& shape, const RhsGeometry& g, const RhsSource& s, size_t u, char* unit) {
    constexpr size_t kSpan = 16;  // k of a square
    constexpr Ahead kAheadOfRows = kElement < 4 ? kAhead : kAheadOfWide;
    const size_t columns = RealColumns(shape, u);
    for (size_t segment = 0; segment < shape.segments; ++segment) {
      const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
                         static_cast<ptrdiff_t>(u * kUnit) * s.n_stride;
      char* out = unit + segment * g.segment_k / 2 * kPairBytes;
      const size_t whole = columns == kUnit ? shape.k / kSpan * kSpan : 0;
      const auto row_bytes = static_cast<ptrdiff_t>(shape.k * kElement);
      for (size_t k = 0; k < whole; k += kSpan) {
        const auto at = static_cast<ptrdiff_t>(k * kElement);
        if (at % 64 == 0) PrefetchNext<kAheadOfRows>(from, at, row_bytes, s.n_stride, kUnit);
        TwoSquares(LineWriter<kPast>(), from + at, s.n_stride, out + k / 2 * kPairBytes);
      }
      for (size_t k = whole; k < shape.k; k += 2) {
        const char* a = from + k * kElement;
        PartPair(a, k + 1 < shape.k ? a + kElement : nullptr, s.n_stride, columns, out + k / 2 * kPairBytes);
      }
    }
    ClearRest(unit, (shape.segments * g.segment_k + 1) / 2 * kPairBytes, g.unit_stride);
  }

  // Source with contiguous K (N x K): pairs are transposed in squares of 8.
  static uint32_t FromNK(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                         size_t unit_end, void* packed) {
    const RhsGeometry g = DescribeRhs(layout, shape);
    const bool past = PassesCaches(g.total_bytes);
    for (size_t u = unit_begin; u < unit_end; ++u) {
      char* unit = static_cast<char*>(packed) + g.UnitOffset(u);
      (past ? UnitFromNK<kCanPassCaches> : UnitFromNK<false>)(shape, g, s, u, unit);
    }
    if (past) LineWriter<kCanPassCaches>::Fence();
    return kPackFine;
  }
};

// The rows of a conversion, both ways round.
struct PackHalfPair {
  PackKernel rows[2];
};
constexpr PackHalfPair PackHalfRows(Format source, Format dest, float cycles_kn, float cycles_nk,
                                    decltype(PackKernel::run) kn, decltype(PackKernel::run) nk) {
  const PackLayout layout = dest == Format::kBf16 ? kBf16Pairs16 : kF16Pairs16;
  return {{{.isa = kIsa,
            .layout = layout,
            .source = source,
            .contiguous_n = true,
            .cycles_per_element = cycles_kn,
            .run = kn},
           {.isa = kIsa,
            .layout = layout,
            .source = source,
            .contiguous_k = true,
            .cycles_per_element = cycles_nk,
            .run = nk}}};
}

}  // namespace
}  // namespace quern::ukernel
