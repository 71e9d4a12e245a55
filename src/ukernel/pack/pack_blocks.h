// Fast packers of blocks along K into units of 16 columns, or of 8 on Arm, in C++ that compilers vectorize. For kernel
// files only: internal linkage, their flags.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/pack.h"

namespace quern::ukernel {
namespace {

template <size_t kColumns>
using Dwords = uint32_t[kColumns];  // one per column

// The four dwords at from[c] + at of each column.
template <size_t kColumns>
inline void LoadDwords(const uint8_t* const (&from)[kColumns], size_t at, Dwords<kColumns> (&x)[4]) {
  typedef uint32_t Four __attribute__((vector_size(16)));
  for (size_t c = 0; c < kColumns; c += 4) {
    Four r[4];
    for (size_t i = 0; i < 4; ++i) __builtin_memcpy(&r[i], from[c + i] + at, sizeof(Four));
    const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const Four d = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5), e = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    const Four columns[4] = {__builtin_shufflevector(a, d, 0, 1, 4, 5), __builtin_shufflevector(a, d, 2, 3, 6, 7),
                             __builtin_shufflevector(b, e, 0, 1, 4, 5), __builtin_shufflevector(b, e, 2, 3, 6, 7)};
    for (size_t i = 0; i < 4; ++i) __builtin_memcpy(&x[i][c], &columns[i], sizeof(Four));
  }
}

// Each kind of blocks: kSource, kElement; kHeader, bytes before a block's elements; Line(dword): what a dword of the
// source is in a unit, or, if kFours, Lines(x): four together.
struct Nibbles {  // MatMulNBits
  static constexpr Format kSource = Format::kU4, kElement = Format::kU4;
  static constexpr size_t kHeader = 0;
  static constexpr bool kFours = false;

  // The four nibbles in the low half, one per byte.
  static uint32_t Spread(uint32_t x) {
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
  }
  static uint32_t Line(uint32_t x) { return Spread(x & 0xffffu) | Spread(x >> 16) << 4; }
};

struct Pairs {  // of bits; MatMulNBits
  static constexpr Format kSource = Format::kU2, kElement = Format::kU2;
  static constexpr size_t kHeader = 0;
  static constexpr bool kFours = false;

  static uint32_t Line(uint32_t x) {  // the transpose of 4 x 4 fields
    uint32_t swap = (x ^ x >> 6) & 0x00cc00ccu;
    x ^= swap ^ swap << 6;
    swap = (x ^ x >> 12) & 0x0000f0f0u;
    return x ^ swap ^ swap << 12;
  }
};

template <Format source, Format element, size_t header>
struct Bytes {
  static constexpr Format kSource = source, kElement = element;
  static constexpr size_t kHeader = header;
  static constexpr bool kFours = false;

  static uint32_t Line(uint32_t x) { return x; }
};

// Bytes with k in the low and k + 16 in the high bits.
template <Format source, size_t header>
struct Halves {
  static constexpr Format kSource = source, kElement = Format::kU4;
  static constexpr size_t kHeader = header;
  static constexpr bool kFours = true;

  template <size_t kColumns>
  static void Lines(Dwords<kColumns> (&x)[4]) {
    for (size_t c = 0; c < kColumns; ++c) {
      const uint32_t a = x[0][c], b = x[1][c], d = x[2][c], e = x[3][c];
      x[0][c] = (a & 0x0f0f0f0fu) | (b & 0x0f0f0f0fu) << 4;
      x[1][c] = (d & 0x0f0f0f0fu) | (e & 0x0f0f0f0fu) << 4;
      x[2][c] = (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u);
      x[3][c] = (d >> 4 & 0x0f0f0f0fu) | (e & 0xf0f0f0f0u);
    }
  }
};

// Sums of the fields of a line, into two halves of 16 bits each.
template <Format kElement, size_t kColumns>
inline void AddFields(const Dwords<kColumns>& line, Dwords<kColumns>& low, Dwords<kColumns>& high) {
  constexpr unsigned kBits = FormatBits(kElement);
  for (size_t c = 0; c < kColumns; ++c) {
    uint32_t x = line[c];
    if (kElement == Format::kI8) x ^= 0x80808080u;
    if (kBits == 4) x = (x & 0x0f0f0f0fu) + (x >> 4 & 0x0f0f0f0fu);
    if (kBits == 2) {
      x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
      x = (x & 0x0f0f0f0fu) + (x >> 4 & 0x0f0f0f0fu);
    }
    low[c] += x & 0x00ff00ffu;
    high[c] += x >> 8 & 0x00ff00ffu;
  }
}

// A line of groups of 8 k from two of groups of 4.
template <Format kElement, size_t kColumns>
inline void StoreEights(const Dwords<kColumns>& a, const Dwords<kColumns>& b, char* line) {
  constexpr unsigned kBits = FormatBits(kElement);
  uint32_t out[2 * kColumns];
  for (size_t c = 0; c < kColumns; ++c) {
    uint32_t first = a[c], second = b[c];
    if (kBits == 4) {
      first = (a[c] & 0x0f0f0f0fu) | (b[c] & 0x0f0f0f0fu) << 4;
      second = (a[c] >> 4 & 0x0f0f0f0fu) | (b[c] & 0xf0f0f0f0u);
    }
    if (kBits == 2) {  // fields 0 and 2 of each, then 1 and 3
      const auto even = [](uint32_t x) { return (x & 0x03030303u) | (x >> 2 & 0x0c0c0c0cu); };
      first = even(a[c]) | even(b[c]) << 4;
      second = even(a[c] >> 2) | even(b[c] >> 2) << 4;
    }
    out[2 * c] = first;
    out[2 * c + 1] = second;
  }
  __builtin_memcpy(line, out, sizeof(out));
}

struct BlockNumbers {
  float scale = 1, zero = 0, minimum = 0;
};

template <class S>
BlockNumbers NumbersOf(const RhsSource& s, const uint8_t* block, size_t n, size_t b) {
  BlockNumbers x;
  if constexpr (IsGguf(S::kSource)) {
    x.scale = F16BitsToF32(LoadAs<uint16_t>(block));
    if (S::kSource == Format::kQ4_0) x.zero = 8;
    if (S::kSource == Format::kQ4_1) x.minimum = F16BitsToF32(LoadAs<uint16_t>(block + 2));
    return x;
  }
  constexpr size_t kBits = FormatBits(S::kSource);
  x.scale =
      LoadFloat(s.scale_format, static_cast<const char*>(s.scales) + static_cast<ptrdiff_t>(n) * s.scale_n_stride +
                                    static_cast<ptrdiff_t>(b) * s.scale_block_stride);
  x.zero = static_cast<float>(1u << (kBits - 1));
  if (s.zero_points) {
    const auto* z = static_cast<const uint8_t*>(s.zero_points) + static_cast<ptrdiff_t>(n) * s.zero_point_n_stride;
    if (IsFloatFormat(s.zero_point_format)) {
      x.zero = LoadFloat(s.zero_point_format, z + b * FormatBytes(s.zero_point_format));
    } else {
      x.zero = static_cast<float>(z[b * kBits / 8] >> (b * kBits % 8) & ((1u << kBits) - 1));
    }
  }
  return x;
}

template <class S, size_t kColumns, size_t kGroup>
uint32_t PackBlocks(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                    size_t unit_end, void* packed) {
  constexpr size_t kBits = FormatBits(S::kElement);
  constexpr size_t kPieceK = 32 / kBits * (S::kFours ? 4 : kGroup / 4);
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  for (size_t u = unit_begin; u < unit_end; ++u) {
    // Few columns, the end of K, and blocks that are no whole lines go the slow way.
    if ((u + 1) * kColumns > shape.n || shape.k % shape.block || shape.block % kPieceK || shape.block > 512) {
      PackRhs(layout, shape, s, u, u + 1, packed);
      continue;
    }
    char* unit = base + g.UnitOffset(u);
    char* line = unit;
    float sums[kColumns] = {};
    for (size_t b = 0; b < g.blocks; ++b) {
      const uint8_t *blocks[kColumns], *from[kColumns];
      for (size_t c = 0; c < kColumns; ++c) {
        blocks[c] = static_cast<const uint8_t*>(s.data) + static_cast<ptrdiff_t>(u * kColumns + c) * s.n_stride +
                    static_cast<ptrdiff_t>(b) * s.block_stride;
        from[c] = blocks[c] + S::kHeader;
      }
      Dwords<kColumns> low = {}, high = {};
      const size_t bytes = shape.block * kBits / 8;
      for (size_t at = 0; at < bytes;) {
        Dwords<kColumns> x[4];
        const size_t count = bytes - at < 16 ? (bytes - at) / 4 : 4;
        if (count == 4) {
          LoadDwords<kColumns>(from, at, x);
        } else {  // blocks of 16, or of few bits
          for (size_t i = 0; i < count; ++i) {
            for (size_t c = 0; c < kColumns; ++c) __builtin_memcpy(&x[i][c], from[c] + at + 4 * i, 4);
          }
        }
        if constexpr (S::kFours) S::template Lines<kColumns>(x);
        for (size_t i = 0; i < count; ++i, line += sizeof(x[0]), at += 4) {
          if constexpr (!S::kFours) {
            for (size_t c = 0; c < kColumns; ++c) x[i][c] = S::Line(x[i][c]);
          }
          AddFields<S::kElement, kColumns>(x[i], low, high);
          if (kGroup == 4) __builtin_memcpy(line, x[i], sizeof(x[0]));
          if (kGroup == 8 && i % 2) StoreEights<S::kElement, kColumns>(x[i - 1], x[i], line - sizeof(x[0]));
        }
      }
      for (size_t c = 0; c < kColumns; ++c) {
        const BlockNumbers x = NumbersOf<S>(s, blocks[c], u * kColumns + c, b);
        const size_t at = b * kColumns + c;
        StoreFloat(layout.scale, unit + g.scales_offset + at * FormatBytes(layout.scale), x.scale);
        if (layout.offset == Format::kU8) unit[g.offsets_offset + at] = static_cast<char>(static_cast<int>(x.zero));
        if (layout.offset == Format::kF32) {
          StoreAs(unit + g.offsets_offset + at * sizeof(float), x.minimum - x.scale * x.zero);
        }
        const uint32_t fields = (low[c] & 0xffffu) + (low[c] >> 16) + (high[c] & 0xffffu) + (high[c] >> 16);
        const int total =
            static_cast<int>(fields) - (S::kElement == Format::kI8 ? 128 * static_cast<int>(shape.block) : 0);
        const float count = static_cast<float>(shape.block);
        sums[c] += x.scale * (static_cast<float>(total) - x.zero * count) + x.minimum * count;
      }
    }
    const auto clear = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) unit[i] = 0;
    };
    const size_t blocks = g.blocks * kColumns;
    clear(static_cast<size_t>(line - unit), g.scales_offset);
    clear(g.scales_offset + blocks * FormatBytes(layout.scale), g.offsets_offset);
    clear(g.offsets_offset + blocks * FormatBytes(layout.offset), g.unit_stride);
    if (layout.sums == Format::kF32) __builtin_memcpy(base + g.sums_offset + u * sizeof(sums), sums, sizeof(sums));
  }
  return kPackFine;
}

// `layout` as it is on x86, kColumns 16 and kGroup 4, or on Arm.
template <class S, size_t kColumns = 16, size_t kGroup = 4>
constexpr PackKernel BlocksPacker(const PackLayout& layout, float cycles) {
  return {.isa = kIsa,
          .layout = layout,
          .source = S::kSource,
          .blocks = true,
          .cycles_per_element = cycles,
          .run = QUERN_ISA_HERE ? PackBlocks<S, kColumns, kGroup> : nullptr};
}

using BytesU8 = Bytes<Format::kU8, Format::kU8, 0>;
using BytesQ8 = Bytes<Format::kQ8_0, Format::kI8, 2>;
using HalvesQ4 = Halves<Format::kQ4_0, 2>;
using HalvesQ4WithMinimum = Halves<Format::kQ4_1, 4>;

struct BlockPackers {
  PackKernel rows[6];
};
[[maybe_unused]] constexpr BlockPackers MakeBlockPackers(float cycles) {
  constexpr PackLayout kFours = Blocks4x16(Format::kF32);
  return {{BlocksPacker<Nibbles>(kFours, cycles),
           BlocksPacker<Pairs>(UnsignedBlocks16(Format::kU2, Format::kF32), cycles),
           BlocksPacker<BytesU8>(UnsignedBlocks16(Format::kU8, Format::kF32), cycles),
           BlocksPacker<HalvesQ4>(kFours, cycles), BlocksPacker<HalvesQ4WithMinimum>(kFours, cycles),
           BlocksPacker<BytesQ8>(Blocks8x16(Format::kF32), cycles)}};
}

}  // namespace
}  // namespace quern::ukernel
