// Packed forms of both operands as data: what the generic packers interpret and kernels and drivers compute offsets
// from. Kernel-safe, everything constexpr.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/format.h"

namespace quern::ukernel {

static constexpr size_t RoundUp(size_t x, size_t to) { return to ? (x + to - 1) / to * to : x; }
static constexpr size_t CeilDiv(size_t x, size_t by) { return (x + by - 1) / by; }

// Whether tile and unit extents are fixed numbers or multiples of the 32-bit lanes of a vector.
enum class VectorScale : uint8_t { kFixed, kSve, kSme };

// Lanes of 32 bits that multiply an extent: 1 when fixed.
static constexpr size_t ScaleLanes(VectorScale s, size_t vector_bytes) {
  return s == VectorScale::kFixed ? 1 : vector_bytes / 4;
}

// The packed right side (weights). Units of n_unit columns follow one another at a constant stride, so callers split
// the work along N by units and one copy serves every kernel whose nr is a multiple of the unit. A unit holds
//   elements    for each chunk of k_multiple along the padded K, for each term, for each group of k_interleave:
//               [n_unit][k_interleave] elements.  Formats below 8 bits put 8/bits consecutive groups into the bytes of
//               one, the first group in the low bits.
//   scales      [K / block][n_unit], if `scale` is set
//   offsets     [K / block][n_unit], if `offset` is set: kU8 an integer zero point, w = s*(q - z); else w = s*q + m
// and after all units come vectors over the padded N: sums, channel scales, bias (each contiguous, so that epilogue
// operations take them like any other vector).
// With several segments (taps of a convolution) each segment's K is padded to k_interleave and the whole to k_multiple.
struct PackLayout {
  Format element = Format::kNone;  // kF64 kF32 kF16 kBf16 kI8 kU8 kU4 kU2, or kBf16x2/x3: that many bf16 terms
  uint16_t n_unit = 16;            // columns of a unit, times the vector's lanes if scaled
  VectorScale n_scale = VectorScale::kFixed;
  uint16_t k_interleave = 1;      // consecutive k of one column that lie together
  uint16_t k_multiple = 1;        // the padded K is a multiple of this (and of k_interleave); pads are zero
  Format scale = Format::kNone;   // per (column, block): kF32 kF16 kBf16
  Format offset = Format::kNone;  // per (column, block): kU8 zero point, or kF32 minimum
  Format sums = Format::kNone;    // per column over all of K: kI32 sum of stored integers, kF32 sum of s*(q - z)
  bool channel_scales = false;    // float32 per column
  Format bias = Format::kNone;    // kF32 or kI32 per column

  friend constexpr bool operator==(const PackLayout&, const PackLayout&) = default;
};

// What is packed: K = segments * k rows of n columns.
struct RhsShape {
  size_t k = 0;  // per segment
  size_t n = 0;
  size_t segments = 1;      // more than one only for layouts without blocks
  size_t block = 0;         // elements along K per scale, for layouts with scales (a multiple of the group)
  size_t vector_bytes = 0;  // of the scaled units' vectors
};

// Sizes and offsets of a packed right side, in bytes unless said.
struct RhsGeometry {
  size_t n_unit = 0;  // columns
  size_t units = 0;
  size_t segment_k = 0;  // padded K of one segment, elements
  size_t padded_k = 0;   // elements
  size_t blocks = 0;     // ceil(K / block)
  size_t unit_stride = 0;
  size_t scales_offset = 0;   // within a unit
  size_t offsets_offset = 0;  // within a unit
  size_t sums_offset = 0;     // from the start of the packed buffer, as the following ones
  size_t channel_scales_offset = 0;
  size_t bias_offset = 0;
  size_t total_bytes = 0;

  // Column n lies in unit n / n_unit.
  constexpr size_t UnitOffset(size_t unit) const { return unit * unit_stride; }
};

constexpr size_t kPackAlignment = 64;  // cache line; AMX tile rows are half as fast when unaligned

// Bytes of the elements of `k` consecutive padded K values of one unit, which is also the offset of K value `k` (a
// multiple of the group; of k_multiple for several terms).
static constexpr size_t RhsElementBytes(const PackLayout& l, size_t n_unit, size_t k) {
  return k * n_unit * FormatTerms(l.element) * FormatBits(l.element) / 8;
}

// K values that share storage and cannot be separated by a K block.
static constexpr size_t RhsGroup(const PackLayout& l) {
  const size_t packed = FormatBits(l.element) < 8 ? 8 / FormatBits(l.element) * l.k_interleave : l.k_interleave;
  return FormatTerms(l.element) > 1 && l.k_multiple > packed ? l.k_multiple : packed;
}

static constexpr RhsGeometry DescribeRhs(const PackLayout& l, const RhsShape& s) {
  RhsGeometry g;
  const size_t group = RhsGroup(l);
  g.n_unit = l.n_unit * ScaleLanes(l.n_scale, s.vector_bytes);
  g.units = g.n_unit ? CeilDiv(s.n, g.n_unit) : 0;
  g.segment_k = s.segments > 1 ? RoundUp(s.k, l.k_interleave) : s.k;
  // The last block is stored whole, so that every block starts at the same distance.
  g.blocks = l.scale != Format::kNone && s.block ? CeilDiv(s.k, s.block) : 0;
  const size_t whole = g.blocks ? g.blocks * s.block : g.segment_k * s.segments;
  g.padded_k = RoundUp(RoundUp(whole, group), l.k_multiple);
  size_t at = RoundUp(RhsElementBytes(l, g.n_unit, g.padded_k), kPackAlignment);
  g.scales_offset = at;
  at = RoundUp(at + g.blocks * g.n_unit * FormatBytes(l.scale), kPackAlignment);
  g.offsets_offset = at;
  at = RoundUp(at + g.blocks * g.n_unit * FormatBytes(l.offset), kPackAlignment);
  // Units a multiple of a page apart would fall into the same sets of the L1 cache.
  g.unit_stride = at && at % 4096 == 0 ? at + kPackAlignment : at;
  size_t end = g.units * g.unit_stride;
  const size_t padded_n = g.units * g.n_unit;
  g.sums_offset = end;
  end = RoundUp(end + padded_n * FormatBytes(l.sums), kPackAlignment);
  g.channel_scales_offset = end;
  end = RoundUp(end + (l.channel_scales ? padded_n * 4 : 0), kPackAlignment);
  g.bias_offset = end;
  end = RoundUp(end + padded_n * FormatBytes(l.bias), kPackAlignment);
  g.total_bytes = end;
  return g;
}

// The packed left side: panels of m_unit rows. A panel holds, for each chunk of k_multiple along the padded K, for each
// term, for each group of k_interleave: [m_unit][k_interleave] elements. m_unit = 1 is plain rows (padded to
// k_multiple), which kernels may read as strided rows. Scales of blocks follow a panel's elements; their values are
// those of a float16. After all panels come vectors over the padded M.
struct LhsLayout {
  Format element = Format::kNone;  // kF32 kBf16 kBf16x2 kBf16x3 kI8 kU8; kI8d, kI8b = kI8 with parameters
  uint16_t m_unit = 1;             // rows of a panel, times the vector's lanes if scaled
  VectorScale m_scale = VectorScale::kFixed;
  uint16_t k_interleave = 1;
  uint16_t k_multiple = 1;
  bool row_params = false;  // float32 scale[M] and float32 zero point[M] (x ~ (q - zero point) / scale)
  uint16_t block = 0;       // kI8b: elements per scale, of which a panel holds float32 [padded K / block][m_unit]

  friend constexpr bool operator==(const LhsLayout&, const LhsLayout&) = default;
};

struct LhsShape {
  size_t m = 0;
  size_t k = 0;              // per segment
  size_t segments = 1;       // as in RhsShape: each segment is padded to rhs_k_interleave
  size_t segment_align = 1;  // k_interleave of the right side's layout
  size_t vector_bytes = 0;
};

struct LhsGeometry {
  size_t m_unit = 0;
  size_t panels = 0;
  size_t segment_k = 0;            // padded K of one segment, elements
  size_t padded_k = 0;             // elements
  size_t panel_stride = 0;         // bytes; with m_unit 1 this is the row stride
  size_t block_scales_offset = 0;  // within a panel
  size_t scales_offset = 0;        // float32[M padded], bytes from the start of the packed buffer, as the following
  size_t zero_points_offset = 0;   // float32[M padded], integers in value
  size_t negated_zero_points_offset = 0;  // float32[M padded]: -zero point, the operand of kAddOuter
  size_t total_bytes = 0;
};

static constexpr size_t LhsElementBytes(const LhsLayout& l, size_t m_unit, size_t k) {
  return k * m_unit * FormatTerms(l.element) * FormatBytes(l.element);
}

static constexpr LhsGeometry DescribeLhs(const LhsLayout& l, const LhsShape& s) {
  LhsGeometry g;
  g.m_unit = l.m_unit * ScaleLanes(l.m_scale, s.vector_bytes);
  g.panels = g.m_unit ? CeilDiv(s.m, g.m_unit) : 0;
  g.segment_k = s.segments > 1 ? RoundUp(s.k, s.segment_align) : s.k;
  g.padded_k = RoundUp(RoundUp(g.segment_k * s.segments, l.k_interleave), l.k_multiple);
  size_t stride = RoundUp(LhsElementBytes(l, g.m_unit, g.padded_k), kPackAlignment);
  g.block_scales_offset = stride;
  if (l.block) stride += RoundUp(g.padded_k / l.block * g.m_unit * sizeof(float), kPackAlignment);
  if (stride && stride % 4096 == 0) stride += kPackAlignment;
  g.panel_stride = stride;
  const size_t padded_m = g.panels * g.m_unit;
  size_t end = g.panels * stride;
  const size_t vector = RoundUp(padded_m * 4, kPackAlignment);
  g.scales_offset = end;
  end += l.row_params ? vector : 0;
  g.zero_points_offset = end;
  end += l.row_params ? vector : 0;
  g.negated_zero_points_offset = end;
  end += l.row_params ? vector : 0;
  g.total_bytes = end;
  return g;
}

// Layouts that several files share. Constants with internal linkage: nothing is exported from kernel objects.
[[maybe_unused]] static constexpr PackLayout kF32x16{.element = Format::kF32, .n_unit = 16};
[[maybe_unused]] static constexpr PackLayout kF32x8{.element = Format::kF32, .n_unit = 8};  // NEON
[[maybe_unused]] static constexpr PackLayout kF64x8{.element = Format::kF64, .n_unit = 8};
[[maybe_unused]] static constexpr PackLayout kBf16Terms2x16{
    .element = Format::kBf16x2, .n_unit = 16, .k_interleave = 2, .k_multiple = 32};
[[maybe_unused]] static constexpr PackLayout kBf16Terms3x16{
    .element = Format::kBf16x3, .n_unit = 16, .k_interleave = 2, .k_multiple = 32};
[[maybe_unused]] static constexpr PackLayout kI8x16{
    .element = Format::kI8, .n_unit = 16, .k_interleave = 4, .k_multiple = 64, .sums = Format::kI32};
// Pairs of 16-bit floats along K: what AMX and the dot products of AVX512-BF16 read, and AVX2 and AVX-512 convert.
[[maybe_unused]] static constexpr PackLayout kBf16Pairs16{
    .element = Format::kBf16, .n_unit = 16, .k_interleave = 2, .k_multiple = 32};
[[maybe_unused]] static constexpr PackLayout kF16Pairs16{
    .element = Format::kF16, .n_unit = 16, .k_interleave = 2, .k_multiple = 32};
// int8 weights of a dynamically quantized product: one float32 scale per output channel.
[[maybe_unused]] static constexpr PackLayout kI8Channels16{.element = Format::kI8,
                                                           .n_unit = 16,
                                                           .k_interleave = 4,
                                                           .k_multiple = 64,
                                                           .sums = Format::kI32,
                                                           .channel_scales = true};
// 4-bit weights of such a product, stored plus 8; consumed so, or as int8.
[[maybe_unused]] static constexpr PackLayout kU4Channels16{.element = Format::kU4,
                                                           .n_unit = 16,
                                                           .k_interleave = 4,
                                                           .k_multiple = 64,
                                                           .sums = Format::kI32,
                                                           .channel_scales = true};
// Blocks of unsigned integers (kU2, kU4, kU8); scales as the model has them (bf16, f16 or f32), zero points optional.
// `sums` serve dynamic rows.
static constexpr PackLayout UnsignedBlocks16(Format element, Format scale, Format offset = Format::kNone) {
  return {.element = element,
          .n_unit = 16,
          .k_interleave = 4,
          .k_multiple = static_cast<uint16_t>(32 / FormatBits(element)),
          .scale = scale,
          .offset = offset,
          .sums = Format::kF32};
}
static constexpr PackLayout Blocks4x16(Format scale, Format offset = Format::kNone) {
  return UnsignedBlocks16(Format::kU4, scale, offset);
}
// Blocks of int8 without zero points (q8_0).
static constexpr PackLayout Blocks8x16(Format scale) {
  return {
      .element = Format::kI8, .n_unit = 16, .k_interleave = 4, .k_multiple = 8, .scale = scale, .sums = Format::kF32};
}

// Dynamically quantized rows, each a multiple of a cache line: read as strided rows by VNNI and dotprod alike.
[[maybe_unused]] static constexpr LhsLayout kI8dRows{.element = Format::kI8d, .k_multiple = 64, .row_params = true};
// int8 rows, 16 by 64: AMX's A tiles, one after another.
[[maybe_unused]] static constexpr LhsLayout kI8Panels16{
    .element = Format::kI8, .m_unit = 16, .k_interleave = 64, .k_multiple = 64};
[[maybe_unused]] static constexpr LhsLayout kU8Panels16{
    .element = Format::kU8, .m_unit = 16, .k_interleave = 64, .k_multiple = 64};
[[maybe_unused]] static constexpr LhsLayout kI8dPanels16{
    .element = Format::kI8d, .m_unit = 16, .k_interleave = 64, .k_multiple = 64, .row_params = true};
// 16-bit floats widened: what float32 tiles read; and float32 narrowed.
[[maybe_unused]] static constexpr LhsLayout kF32Rows{.element = Format::kF32};
[[maybe_unused]] static constexpr LhsLayout kF16Rows{.element = Format::kF16};
// Rows in blocks of 32 with a scale each (ggml's q8_0 form of the left side).
[[maybe_unused]] static constexpr LhsLayout kI8bRows{.element = Format::kI8b, .k_multiple = 64, .block = 32};
// Rows split in two bf16 terms, 16 by 32: AMX's A tiles, whose rows are whole cache lines.
[[maybe_unused]] static constexpr LhsLayout kBf16Terms2Panels{
    .element = Format::kBf16x2, .m_unit = 16, .k_interleave = 32, .k_multiple = 32};
[[maybe_unused]] static constexpr LhsLayout kBf16Terms3Panels{
    .element = Format::kBf16x3, .m_unit = 16, .k_interleave = 32, .k_multiple = 32};
// The same tiles of 16-bit floats.
[[maybe_unused]] static constexpr LhsLayout kBf16Panels{
    .element = Format::kBf16, .m_unit = 16, .k_interleave = 32, .k_multiple = 32};
[[maybe_unused]] static constexpr LhsLayout kF16Panels{
    .element = Format::kF16, .m_unit = 16, .k_interleave = 32, .k_multiple = 32};
// Units and panels of two streaming vectors: SME's tiles, two by two.
[[maybe_unused]] static constexpr PackLayout kF32Sme{
    .element = Format::kF32, .n_unit = 2, .n_scale = VectorScale::kSme};
[[maybe_unused]] static constexpr LhsLayout kF32SmePanels{
    .element = Format::kF32, .m_unit = 2, .m_scale = VectorScale::kSme};

}  // namespace quern::ukernel
