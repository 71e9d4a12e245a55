// Fast packers of blocks along K into units of 16 columns, or of multiples of 8 on Arm, in C++ that compilers
// vectorize. For kernel files only: internal linkage, their flags.
#pragma once

#include "ukernel/convert.h"
#include "ukernel/pack.h"
#include "ukernel/pack/dword_lanes.h"
#include "ukernel/pack/line_stream.h"

namespace quern::ukernel {
namespace {

template <size_t kColumns>
struct Dwords {  // one per column
  static constexpr size_t kVectors = kColumns / kLanes;
  Lanes of[kVectors];
};

// The first dwords of each column.
template <size_t kColumns, size_t kCount>
inline void LoadDwords(ColumnRows from, Dwords<kColumns> (&x)[kCount]) {
  for (size_t v = 0; v < kColumns / kLanes; ++v) {
    Lanes lanes[kCount];
    LoadLanes(from.From(v * kLanes), lanes);
    for (size_t i = 0; i < kCount; ++i) x[i].of[v] = lanes[i];
  }
}

// Each kind of blocks: kSource, kElement; kHeader, bytes before a block's elements; Line(dword): what a dword of the
// source is in a unit, or, if kFours, Lines(x): four together.
struct Nibbles {  // MatMulNBits
  static constexpr Format kSource = Format::kU4, kElement = Format::kU4;
  static constexpr size_t kHeader = 0;
  static constexpr bool kFours = false;

  static Lanes Line(Lanes x) {  // the low and the high half interleaved
    x = SwapMiddleBytes(x);
    const Lanes swap = (x ^ x >> 4) & 0x00f000f0u;
    return x ^ swap ^ swap << 4;
  }
};

struct Pairs {  // of bits; MatMulNBits
  static constexpr Format kSource = Format::kU2, kElement = Format::kU2;
  static constexpr size_t kHeader = 0;
  static constexpr bool kFours = false;

  static Lanes Line(Lanes x) {  // the transpose of 4 x 4 fields
    Lanes swap = (x ^ x >> 6) & 0x00cc00ccu;
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

  static Lanes Line(Lanes x) { return x; }
};

// Bytes with k in the low and k + 16 in the high bits.
template <Format source, size_t header>
struct Halves {
  static constexpr Format kSource = source, kElement = Format::kU4;
  static constexpr size_t kHeader = header;
  static constexpr bool kFours = true;

  template <size_t kColumns>
  static void Lines(Dwords<kColumns> (&x)[4]) {
    for (size_t v = 0; v < x[0].kVectors; ++v) {
      const Lanes a = x[0].of[v], b = x[1].of[v], d = x[2].of[v], e = x[3].of[v];
      x[0].of[v] = (a & 0x0f0f0f0fu) | (b & 0x0f0f0f0fu) << 4;
      x[1].of[v] = (d & 0x0f0f0f0fu) | (e & 0x0f0f0f0fu) << 4;
      x[2].of[v] = (a >> 4 & 0x0f0f0f0fu) | (b & 0xf0f0f0f0u);
      x[3].of[v] = (d >> 4 & 0x0f0f0f0fu) | (e & 0xf0f0f0f0u);
    }
  }
};

// Sums of the fields of `count` <= 4 lines, the top bit of int8 turned over.
template <Format kElement, size_t kColumns>
inline void AddFields(const Dwords<kColumns>* lines, size_t count, Dwords<kColumns>& sums) {
  constexpr unsigned kBits = FormatBits(kElement);
  for (size_t v = 0; v < sums.kVectors; ++v) {
    Lanes bytes = {}, fours = {};  // 120 at most; 12, of two lines
    for (size_t i = 0; i < count; ++i) {
      const Lanes x = lines[i].of[v];
      if constexpr (kBits == 8) sums.of[v] += SumBytes(kElement == Format::kI8 ? x ^ 0x80808080u : x);
      if constexpr (kBits == 4) bytes += (x & 0x0f0f0f0fu) + (x >> 4 & 0x0f0f0f0fu);
      if constexpr (kBits == 2) {
        fours += (x & 0x33333333u) + (x >> 2 & 0x33333333u);
        if (i % 2 == 0 && i + 1 < count) continue;
        bytes += (fours & 0x0f0f0f0fu) + (fours >> 4 & 0x0f0f0f0fu);
        fours = Lanes{};
      }
    }
    if constexpr (kBits < 8) sums.of[v] += SumBytes(bytes);
  }
}

// A line of groups of 8 k from two of groups of 4.
template <Format kElement, size_t kColumns, class Writer>
inline void StoreEights(Writer writer, const Dwords<kColumns>& a, const Dwords<kColumns>& b, char* line) {
  constexpr unsigned kBits = FormatBits(kElement);
  static_assert(Dwords<kColumns>::kVectors == kColumns / 4, "as wide as NEON");
  for (size_t v = 0; v < a.kVectors; ++v, line += 2 * sizeof(Lanes)) {
    Lanes first = a.of[v], second = b.of[v];
    if (kBits == 4) {
      first = (a.of[v] & 0x0f0f0f0fu) | (b.of[v] & 0x0f0f0f0fu) << 4;
      second = (a.of[v] >> 4 & 0x0f0f0f0fu) | (b.of[v] & 0xf0f0f0f0u);
    }
    if (kBits == 2) {  // fields 0 and 2 of each, then 1 and 3
      const auto even = [](Lanes x) { return (x & 0x03030303u) | (x >> 2 & 0x0c0c0c0cu); };
      first = even(a.of[v]) | even(b.of[v]) << 4;
      second = even(a.of[v] >> 2) | even(b.of[v] >> 2) << 4;
    }
    writer.Put(line, __builtin_shufflevector(first, second, 0, 4, 1, 5));
    writer.Put(line + sizeof(Lanes), __builtin_shufflevector(first, second, 2, 6, 3, 7));
  }
}

// Scales, zero points, minima and sums of the elements of consecutive blocks of a unit.
template <size_t kColumns>
struct BlockNumbers {
  static constexpr size_t kBlocks = 16;
  alignas(64) float scale[kBlocks][kColumns], zero[kBlocks][kColumns], minimum[kBlocks][kColumns];
  Dwords<kColumns> total[kBlocks];
};

// Of blocks [b, b + count) of GGUF; `rows` are at block 0 of each column.
template <class S, size_t kColumns>
void LoadGgufNumbers(ColumnRows rows, ptrdiff_t block_stride, size_t b, size_t count, BlockNumbers<kColumns>& x) {
  for (size_t i = 0; i < count; ++i) {
    const ColumnRows at = rows.At(static_cast<ptrdiff_t>(b + i) * block_stride);
    for (size_t c = 0; c < kColumns; c += kLanes) {
      if constexpr (S::kSource == Format::kQ4_1) {
        Lanes both[1];
        LoadLanes(at.From(c), both);
        StoreAs(x.scale[i] + c, WidenHalves<Format::kF16>(__builtin_convertvector(both[0], HalfLanes)));
        StoreAs(x.minimum[i] + c, WidenHalves<Format::kF16>(__builtin_convertvector(both[0] >> 16, HalfLanes)));
      } else {
        StoreAs(x.scale[i] + c, LoadF16(at.From(c)));
      }
    }
  }
}

// Of blocks [b, b + count) of MatMulNBits, columns from `n` on, with scales beside them.
template <class S, size_t kColumns>
void LoadScales(const RhsSource& s, size_t blocks, size_t n, size_t b, size_t count, BlockNumbers<kColumns>& x) {
  const uint8_t* first = static_cast<const uint8_t*>(s.scales) + static_cast<ptrdiff_t>(n) * s.scale_n_stride;
  const ptrdiff_t begin = static_cast<ptrdiff_t>(b) * s.scale_block_stride;
  PrefetchNext(first, begin, static_cast<ptrdiff_t>(blocks) * s.scale_block_stride, s.scale_n_stride, kColumns);
  const ColumnRows rows{first + begin, s.scale_n_stride};
  size_t i = 0;
  if (s.scale_format == Format::kF32 && s.scale_block_stride == sizeof(float)) {
    for (; i + 4 <= count; i += 4) {
      Dwords<kColumns> four[4];
      LoadDwords<kColumns>(rows.At(static_cast<ptrdiff_t>(i * sizeof(float))), four);
      for (size_t j = 0; j < 4; ++j) __builtin_memcpy(x.scale[i + j], &four[j], sizeof(four[j]));
    }
  }
  for (; i < count; ++i) {
    for (size_t c = 0; c < kColumns; ++c) {
      x.scale[i][c] = LoadFloat(s.scale_format, rows[c] + static_cast<ptrdiff_t>(i) * s.scale_block_stride);
    }
  }
}

template <class S, size_t kColumns>
void LoadZeroPoints(const RhsSource& s, size_t n, size_t b, size_t count, BlockNumbers<kColumns>& x) {
  constexpr size_t kBits = FormatBits(S::kSource), kPerDword = 32 / kBits;
  constexpr unsigned kMask = (1u << kBits) - 1;
  const ColumnRows rows{static_cast<const uint8_t*>(s.zero_points) + static_cast<ptrdiff_t>(n) * s.zero_point_n_stride,
                        s.zero_point_n_stride};
  size_t i = 0;
  if (IsFloatFormat(s.zero_point_format)) {
    for (; i < count; ++i) {
      for (size_t c = 0; c < kColumns; ++c) {
        x.zero[i][c] = LoadFloat(s.zero_point_format, rows[c] + (b + i) * FormatBytes(s.zero_point_format));
      }
    }
    return;
  }
  for (; i + kPerDword <= count; i += kPerDword) {
    for (size_t c = 0; c < kColumns; c += kLanes) {
      Lanes packed[1];
      LoadLanes(rows.From(c).At(static_cast<ptrdiff_t>((b + i) * kBits / 8)), packed);
      for (size_t j = 0; j < kPerDword; ++j, packed[0] >>= kBits) {
        const FloatLanes zero = __builtin_convertvector((IntLanes)(packed[0] & kMask), FloatLanes);
        __builtin_memcpy(x.zero[i + j] + c, &zero, sizeof(zero));
      }
    }
  }
  for (; i < count; ++i) {
    for (size_t c = 0; c < kColumns; ++c) {
      const size_t bit = (b + i) * kBits;
      x.zero[i][c] = static_cast<float>(rows[c][bit / 8] >> (bit % 8) & kMask);
    }
  }
}

// Lines of kCount dwords of each column, of as many blocks as there are totals, to a unit whose lines are `line_bytes`
// long.
template <class S, size_t kGroup, size_t kCount, class Writer, size_t kColumns, size_t kBlocks>
inline char* PackDwords(Writer writer, ColumnRows rows, char* line, size_t line_bytes,
                        Dwords<kColumns> (&totals)[kBlocks]) {
  Dwords<kColumns> x[kCount];
  LoadDwords(rows, x);
  if constexpr (S::kFours) {
    S::Lines(x);
  } else {
    for (size_t i = 0; i < kCount; ++i) {
      for (Lanes& lanes : x[i].of) lanes = S::Line(lanes);
    }
  }
  constexpr size_t kOfBlock = kCount / kBlocks;
  for (size_t i = 0; i < kBlocks; ++i) AddFields<S::kElement>(x + i * kOfBlock, kOfBlock, totals[i]);
  for (size_t i = 0; i < kCount; i += kGroup / 4) {
    if constexpr (kGroup == 8) {
      StoreEights<S::kElement>(writer, x[i], x[i + 1], line + i * line_bytes);
    } else {
      for (size_t v = 0; v < kColumns / kLanes; ++v) {
        writer.Put(line + i * line_bytes + v * sizeof(Lanes), x[i].of[v]);
      }
    }
  }
  return line + kCount * line_bytes;
}

// kColumns columns of a unit: where they are in the source, in the unit and in memory.
template <size_t kColumns>
struct UnitPart {
  char* base;  // of what is packed
  char* unit;
  size_t n = 0, column = 0;  // the first, of all and of the unit
  size_t unit_columns;

  size_t line_bytes() const { return unit_columns * 4; }
};

// What a unit holds of the numbers of blocks [b, b + count), and their part of its sums.
template <class S, size_t kColumns, class Writer>
void StoreNumbers(Writer writer, const PackLayout& layout, const RhsShape& shape, const RhsGeometry& g,
                  const BlockNumbers<kColumns>& x, size_t b, size_t count, const UnitPart<kColumns>& part,
                  FloatLanes (&sums)[kColumns / kLanes]) {
  const auto each = [&](const auto& run) {  // run(block of the piece, column of the part, number of the unit)
    for (size_t i = 0; i < count; ++i) {
      const size_t at = (b + i) * part.unit_columns + part.column;
      for (size_t c = 0; c < kColumns; c += kLanes) run(i, c, at + c);
    }
  };
  const auto load = [](const float* p) { return LoadAs<FloatLanes>(p); };
  char *scales = part.unit + g.scales_offset, *offsets = part.unit + g.offsets_offset;
  if (layout.scale == Format::kF32) {
    each([&](size_t i, size_t c, size_t at) { writer.Put(scales + at * 4, load(x.scale[i] + c)); });
  } else {
    each([&](size_t i, size_t c, size_t at) { StoreHalves(layout.scale, load(x.scale[i] + c), scales + at * 2); });
  }
  if (layout.offset == Format::kU8) {
    each([&](size_t i, size_t c, size_t at) {
      for (size_t j = 0; j < kLanes; ++j) offsets[at + j] = static_cast<char>(static_cast<int>(x.zero[i][c + j]));
    });
  }
  if (layout.offset == Format::kF32) {
    each([&](size_t i, size_t c, size_t at) {
      writer.Put(offsets + at * 4, load(x.minimum[i] + c) - load(x.scale[i] + c) * load(x.zero[i] + c));
    });
  }
  const float block = static_cast<float>(shape.block);
  const int32_t turned = S::kElement == Format::kI8 ? 128 * static_cast<int32_t>(shape.block) : 0;
  for (size_t v = 0; v < kColumns / kLanes; ++v) {
    for (size_t i = 0; i < count; ++i) {
      const size_t c = v * kLanes;
      const FloatLanes total = __builtin_convertvector((IntLanes)x.total[i].of[v] - turned, FloatLanes);
      FloatLanes sum = load(x.scale[i] + c) * (total - load(x.zero[i] + c) * block);
      if (S::kSource == Format::kQ4_1) sum += load(x.minimum[i] + c) * block;
      sums[v] += sum;
    }
  }
}

// Elements and numbers of a part; returns the end of its last line.
template <class S, size_t kColumns, size_t kGroup, bool kPast>
char* PackBlocksOfPart(const PackLayout& layout, const RhsShape& shape, const RhsGeometry& g, const RhsSource& s,
                       const UnitPart<kColumns>& part) {
  constexpr size_t kBits = FormatBits(S::kElement);
  const LineWriter<kPast> writer;
  const size_t line_bytes = part.line_bytes();
  char* line = part.unit + part.column * kGroup;
  const ColumnRows rows{static_cast<const uint8_t*>(s.data) + static_cast<ptrdiff_t>(part.n) * s.n_stride, s.n_stride};
  BlockNumbers<kColumns> numbers;
  const float zero_point = IsGguf(S::kSource) ? S::kSource == Format::kQ4_0 ? 8 : 0 : 1u << (kBits - 1);
  for (size_t i = 0; i < numbers.kBlocks * kColumns; i += kLanes) {
    StoreAs(numbers.zero[0] + i, FloatLanes{} + zero_point);
    StoreAs(numbers.minimum[0] + i, FloatLanes{});
  }
  const auto bytes = static_cast<ptrdiff_t>(shape.block * kBits / 8);
  // Numbers inside of blocks are read before the elements of all that BlockNumbers holds.
  const ptrdiff_t row_bytes = static_cast<ptrdiff_t>(g.blocks) * s.block_stride;
  FloatLanes sums[kColumns / kLanes] = {};
  for (size_t b = 0; b < g.blocks; b += numbers.kBlocks) {
    const size_t count = g.blocks - b < numbers.kBlocks ? g.blocks - b : numbers.kBlocks;
    if constexpr (IsGguf(S::kSource)) {
      LoadGgufNumbers<S>(rows, s.block_stride, b, count, numbers);
    } else {
      LoadScales<S>(s, g.blocks, part.n, b, count, numbers);
      if (s.zero_points) LoadZeroPoints<S>(s, part.n, b, count, numbers);
    }
    ptrdiff_t begin = static_cast<ptrdiff_t>(b) * s.block_stride + static_cast<ptrdiff_t>(S::kHeader), fetched = begin;
    for (size_t i = 0; i < count; ++i, begin += s.block_stride) {
      if (begin >= fetched) {
        fetched += 64;
        PrefetchNext<kBits == 8 ? Ahead{128, 1024} : kAhead>(rows.first, begin, row_bytes, s.n_stride, kColumns);
      }
      if constexpr (!S::kFours) {
        if (bytes == 8 && s.block_stride == 8 && i + 2 <= count) {
          Dwords<kColumns> totals[2] = {};
          line = PackDwords<S, kGroup, 4>(writer, rows.At(begin), line, line_bytes, totals);
          __builtin_memcpy(&numbers.total[i++], totals, sizeof(totals));
          begin += 8;
          continue;
        }
      }
      Dwords<kColumns> total[1] = {};
      ptrdiff_t from = begin;
      for (; from + 16 <= begin + bytes; from += 16) {
        line = PackDwords<S, kGroup, 4>(writer, rows.At(from), line, line_bytes, total);
      }
      if constexpr (!S::kFours) {  // blocks of 16, or of few bits
        for (; from + 8 <= begin + bytes; from += 8) {
          line = PackDwords<S, kGroup, 2>(writer, rows.At(from), line, line_bytes, total);
        }
        if constexpr (kGroup == 4) {
          if (from < begin + bytes) {
            line = PackDwords<S, kGroup, 1>(writer, rows.At(from), line, line_bytes, total);
          }
        }
      }
      numbers.total[i] = total[0];
    }
    StoreNumbers<S>(writer, layout, shape, g, numbers, b, count, part, sums);
  }
  if (layout.sums == Format::kF32) __builtin_memcpy(part.base + g.sums_offset + part.n * 4, sums, sizeof(sums));
  return line - part.column * kGroup;
}

// kScaled: the unit is several times kColumns wide.
template <class S, size_t kColumns, size_t kGroup, bool kScaled, bool kPast>
void PackBlocksOfUnit(const PackLayout& layout, const RhsShape& shape, const RhsGeometry& g, const RhsSource& s,
                      size_t u, char* base) {
  UnitPart<kColumns> part{.base = base, .unit = base + g.UnitOffset(u), .unit_columns = kScaled ? g.n_unit : kColumns};
  char* end = part.unit;
  for (size_t c = 0; c < part.unit_columns; c += kColumns) {
    part.n = u * part.unit_columns + c;
    part.column = c;
    end = PackBlocksOfPart<S, kColumns, kGroup, kPast>(layout, shape, g, s, part);
  }
  const auto clear = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) part.unit[i] = 0;
  };
  const size_t numbers = g.blocks * part.unit_columns;
  clear(static_cast<size_t>(end - part.unit), g.scales_offset);
  clear(g.scales_offset + numbers * FormatBytes(layout.scale), g.offsets_offset);
  clear(g.offsets_offset + numbers * FormatBytes(layout.offset), g.unit_stride);
}

template <class S, size_t kColumns, size_t kGroup, bool kScaled>
uint32_t PackBlocks(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                    size_t unit_end, void* packed) {
  constexpr size_t kPieceK = 32 / FormatBits(S::kElement) * (S::kFours ? 4 : kGroup / 4);
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  const bool past = PassesCaches(g.total_bytes);
  for (size_t u = unit_begin; u < unit_end; ++u) {
    // Few columns, the end of K, and blocks that are no whole lines go the slow way.
    if ((u + 1) * g.n_unit > shape.n || shape.k % shape.block || shape.block % kPieceK) {
      PackRhs(layout, shape, s, u, u + 1, packed);
    } else if (past) {
      PackBlocksOfUnit<S, kColumns, kGroup, kScaled, kCanPassCaches>(layout, shape, g, s, u, base);
    } else {
      PackBlocksOfUnit<S, kColumns, kGroup, kScaled, false>(layout, shape, g, s, u, base);
    }
  }
  if (past) LineWriter<kCanPassCaches>::Fence();
  return kPackFine;
}

// `layout` as it is on x86, kColumns 16 and kGroup 4, or on Arm.
template <class S, size_t kColumns = 16, size_t kGroup = 4, bool kScaled = false>
constexpr PackKernel BlocksPacker(const PackLayout& layout, float cycles) {
  return {.isa = kIsa,
          .layout = layout,
          .source = S::kSource,
          .blocks = true,
          .cycles_per_element = cycles,
          .run = QUERN_ISA_HERE ? PackBlocks<S, kColumns, kGroup, kScaled> : nullptr};
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
