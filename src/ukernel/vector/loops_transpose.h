// The transpose of the vector family, of elements of 1, 2, 4 or 8 bytes: squares in registers, and two, three or four
// lines woven into one or taken apart. Generic vectors, which the compiler maps to the registers of the including
// file's ISA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "ukernel/fold/lanes.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

// Squares whose sides are kSideBytes long, as many side by side as fill a register: v[i], of part p, starts at element
// i of column p of the squares, and ends as row i of the squares side by side.
template <class T, size_t kSideBytes, size_t kParts>
struct Squares {
  static constexpr size_t kSide = kSideBytes / sizeof(T), kWidth = kSide * kParts;
  using Line = typename LanesOf<T, kSideBytes>::Type;
  using Lines = typename LanesOf<T, kSideBytes * kParts>::Type;

  template <size_t... I>
  static void Join(const auto& a, const auto& b, auto& to, std::index_sequence<I...>) {
    to = __builtin_shufflevector(a, b, I...);
  }
  // Element i of every part's first (or second) halves of a and b woven.
  static constexpr int Woven(size_t i, size_t half) {
    const size_t part = i / kSide, within = i % kSide;
    return static_cast<int>(part * kSide + half * kSide / 2 + within / 2 + (within % 2 ? kWidth : 0));
  }
  template <size_t... I>
  static void Weave(const Lines& a, const Lines& b, Lines& low, Lines& high, std::index_sequence<I...>) {
    low = __builtin_shufflevector(a, b, Woven(I, 0)...);
    high = __builtin_shufflevector(a, b, Woven(I, 1)...);
  }
  // One line of each part, `pitch` elements apart.
  static void LoadLines(const T* x, ptrdiff_t pitch, Lines& to) {
    if constexpr (kParts == 1) {
      Load(x, to);
    } else {
      using Pair = typename LanesOf<T, kSideBytes * 2>::Type;
      using PairLanes = std::make_index_sequence<kSide * 2>;
      Line line[kParts];
      Pair pair[kParts / 2];
      for (size_t p = 0; p < kParts; ++p) Load(x + static_cast<ptrdiff_t>(p) * pitch, line[p]);
      for (size_t p = 0; p < kParts / 2; ++p) Join(line[2 * p], line[2 * p + 1], pair[p], PairLanes{});
      if constexpr (kParts == 2) {
        to = pair[0];
      } else {
        Join(pair[0], pair[1], to, std::make_index_sequence<kWidth>{});
      }
    }
  }

  // y[r][c] = x[c][r] for r < kSide, c < kWidth. Weaving line i with line i + kSide / 2 moves one bit of an element's
  // place among the lines to its place in the line; all bits moved, places and lines are exchanged.
  static void Run(const T* x, ptrdiff_t x_col, T* y, ptrdiff_t y_row) {
    Lines v[kSide], t[kSide];
    for (size_t i = 0; i < kSide; ++i) {
      LoadLines(x + static_cast<ptrdiff_t>(i) * x_col, static_cast<ptrdiff_t>(kSide) * x_col, v[i]);
    }
    for (size_t step = 1; step < kSide; step *= 2) {
      for (size_t i = 0; i < kSide / 2; ++i) {
        Weave(v[i], v[i + kSide / 2], t[2 * i], t[2 * i + 1], std::make_index_sequence<kWidth>{});
      }
      for (size_t i = 0; i < kSide; ++i) v[i] = t[i];
    }
    for (size_t i = 0; i < kSide; ++i) Store(y + static_cast<ptrdiff_t>(i) * y_row, v[i]);
  }
};

// kAcross squares side by side, from column c on, for all rows; the last ones overlap those before them.
template <class S, size_t kAcross, class T>
void RunBand(const T* x, T* y, const TransposeArgs& a, size_t c) {
  x += static_cast<ptrdiff_t>(c) * a.x_col;
  y += c;
  for (size_t r = 0; r < a.rows; r += S::kSide) {
    const auto rr = static_cast<ptrdiff_t>(r + S::kSide <= a.rows ? r : a.rows - S::kSide);
    for (size_t k = 0; k < kAcross; ++k) {
      S::Run(x + static_cast<ptrdiff_t>(k * S::kWidth) * a.x_col + rr, a.x_col, y + rr * a.y_row + k * S::kWidth,
             a.y_row);
    }
  }
}
// Rows and columns of at least the squares' extents. Bands of whole cache lines of y where there are as many columns.
template <class S, class T>
void RunSquares(const T* x, T* y, const TransposeArgs& a) {
  constexpr size_t kAcross = S::kWidth * sizeof(T) < 64 ? 64 / sizeof(T) / S::kWidth : 1;
  size_t c = 0;
  for (; c + kAcross * S::kWidth <= a.cols; c += kAcross * S::kWidth) RunBand<S, kAcross>(x, y, a, c);
  for (; c < a.cols; c += S::kWidth) {
    RunBand<S, 1>(x, y, a, c + S::kWidth <= a.cols ? c : a.cols - S::kWidth);
  }
}

constexpr int kAny = -1;  // an index of a shuffle that does not matter

// Vectors of lines that are woven or taken apart.
template <class T, size_t kBytes>
struct WovenLines {
  static constexpr int kLanes = static_cast<int>(kBytes / sizeof(T));
  using V = typename LanesOf<T, kBytes>::Type;
  using All = std::make_index_sequence<kBytes / sizeof(T)>;

  // Element i of vector `part` of kLines woven lines: from the first two lines, and (with what that gives) from the
  // third.
  template <int kLines>
  static constexpr int WovenOfTwo(int part, int i) {
    const int at = part * kLanes + i, line = at % kLines;
    return line == 2 ? kAny : line * kLanes + at / kLines;
  }
  static constexpr int WovenOfThird(int part, int i) {
    const int at = part * kLanes + i;
    return at % 3 == 2 ? kLanes + at / 3 : i;
  }
  // Element i of line `line` out of three woven vectors: from the first two, and from the third.
  static constexpr int LineOfTwo(int line, int i) { return 3 * i + line < 2 * kLanes ? 3 * i + line : kAny; }
  static constexpr int LineOfThird(int line, int i) {
    return 3 * i + line < 2 * kLanes ? i : 3 * i + line - 2 * kLanes + kLanes;
  }

  // Results by reference: vectors wider than the ISA's registers cannot be returned alike by all compilers.
  template <int kPart, size_t... I>
  static void WeaveThree(const V (&v)[3], V& to, std::index_sequence<I...>) {
    const V two = __builtin_shufflevector(v[0], v[1], WovenOfTwo<3>(kPart, I)...);
    to = __builtin_shufflevector(two, v[2], WovenOfThird(kPart, I)...);
  }
  template <int kLine, size_t... I>
  static void TakeThird(const V (&v)[3], V& to, std::index_sequence<I...>) {
    const V two = __builtin_shufflevector(v[0], v[1], LineOfTwo(kLine, I)...);
    to = __builtin_shufflevector(two, v[2], LineOfThird(kLine, I)...);
  }
  template <size_t... I>
  static void WeaveTwo(const V& a, const V& b, V& low, V& high, std::index_sequence<I...>) {
    low = __builtin_shufflevector(a, b, WovenOfTwo<2>(0, I)...);
    high = __builtin_shufflevector(a, b, WovenOfTwo<2>(1, I)...);
  }
  template <size_t... I>
  static void TakeHalves(const V& a, const V& b, V& even, V& odd, std::index_sequence<I...>) {
    even = __builtin_shufflevector(a, b, (2 * static_cast<int>(I))...);
    odd = __builtin_shufflevector(a, b, (2 * static_cast<int>(I) + 1)...);
  }

  // kLines vectors of one line each become as many of woven ones, and back.
  template <int kLines>
  static void Weave(const V (&v)[kLines], V (&to)[kLines]) {
    if constexpr (kLines == 2) {
      WeaveTwo(v[0], v[1], to[0], to[1], All{});
    } else if constexpr (kLines == 3) {
      WeaveThree<0>(v, to[0], All{});
      WeaveThree<1>(v, to[1], All{});
      WeaveThree<2>(v, to[2], All{});
    } else {
      V even[2], odd[2];
      WeaveTwo(v[0], v[2], even[0], even[1], All{});
      WeaveTwo(v[1], v[3], odd[0], odd[1], All{});
      for (int i = 0; i < 2; ++i) WeaveTwo(even[i], odd[i], to[2 * i], to[2 * i + 1], All{});
    }
  }
  template <int kLines>
  static void TakeApart(const V (&v)[kLines], V (&to)[kLines]) {
    if constexpr (kLines == 2) {
      TakeHalves(v[0], v[1], to[0], to[1], All{});
    } else if constexpr (kLines == 3) {
      TakeThird<0>(v, to[0], All{});
      TakeThird<1>(v, to[1], All{});
      TakeThird<2>(v, to[2], All{});
    } else {
      V low[2], high[2];
      TakeHalves(v[0], v[1], low[0], low[1], All{});
      TakeHalves(v[2], v[3], high[0], high[1], All{});
      for (int i = 0; i < 2; ++i) TakeHalves(low[i], high[i], to[i], to[2 + i], All{});
    }
  }
};

// Where shuffles of bytes stay within 16 of them, longer vectors take many steps.
template <class T>
constexpr size_t kWovenBytes = sizeof(T) < 4 ? 16 : 64;

// kLines columns, the rows of the result one after another. The last rows are woven with some before them.
template <int kLines, size_t kBytes, class T>
void RunWeave(const T* x, T* y, const TransposeArgs& a) {
  using L = WovenLines<T, kBytes>;
  constexpr size_t kLanes = L::kLanes;
  if (a.rows >= kLanes) {
    for (size_t next = 0; next < a.rows; next += kLanes) {
      const size_t r = next + kLanes <= a.rows ? next : a.rows - kLanes;
      typename L::V v[kLines], woven[kLines];
      for (int i = 0; i < kLines; ++i) Load(x + i * a.x_col + r, v[i]);
      L::template Weave<kLines>(v, woven);
      for (int i = 0; i < kLines; ++i) Store(y + r * kLines + i * L::kLanes, woven[i]);
    }
  } else if constexpr (kBytes > 16) {
    RunWeave<kLines, kBytes / 2>(x, y, a);
  } else {
    for (size_t r = 0; r < a.rows; ++r) {
      for (int i = 0; i < kLines; ++i)
        y[r * kLines + static_cast<size_t>(i)] = x[i * a.x_col + static_cast<ptrdiff_t>(r)];
    }
  }
}
// kLines rows, the columns of the operand one after another. The last columns are taken with some before them.
template <int kLines, size_t kBytes, class T>
void RunTakeApart(const T* x, T* y, const TransposeArgs& a) {
  using L = WovenLines<T, kBytes>;
  constexpr size_t kLanes = L::kLanes;
  if (a.cols >= kLanes) {
    for (size_t next = 0; next < a.cols; next += kLanes) {
      const size_t c = next + kLanes <= a.cols ? next : a.cols - kLanes;
      typename L::V v[kLines], lines[kLines];
      for (int i = 0; i < kLines; ++i) Load(x + c * kLines + i * L::kLanes, v[i]);
      L::template TakeApart<kLines>(v, lines);
      for (int i = 0; i < kLines; ++i) Store(y + i * a.y_row + c, lines[i]);
    }
  } else if constexpr (kBytes > 16) {
    RunTakeApart<kLines, kBytes / 2>(x, y, a);
  } else {
    for (size_t c = 0; c < a.cols; ++c) {
      for (int i = 0; i < kLines; ++i)
        y[i * a.y_row + static_cast<ptrdiff_t>(c)] = x[c * kLines + static_cast<size_t>(i)];
    }
  }
}

// Squares of 16 bytes that fill a register.
#if defined(__AVX512BW__)
constexpr size_t kSquareParts = 4;
#elif defined(__AVX2__)
constexpr size_t kSquareParts = 2;
#else
constexpr size_t kSquareParts = 1;
#endif

template <class T>
void TransposeOf(const TransposeArgs& a) {
  using Wide = Squares<T, 16, kSquareParts>;
  using Single = Squares<T, 16, 1>;
  const auto* x = static_cast<const T*>(a.x);
  auto* y = static_cast<T*>(a.y);
  const bool woven = a.y_row == static_cast<ptrdiff_t>(a.cols), dense = a.x_col == static_cast<ptrdiff_t>(a.rows);
  if (woven && a.cols == 2) return RunWeave<2, kWovenBytes<T>>(x, y, a);
  if (woven && a.cols == 3) return RunWeave<3, kWovenBytes<T>>(x, y, a);
  if (woven && a.cols == 4) return RunWeave<4, kWovenBytes<T>>(x, y, a);
  if (dense && a.rows == 2) return RunTakeApart<2, kWovenBytes<T>>(x, y, a);
  if (dense && a.rows == 3) return RunTakeApart<3, kWovenBytes<T>>(x, y, a);
  if (dense && a.rows == 4) return RunTakeApart<4, kWovenBytes<T>>(x, y, a);
  if (a.rows >= Wide::kSide && a.cols >= Wide::kWidth) return RunSquares<Wide>(x, y, a);
  if (a.rows >= Single::kSide && a.cols >= Single::kSide) return RunSquares<Single>(x, y, a);
  if constexpr (sizeof(T) < 4) {
    using Half = Squares<T, 8, 1>;
    if (a.rows >= Half::kSide && a.cols >= Half::kSide) return RunSquares<Half>(x, y, a);
  }
  for (size_t r = 0; r < a.rows; ++r) {
    for (size_t c = 0; c < a.cols; ++c) {
      y[static_cast<ptrdiff_t>(r) * a.y_row + static_cast<ptrdiff_t>(c)] =
          x[static_cast<ptrdiff_t>(c) * a.x_col + static_cast<ptrdiff_t>(r)];
    }
  }
}

void RunTranspose(const TransposeArgs& a) {
  switch (a.element_bytes) {
    case 1:
      return TransposeOf<uint8_t>(a);
    case 2:
      return TransposeOf<uint16_t>(a);
    case 4:
      return TransposeOf<uint32_t>(a);
    default:
      return TransposeOf<uint64_t>(a);
  }
}

}  // namespace
}  // namespace quern::ukernel
