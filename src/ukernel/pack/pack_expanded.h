// Fast packers of blocks along K that become floats or int8 on the way, which only callers that allow expansion ask
// for: a piece of a unit is expanded in L1, then packed from there. For kernel files only: internal linkage, their
// flags.
#pragma once

#include "ukernel/float_lanes.h"
#include "ukernel/pack/pack_groups.h"

namespace quern::ukernel {
namespace {

constexpr size_t kPiece = 16;  // k at once: blocks are whole pieces

// Numbers [i, i + kPiece) of a block as bytes.
template <Format kSource>
inline void LoadPiece(const uint8_t* block, size_t i, uint8_t (&q)[kPiece]) {
  constexpr size_t kBits = FormatBits(kSource);
  if constexpr (kSource == Format::kQ4_0 || kSource == Format::kQ4_1) {
    const uint8_t* from = block + (kSource == Format::kQ4_0 ? 2 : 4);
    for (size_t j = 0; j < kPiece; ++j) q[j] = i ? from[j] >> 4 : from[j] & 15;
  } else if constexpr (kBits == 8) {
    __builtin_memcpy(q, block + i + (kSource == Format::kQ8_0 ? 2 : 0), kPiece);
  } else {
    for (size_t j = 0; j < kPiece; ++j) {
      const size_t bit = (i + j) * kBits;
      q[j] = block[bit / 8] >> (bit % 8) & ((1u << kBits) - 1);
    }
  }
}

// A number stands for scale * (q - zero) + minimum.
struct BlockNumbersOfOne {
  float scale, zero, minimum;
};

template <Format kSource>
inline BlockNumbersOfOne LoadNumbers(const RhsSource& s, size_t n, size_t b, const uint8_t* block) {
  if constexpr (IsGguf(kSource)) {
    const float minimum = kSource == Format::kQ4_1 ? LoadFloat(Format::kF16, block + 2) : 0.0f;
    return {LoadFloat(Format::kF16, block), kSource == Format::kQ4_0 ? 8.0f : 0.0f, minimum};
  } else {
    constexpr size_t kBits = FormatBits(kSource);
    const auto* scale = static_cast<const char*>(s.scales) + static_cast<ptrdiff_t>(n) * s.scale_n_stride +
                        static_cast<ptrdiff_t>(b) * s.scale_block_stride;
    BlockNumbersOfOne x{LoadFloat(s.scale_format, scale), static_cast<float>(1u << (kBits - 1)), 0.0f};
    if (!s.zero_points) return x;
    const auto* zeros = static_cast<const uint8_t*>(s.zero_points) + static_cast<ptrdiff_t>(n) * s.zero_point_n_stride;
    if (IsFloatFormat(s.zero_point_format)) {
      x.zero = LoadFloat(s.zero_point_format, zeros + b * FormatBytes(s.zero_point_format));
    } else {
      x.zero = static_cast<float>(zeros[b * kBits / 8] >> (b * kBits % 8) & ((1u << kBits) - 1));
    }
    return x;
  }
}

template <Format kSource, Format kDest>
inline void StorePiece(const uint8_t (&q)[kPiece], const BlockNumbersOfOne& x, char* to) {
  if constexpr (kDest == Format::kI8) {
    const auto zero = static_cast<uint8_t>(x.zero);
    for (size_t j = 0; j < kPiece; ++j) to[j] = static_cast<char>(q[j] - zero);
  } else {
    typedef uint8_t Unsigned __attribute__((vector_size(kLanes)));
    typedef int8_t Signed __attribute__((vector_size(kLanes)));
    for (size_t j = 0; j < kPiece; j += kLanes, to += kLanes * FormatBytes(kDest)) {
      FloatLanes y;
      if constexpr (kSource == Format::kQ8_0) {
        y = __builtin_convertvector(LoadAs<Signed>(q + j), FloatLanes);
      } else {
        y = __builtin_convertvector(LoadAs<Unsigned>(q + j), FloatLanes);
      }
      StoreFloats<kDest>(to, x.scale * (y - x.zero) + x.minimum);
    }
  }
}

// A column of a unit: the block that it has come to, and what it adds up to (numerics of PackRhs).
struct ExpandedColumn {
  BlockNumbersOfOne numbers;
  int32_t total;
  float sum;
};

// Numbers [k, k + count) of column n, which is `column` of the unit.
template <Format kSource, Format kDest>
void ExpandColumn(const PackLayout& layout, const RhsShape& shape, const RhsGeometry& g, const RhsSource& s, size_t n,
                  size_t column, size_t k, size_t count, ExpandedColumn& x, char* unit, char* to) {
  const auto* row = static_cast<const uint8_t*>(s.data) + static_cast<ptrdiff_t>(n) * s.n_stride;
  size_t b = k / shape.block, i = k % shape.block;
  for (const size_t end = k + count; k < end; k += kPiece, to += kPiece * FormatBytes(kDest)) {
    const uint8_t* block = row + static_cast<ptrdiff_t>(b) * s.block_stride;
    if (i == 0) {
      x.numbers = LoadNumbers<kSource>(s, n, b, block);
      x.total = 0;
    }
    uint8_t q[kPiece];
    LoadPiece<kSource>(block, i, q);
    StorePiece<kSource, kDest>(q, x.numbers, to);
    if constexpr (kDest == Format::kI8) {
      const size_t real = shape.k - k < kPiece ? shape.k - k : kPiece;
      for (size_t j = 0; j < real; ++j) x.total += q[j];
      if (i + kPiece == shape.block || k + kPiece >= shape.k) {
        const auto [scale, zero, minimum] = x.numbers;
        const float numbers = static_cast<float>(k + real - b * shape.block);
        x.sum += scale * (static_cast<float>(x.total) - zero * numbers) + minimum * numbers;
        const size_t at = (b * g.n_unit + column) * FormatBytes(layout.scale);
        StoreFloat(layout.scale, unit + g.scales_offset + at, scale);
      }
    }
    i += kPiece;
    if (i == shape.block) {
      i = 0;
      ++b;
    }
  }
}

template <Format kSource, Format kDest, size_t kGroup>
uint32_t PackExpanded(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                      size_t unit_end, void* packed) {
  if (shape.block % kPiece) return PackRhs(layout, shape, s, unit_begin, unit_end, packed);
  constexpr size_t kElement = FormatBytes(kDest), kStage = 8192, kMostColumns = 128;  // of 2048 bits
  const RhsGeometry g = DescribeRhs(layout, shape);
  const size_t k_bytes = g.n_unit * kElement, span = kStage / k_bytes / kPiece * kPiece;
  const size_t row_bytes = span * kElement;
  alignas(64) char stage[kStage];
  ExpandedColumn column[kMostColumns];
  for (size_t u = unit_begin; u < unit_end; ++u) {
    char* unit = static_cast<char*>(packed) + g.UnitOffset(u);
    const size_t columns = shape.n - u * g.n_unit < g.n_unit ? shape.n - u * g.n_unit : g.n_unit;
    ClearBytes(unit, 0, g.unit_stride);
    for (size_t c = 0; c < g.n_unit; ++c) column[c].sum = 0;
    char* out = unit;
    for (size_t k = 0; k < shape.k; k += span, out += span * k_bytes) {
      const size_t count = shape.k - k < span ? shape.k - k : span;
      for (size_t c = 0; c < columns; ++c) {
        ExpandColumn<kSource, kDest>(layout, shape, g, s, u * g.n_unit + c, c, k, count, column[c], unit,
                                     stage + c * row_bytes);
      }
      PackGroups<kElement * kGroup>(stage, static_cast<ptrdiff_t>(row_bytes), columns, count * kElement, g.n_unit, out);
    }
    for (size_t c = 0; layout.sums == Format::kF32 && c < g.n_unit; ++c) {
      StoreAs(static_cast<char*>(packed) + g.sums_offset + (u * g.n_unit + c) * 4, column[c].sum);
    }
  }
  return kPackFine;
}

}  // namespace
}  // namespace quern::ukernel
