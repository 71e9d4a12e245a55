// Fast packers of 4-bit weights with a scale per channel, rows along K, into units that keep 4 bits: those of
// pack_blocks.h. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/pack/pack_blocks.h"

namespace quern::ukernel {
namespace {

// kTurn: signed numbers, which are stored plus 8.
template <Format source, bool kTurn>
struct ChannelNibbles : Nibbles {
  static constexpr Format kSource = source;
  static constexpr uint8_t kZero = kTurn ? 0 : 0x88;  // two zeros as the source has them

  static Lanes Line(Lanes x) { return Nibbles::Line(kTurn ? x ^ 0x88888888u : x); }
};
using SignedNibbles = ChannelNibbles<Format::kI4, true>;
using UnsignedNibbles = ChannelNibbles<Format::kU4, false>;

// What does not fill 32 k, and zeros up to the padded K, as rows of their own.
template <class S, size_t kColumns>
struct LastNibbles {
  static constexpr size_t kBytes = 32;  // whole lines of 32 k up to a multiple of 64
  uint8_t of[kColumns][kBytes];

  LastNibbles(ColumnRows rows, size_t begin, size_t k) {
    for (size_t c = 0; c < kColumns; ++c) {
      for (size_t i = 0; i < kBytes; ++i) {
        const size_t at = begin + 2 * i;
        uint8_t x = S::kZero;
        if (at < k) x = rows[c][at / 2];
        if (at + 1 == k) x = static_cast<uint8_t>((x & 15) | (S::kZero & 0xf0));
        of[c][i] = x;
      }
    }
  }
};

template <class S, size_t kColumns, size_t kGroup, bool kPast>
char* PackChannelsOfPart(const RhsShape& shape, const RhsGeometry& g, const RhsSource& s,
                         const UnitPart<kColumns>& part) {
  constexpr size_t kWhole = 32;  // k at once
  const LineWriter<kPast> writer;
  const size_t line_bytes = part.line_bytes();
  char* line = part.unit + part.column * kGroup;
  const ColumnRows rows{static_cast<const uint8_t*>(s.data) + static_cast<ptrdiff_t>(part.n) * s.n_stride, s.n_stride};
  const auto row_bytes = static_cast<ptrdiff_t>(CeilDiv(shape.k, size_t{2}));
  Dwords<kColumns> totals[1] = {};
  size_t k = 0;
  for (; k + kWhole <= shape.k; k += kWhole) {
    const auto from = static_cast<ptrdiff_t>(k / 2);
    if (from % 64 == 0) PrefetchNext(rows.first, from, row_bytes, s.n_stride, kColumns);
    line = PackDwords<S, kGroup, 4>(writer, rows.At(from), line, line_bytes, totals);
  }
  if (k < g.padded_k) {
    const LastNibbles<S, kColumns> last(rows, k, shape.k);
    const ColumnRows rest{last.of[0], last.kBytes};
    for (size_t i = 0; i < (g.padded_k - k) / 2; i += 8) {
      line = PackDwords<S, kGroup, 2>(writer, rest.At(static_cast<ptrdiff_t>(i)), line, line_bytes, totals);
    }
  }
  const auto zeros = static_cast<uint32_t>(8 * g.padded_k);
  for (Lanes& total : totals[0].of) total -= zeros;
  __builtin_memcpy(part.base + g.sums_offset + part.n * 4, &totals, sizeof(totals));
  for (size_t c = 0; c < kColumns; ++c) {
    StoreAs(part.base + g.channel_scales_offset + (part.n + c) * 4,
            s.channel_scales ? s.channel_scales[part.n + c] : 1.0f);
  }
  return line - part.column * kGroup;
}

template <class S, size_t kColumns, size_t kGroup, bool kPast>
void PackChannelsOfUnit(const RhsShape& shape, const RhsGeometry& g, const RhsSource& s, size_t u, char* base) {
  char* unit = base + g.UnitOffset(u);
  char* end = unit;
  for (size_t c = 0; c < g.n_unit; c += kColumns) {
    end = PackChannelsOfPart<S, kColumns, kGroup, kPast>(
        shape, g, s, {.base = base, .unit = unit, .n = u * g.n_unit + c, .column = c, .unit_columns = g.n_unit});
  }
  for (; end < unit + g.unit_stride; ++end) *end = 0;
}

template <class S, size_t kColumns, size_t kGroup>
uint32_t PackChannels(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                      size_t unit_end, void* packed) {
  const RhsGeometry g = DescribeRhs(layout, shape);
  const bool past = PassesCaches(g.total_bytes);
  for (size_t u = unit_begin; u < unit_end; ++u) {
    if ((u + 1) * g.n_unit > shape.n) {  // few columns go the slow way
      PackRhs(layout, shape, s, u, u + 1, packed);
    } else {
      (past ? PackChannelsOfUnit<S, kColumns, kGroup, kCanPassCaches>
            : PackChannelsOfUnit<S, kColumns, kGroup, false>)(shape, g, s, u, static_cast<char*>(packed));
    }
  }
  if (past) LineWriter<kCanPassCaches>::Fence();
  return kPackFine;
}

// Of both signs, for a layout of units of kColumns or several times that.
struct ChannelPackers {
  PackKernel rows[2];
};
template <size_t kColumns, size_t kGroup>
constexpr ChannelPackers MakeChannelPackers(const PackLayout& layout, float cycles) {
  PackKernel row{.isa = kIsa, .layout = layout, .source = Format::kI4, .cycles_per_element = cycles};
  if (QUERN_ISA_HERE) row.run = PackChannels<SignedNibbles, kColumns, kGroup>;
  ChannelPackers all{{row, row}};
  all.rows[1].source = Format::kU4;
  if (QUERN_ISA_HERE) all.rows[1].run = PackChannels<UnsignedNibbles, kColumns, kGroup>;
  return all;
}

}  // namespace
}  // namespace quern::ukernel
