// Fast packers of int8 units ([K/4][16][4], int32 sums) from row-major bytes. For kernel files only: internal linkage,
// their flags.
#pragma once

#include "ukernel/pack.h"
#include "ukernel/pack/pack_lines.h"

namespace quern::ukernel {
namespace {

// A group of 4 k of a unit is a line of 64 bytes. L describes what an ISA does with one:
//   Transpose        squares of 4-byte elements, as in pack_f32.h
//   V                vectors of int32
//   GroupSums(V x)   the sum of the four int8 in each element
constexpr size_t kLine = kLineBytes, kLineColumns = kUnitColumns, kLineK = 4;

typedef uint8_t Bytes16 __attribute__((vector_size(16)));

inline Bytes16 LoadBytes16(const char* p) {
  Bytes16 x;
  __builtin_memcpy(&x, p, 16);
  return x;
}

// Four rows of 16 columns, `stride` apart, to the vectors of a line.
template <class V>
inline void InterleaveLine(const char* from, ptrdiff_t stride, V* line) {
  const Bytes16 a = LoadBytes16(from), b = LoadBytes16(from + stride);
  const Bytes16 c = LoadBytes16(from + 2 * stride), d = LoadBytes16(from + 3 * stride);
  typedef uint16_t Pairs8 __attribute__((vector_size(16)));
  const auto low = [](Bytes16 x, Bytes16 y) {
    return (Pairs8)__builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  };
  const auto high = [](Bytes16 x, Bytes16 y) {
    return (Pairs8)__builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  };
  const Pairs8 ab[2] = {low(a, b), high(a, b)}, cd[2] = {low(c, d), high(c, d)};
  for (int i = 0; i < 2; ++i) {
    const Pairs8 first = __builtin_shufflevector(ab[i], cd[i], 0, 8, 1, 9, 2, 10, 3, 11);
    const Pairs8 second = __builtin_shufflevector(ab[i], cd[i], 4, 12, 5, 13, 6, 14, 7, 15);
    if constexpr (sizeof(V) == 32) {
      line[i] = (V)__builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    } else {
      line[2 * i] = (V)first;
      line[2 * i + 1] = (V)second;
    }
  }
}

template <class L>
struct LineVectors {
  static constexpr size_t kCount = kLine / sizeof(typename L::V);
  typename L::V of[kCount];

  void Load(const char* p) { __builtin_memcpy(of, p, kLine); }
  void Store(char* p) const { __builtin_memcpy(p, of, kLine); }

  // Turns over the top bits (unsigned less 128), and adds the elements to the sums of 16 columns.
  template <bool kTurn>
  void Finish(LineVectors& sums) {
    for (size_t i = 0; i < kCount; ++i) {
      if (kTurn) of[i] ^= typename L::V{} + static_cast<int32_t>(0x80808080u);
      sums.of[i] += L::GroupSums(of[i]);
    }
  }
};

// A line at an edge: `columns` by `count` elements, zeros (as stored) for the rest.
template <bool kTurn>
void EdgeLine(const char* from, ptrdiff_t k_stride, ptrdiff_t n_stride, size_t columns, size_t count, char* line) {
  for (size_t c = 0; c < kLineColumns; ++c) {
    for (size_t k = 0; k < kLineK; ++k) {
      const bool real = c < columns && k < count;
      const ptrdiff_t at = static_cast<ptrdiff_t>(k) * k_stride + static_cast<ptrdiff_t>(c) * n_stride;
      line[c * kLineK + k] = real ? from[at] : static_cast<char>(kTurn ? 128 : 0);
    }
  }
}

inline void ClearLines(char* unit, size_t used, size_t stride) {
  for (size_t i = used; i < stride; i += 16) {
    const Bytes16 zero = {};
    __builtin_memcpy(unit + i, &zero, 16);
  }
}

// What comes after the elements of a unit, and its part of the vectors but the sums, which start at zero.
inline void FinishUnit(const PackLayout& layout, const RhsShape& shape, const RhsGeometry& g, const RhsSource& s,
                       size_t u, char* base) {
  const size_t lines = (g.segment_k * shape.segments + kLineK - 1) / kLineK;
  ClearLines(base + g.UnitOffset(u), lines * kLine, g.unit_stride);
  const Bytes16 zero = {};
  for (size_t i = 0; i < kLine; i += 16) __builtin_memcpy(base + g.sums_offset + u * kLine + i, &zero, 16);
  if (!layout.channel_scales) return;
  for (size_t n = u * kLineColumns; n < (u + 1) * kLineColumns; ++n) {
    const float x = n < shape.n && s.channel_scales ? s.channel_scales[n] : 1.0f;
    __builtin_memcpy(base + g.channel_scales_offset + n * 4, &x, 4);
  }
}

// Source with contiguous columns (K x N).
template <class L, bool kTurn>
uint32_t PackI8FromKN(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                      size_t unit_end, void* packed) {
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  for (size_t u = unit_begin; u < unit_end; ++u) FinishUnit(layout, shape, g, s, u, base);
  const auto make = [&](auto writer, size_t u, const char* in, size_t columns, size_t count, char* line) {
    LineVectors<L> x, sums;
    if (columns == kLineColumns && count == kLineK) {
      InterleaveLine(in, s.k_stride, x.of);
    } else {
      char part[kLine];
      EdgeLine<kTurn>(in, s.k_stride, 1, columns, count, part);
      x.Load(part);
    }
    char* unit_sums = base + g.sums_offset + u * kLineColumns * sizeof(int32_t);
    sums.Load(unit_sums);
    x.template Finish<kTurn>(sums);
    sums.Store(unit_sums);
    for (size_t i = 0; i < x.kCount; ++i) writer.Put(line + i * sizeof(x.of[0]), x.of[i]);
  };
  PackLines<kLineK, 1, kLineColumns, kLine>(g, shape, s, unit_begin, unit_end, base, make);
  return kPackFine;
}

// Source with contiguous K (N x K): groups of 4 k are transposed in squares.
template <class L, bool kTurn, bool kPast>
void PackI8Unit(const RhsShape& shape, const RhsGeometry& g, const RhsSource& s, size_t u, char* base) {
  using T = typename L::Transpose;
  const LineWriter<kPast> writer;
  const size_t columns = RealColumns(shape, u);
  LineVectors<L> sums = {};
  const auto finish = [&](const char* from, char* line) {
    LineVectors<L> x;
    x.Load(from);
    x.template Finish<kTurn>(sums);
    for (size_t i = 0; i < x.kCount; ++i) writer.Put(line + i * sizeof(x.of[0]), x.of[i]);
  };
  for (size_t segment = 0; segment < shape.segments; ++segment) {
    const char* from = static_cast<const char*>(s.data) + static_cast<ptrdiff_t>(segment) * s.segment_stride +
                       static_cast<ptrdiff_t>(u * kLineColumns) * s.n_stride;
    char* line = base + g.UnitOffset(u) + segment * g.segment_k * kLineColumns;
    // A line of a row at once: rows a multiple of a page apart push each other out of L1.
    constexpr size_t kSquareK = T::kSide * kLineK, kRunK = 64;
    alignas(64) char stage[kRunK * kLineColumns];
    size_t k = 0;
    for (; columns == kLineColumns && k + kRunK <= shape.k; k += kRunK) {
      PrefetchNext(from, static_cast<ptrdiff_t>(k), static_cast<ptrdiff_t>(shape.k), s.n_stride, kLineColumns);
      for (size_t c = 0; c < kLineColumns; c += T::kSide) {
        const char* in = from + static_cast<ptrdiff_t>(c) * s.n_stride + k;
        for (size_t i = 0; i < kRunK; i += kSquareK) {
          T::Run(in + i, s.n_stride, stage + i / kLineK * kLine + c * kLineK, kLine);
        }
      }
      for (size_t i = 0; i < sizeof(stage); i += kLine, line += kLine) finish(stage + i, line);
    }
    for (; k < shape.k; k += kLineK, line += kLine) {
      EdgeLine<kTurn>(from + k, 1, s.n_stride, columns, shape.k - k, stage);
      finish(stage, line);
    }
  }
  sums.Store(base + g.sums_offset + u * kLineColumns * sizeof(int32_t));
}

template <class L, bool kTurn>
uint32_t PackI8FromNK(const PackLayout& layout, const RhsShape& shape, const RhsSource& s, size_t unit_begin,
                      size_t unit_end, void* packed) {
  const RhsGeometry g = DescribeRhs(layout, shape);
  char* base = static_cast<char*>(packed);
  const bool past = PassesCaches(g.total_bytes);
  for (size_t u = unit_begin; u < unit_end; ++u) {
    FinishUnit(layout, shape, g, s, u, base);
    (past ? PackI8Unit<L, kTurn, kCanPassCaches> : PackI8Unit<L, kTurn, false>)(shape, g, s, u, base);
  }
  if (past) LineWriter<kCanPassCaches>::Fence();
  return kPackFine;
}

// The rows of a file: both layouts, from either sign and order.
struct PackI8Rows {
  PackKernel rows[8];
};
template <class L>
constexpr PackI8Rows MakePackI8Rows(float from_kn, float from_nk) {
  PackI8Rows r;
  for (int i = 0; i < 8; ++i) {
    const bool turn = i & 1, nk = i & 2;
    r.rows[i] = {.isa = kIsa,
                 .layout = i & 4 ? kI8Channels16 : kI8x16,
                 .source = turn ? Format::kU8 : Format::kI8,
                 .contiguous_n = !nk,
                 .contiguous_k = nk,
                 .cycles_per_element = nk ? from_nk : from_kn};
#if QUERN_ISA_HERE
    r.rows[i].run = nk     ? turn ? PackI8FromNK<L, true> : PackI8FromNK<L, false>
                        : turn ? PackI8FromKN<L, true>
                           : PackI8FromKN<L, false>;
#endif
  }
  return r;
}

}  // namespace
}  // namespace quern::ukernel
