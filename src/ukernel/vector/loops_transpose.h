// The transpose of 32-bit elements, of the vector family: squares of 8 and 4 in registers, and two, three or four lines
// woven into one or taken apart. Generic vectors, which the compiler maps to the registers of the including file's ISA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

typedef uint32_t Words4 __attribute__((vector_size(16)));
typedef uint32_t Words8 __attribute__((vector_size(32)));
typedef uint32_t Words16 __attribute__((vector_size(64)));

template <class V>
void LoadWords(const uint32_t* p, V& v) {
  __builtin_memcpy(&v, p, sizeof v);
}
template <class V>
void StoreWords(uint32_t* p, const V& v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// y[r][c] = x[c][r] of a square, rows of x and y so many elements apart.
struct Square4 {
  static constexpr size_t kSide = 4;
  static void Run(const uint32_t* x, ptrdiff_t x_col, uint32_t* y, ptrdiff_t y_row) {
    Words4 a[4], t[4];
    for (int i = 0; i < 4; ++i) LoadWords(x + i * x_col, a[i]);
    for (int i = 0; i < 2; ++i) {
      t[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 4, 1, 5);
      t[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; ++i) {
      StoreWords(y + 2 * i * y_row, __builtin_shufflevector(t[i], t[2 + i], 0, 1, 4, 5));
      StoreWords(y + (2 * i + 1) * y_row, __builtin_shufflevector(t[i], t[2 + i], 2, 3, 6, 7));
    }
  }
};
struct Square8 {
  static constexpr size_t kSide = 8;
  static void Run(const uint32_t* x, ptrdiff_t x_col, uint32_t* y, ptrdiff_t y_row) {
    Words8 a[8], t[8];
    for (int i = 0; i < 8; ++i) LoadWords(x + i * x_col, a[i]);
    for (int i = 0; i < 4; ++i) {  // pairs of columns
      t[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      t[4 + i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 4; ++i) {  // fours: a[i] of rows 2i and 2i + 4, a[4 + i] of those after them
      a[i] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13);
      a[4 + i] = __builtin_shufflevector(t[2 * i], t[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; ++i) {
      const int first = i / 2 * 2 + i % 2 * 4;
      StoreWords(y + i * y_row, __builtin_shufflevector(a[first], a[first + 1], 0, 1, 2, 3, 8, 9, 10, 11));
      StoreWords(y + (i + 4) * y_row, __builtin_shufflevector(a[first], a[first + 1], 4, 5, 6, 7, 12, 13, 14, 15));
    }
  }
};

// Rows and columns of at least the square's side; the last squares overlap those before them.
template <class Square>
void RunSquares(const TransposeArgs& a) {
  constexpr size_t kSide = Square::kSide;
  const auto* x = static_cast<const uint32_t*>(a.x);
  auto* y = static_cast<uint32_t*>(a.y);
  for (size_t c = 0; c < a.cols; c += kSide) {
    const auto cc = static_cast<ptrdiff_t>(c + kSide <= a.cols ? c : a.cols - kSide);
    for (size_t r = 0; r < a.rows; r += kSide) {
      const auto rr = static_cast<ptrdiff_t>(r + kSide <= a.rows ? r : a.rows - kSide);
      Square::Run(x + cc * a.x_col + rr, a.x_col, y + rr * a.y_row + cc, a.y_row);
    }
  }
}

constexpr int kAny = -1;  // an index of a shuffle that does not matter

// Element i of vector `part` of kLines woven lines: from the first two lines, and (with what that gives) from the
// third.
template <int kLines>
constexpr int WovenOfTwo(int part, int i) {
  const int at = part * 16 + i, line = at % kLines;
  return line == 2 ? kAny : line * 16 + at / kLines;
}
constexpr int WovenOfThird(int part, int i) {
  const int at = part * 16 + i;
  return at % 3 == 2 ? 16 + at / 3 : i;
}
// Element i of line `line` out of three woven vectors: from the first two, and from the third.
constexpr int LineOfTwo(int line, int i) { return 3 * i + line < 32 ? 3 * i + line : kAny; }
constexpr int LineOfThird(int line, int i) { return 3 * i + line < 32 ? i : 3 * i + line - 32 + 16; }

// Results by reference: vectors wider than the ISA's registers cannot be returned alike by all compilers.
template <int kPart, size_t... I>
void WeaveThree(const Words16& a, const Words16& b, const Words16& c, Words16& to, std::index_sequence<I...>) {
  const Words16 two = __builtin_shufflevector(a, b, WovenOfTwo<3>(kPart, I)...);
  to = __builtin_shufflevector(two, c, WovenOfThird(kPart, I)...);
}
template <int kLine, size_t... I>
void TakeThird(const Words16& a, const Words16& b, const Words16& c, Words16& to, std::index_sequence<I...>) {
  const Words16 two = __builtin_shufflevector(a, b, LineOfTwo(kLine, I)...);
  to = __builtin_shufflevector(two, c, LineOfThird(kLine, I)...);
}
template <size_t... I>
void WeaveTwo(const Words16& a, const Words16& b, Words16& low, Words16& high, std::index_sequence<I...>) {
  low = __builtin_shufflevector(a, b, WovenOfTwo<2>(0, I)...);
  high = __builtin_shufflevector(a, b, WovenOfTwo<2>(1, I)...);
}
template <size_t... I>
void TakeHalves(const Words16& a, const Words16& b, Words16& even, Words16& odd, std::index_sequence<I...>) {
  even = __builtin_shufflevector(a, b, (2 * static_cast<int>(I))...);
  odd = __builtin_shufflevector(a, b, (2 * static_cast<int>(I) + 1)...);
}
using All16 = std::make_index_sequence<16>;

// kLines vectors of one line each become as many of woven ones, and back.
template <int kLines>
void Weave(const Words16 (&v)[kLines], Words16 (&to)[kLines]) {
  if constexpr (kLines == 2) {
    WeaveTwo(v[0], v[1], to[0], to[1], All16{});
  } else if constexpr (kLines == 3) {
    WeaveThree<0>(v[0], v[1], v[2], to[0], All16{});
    WeaveThree<1>(v[0], v[1], v[2], to[1], All16{});
    WeaveThree<2>(v[0], v[1], v[2], to[2], All16{});
  } else {
    Words16 even[2], odd[2];
    WeaveTwo(v[0], v[2], even[0], even[1], All16{});
    WeaveTwo(v[1], v[3], odd[0], odd[1], All16{});
    for (int i = 0; i < 2; ++i) WeaveTwo(even[i], odd[i], to[2 * i], to[2 * i + 1], All16{});
  }
}
template <int kLines>
void TakeApart(const Words16 (&v)[kLines], Words16 (&to)[kLines]) {
  if constexpr (kLines == 2) {
    TakeHalves(v[0], v[1], to[0], to[1], All16{});
  } else if constexpr (kLines == 3) {
    TakeThird<0>(v[0], v[1], v[2], to[0], All16{});
    TakeThird<1>(v[0], v[1], v[2], to[1], All16{});
    TakeThird<2>(v[0], v[1], v[2], to[2], All16{});
  } else {
    Words16 low[2], high[2];
    TakeHalves(v[0], v[1], low[0], low[1], All16{});
    TakeHalves(v[2], v[3], high[0], high[1], All16{});
    for (int i = 0; i < 2; ++i) TakeHalves(low[i], high[i], to[i], to[2 + i], All16{});
  }
}

// kLines columns, the rows of the result one after another.
template <int kLines>
void RunWeave(const TransposeArgs& a) {
  const auto* x = static_cast<const uint32_t*>(a.x);
  auto* y = static_cast<uint32_t*>(a.y);
  size_t r = 0;
  for (; r + 16 <= a.rows; r += 16) {
    Words16 v[kLines], woven[kLines];
    for (int i = 0; i < kLines; ++i) LoadWords(x + i * a.x_col + r, v[i]);
    Weave<kLines>(v, woven);
    for (int i = 0; i < kLines; ++i) StoreWords(y + r * kLines + i * 16, woven[i]);
  }
  for (; r < a.rows; ++r) {
    for (int i = 0; i < kLines; ++i)
      y[r * kLines + static_cast<size_t>(i)] = x[i * a.x_col + static_cast<ptrdiff_t>(r)];
  }
}
// kLines rows, the columns of the operand one after another.
template <int kLines>
void RunTakeApart(const TransposeArgs& a) {
  const auto* x = static_cast<const uint32_t*>(a.x);
  auto* y = static_cast<uint32_t*>(a.y);
  size_t c = 0;
  for (; c + 16 <= a.cols; c += 16) {
    Words16 v[kLines], lines[kLines];
    for (int i = 0; i < kLines; ++i) LoadWords(x + c * kLines + i * 16, v[i]);
    TakeApart<kLines>(v, lines);
    for (int i = 0; i < kLines; ++i) StoreWords(y + i * a.y_row + c, lines[i]);
  }
  for (; c < a.cols; ++c) {
    for (int i = 0; i < kLines; ++i)
      y[i * a.y_row + static_cast<ptrdiff_t>(c)] = x[c * kLines + static_cast<size_t>(i)];
  }
}

void RunTranspose(const TransposeArgs& a) {
  const bool woven = a.y_row == static_cast<ptrdiff_t>(a.cols), dense = a.x_col == static_cast<ptrdiff_t>(a.rows);
  if (a.rows >= 8 && a.cols >= 8) return RunSquares<Square8>(a);
  if (woven && a.cols == 2) return RunWeave<2>(a);
  if (woven && a.cols == 3) return RunWeave<3>(a);
  if (woven && a.cols == 4) return RunWeave<4>(a);
  if (dense && a.rows == 2) return RunTakeApart<2>(a);
  if (dense && a.rows == 3) return RunTakeApart<3>(a);
  if (dense && a.rows == 4) return RunTakeApart<4>(a);
  if (a.rows >= 4 && a.cols >= 4) return RunSquares<Square4>(a);
  const auto* x = static_cast<const uint32_t*>(a.x);
  auto* y = static_cast<uint32_t*>(a.y);
  for (size_t r = 0; r < a.rows; ++r) {
    for (size_t c = 0; c < a.cols; ++c) {
      y[static_cast<ptrdiff_t>(r) * a.y_row + static_cast<ptrdiff_t>(c)] =
          x[static_cast<ptrdiff_t>(c) * a.x_col + static_cast<ptrdiff_t>(r)];
    }
  }
}

}  // namespace
}  // namespace quern::ukernel
