// The contract of fold micro-kernels: many elements to one (sums, products, extremes, the place of an extreme) and
// running sums, for every type that operators fold. Float32's own folds are functions of the vector family.
// Kernel-safe. Any alignment; counts may be 0 unless said otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "ukernel/gemm.h"
#include "ukernel/isa.h"

namespace quern::ukernel {

enum class FoldKind : uint8_t { kSum, kSumAbs, kSumSquares /* of x - shift */, kProd, kMax, kMin, kCount };

// What a fold starts from: infinities for extremes of floats, the ends of the range for those of integers.
template <class T = float>
static constexpr T FoldStart(FoldKind kind) {
  if (kind == FoldKind::kProd) return T{1};
  if (kind != FoldKind::kMax && kind != FoldKind::kMin) return T{0};
  if constexpr (std::is_floating_point_v<T>) {
    const T infinity = static_cast<T>(__builtin_inff());
    return kind == FoldKind::kMax ? -infinity : infinity;
  } else {
    using U = std::make_unsigned_t<T>;
    const T largest = static_cast<T>(std::is_signed_v<T> ? static_cast<U>(~U{0}) >> 1 : static_cast<U>(~U{0}));
    return kind == FoldKind::kMax ? static_cast<T>(~largest) : largest;
  }
}

// The fold of n neighbouring elements. A NaN wins in kMin and kMax. Sums of floats are made of many short partial
// sums; sums and products of integers wrap around. Elements of 8 bits have kMax and kMin only.
template <class T>
struct LineFold {
  FoldKind kind = FoldKind::kSum;
  size_t n = 0;
  const T* x = nullptr;
  T shift = 0;
};

// y[i] = the same fold, to the bit, of each of `lines`, which begin `pitch` elements after one another from line.x on.
template <class T>
struct LinesFold {
  LineFold<T> line;
  size_t lines = 0;
  ptrdiff_t pitch = 0;
  T* y = nullptr;  // no operand
};

// y[c] = scale * (fold over rows r of x[offset of r + c]), c < n. Windows of a pool, sums over all but the last axis.
// Row r is at x + offsets[r], or at x + r * row_stride when offsets is null; both in elements. More than 64 rows are
// folded as blocks of 64, so that long sums stay accurate. The same for each of `windows`, whose x and y are x_step and
// y_step elements further than those of the one before.
template <class T>
struct RowsFold {
  FoldKind kind = FoldKind::kSum;
  size_t rows = 0;
  size_t n = 0;
  const T* x = nullptr;
  const ptrdiff_t* offsets = nullptr;
  ptrdiff_t row_stride = 0;
  T scale = 1;     // sums only
  T* y = nullptr;  // no operand
  size_t windows = 1;
  ptrdiff_t x_step = 0, y_step = 0;
};

// The place of the greatest (or smallest) element: the first (or last) of equal ones, but the first NaN wins over every
// number.
struct Extreme {
  bool smallest = false;
  bool last = false;
};
// Among n (at least 1) neighbouring elements.
template <class T>
struct LineArg {
  Extreme which;
  size_t n = 1;
  const T* x = nullptr;
};
// y[c] = the row r of it among x[r * row_stride + c], r < rows (at least 1), c < n.
template <class T>
struct RowsArg {
  Extreme which;
  size_t rows = 1;
  size_t n = 0;
  const T* x = nullptr;
  ptrdiff_t row_stride = 0;  // elements
  int64_t* y = nullptr;      // no operand
};

// The k greatest (or smallest) elements of each column in this order, of equal ones the upper one first; a NaN is
// greater than every number: values[j * y_stride + c] stands in row places[j * y_stride + c] of x, j < k, c < n.
inline constexpr size_t kMostTopRows = 16;
template <class T>
struct RowsTop {
  bool smallest = false;
  size_t rows = 1;  // below 2^31
  size_t n = 0;
  size_t k = 1;  // 1 to kMostTopRows, at most rows
  const T* x = nullptr;
  ptrdiff_t row_stride = 0;   // elements
  T* values = nullptr;        // no operand; null: not wanted
  int64_t* places = nullptr;  // likewise
  ptrdiff_t y_stride = 0;     // elements
};

// Where x[i * x_step] is greater than best[i], takes its place, and place[i] becomes first + i * x_step, i < n. A NaN
// is greater than every number, and nothing is greater than a NaN; anything is greater than what has a place below 0.
// Windows of a pool, one tap for n outputs; x_step at least 1.
template <class T>
struct GreatestStep {
  size_t n = 0;
  const T* x = nullptr;
  ptrdiff_t x_step = 1;  // elements
  int64_t first = 0;
  T* best = nullptr;
  int64_t* place = nullptr;
};

// y[r * row_stride + c] = x[0 * row_stride + c] + ... + x[r * row_stride + c], r < rows, c < n, added in this order;
// exclusive: without the last term. Integers wrap around. y may be x.
template <class T>
struct RunningSum {
  bool product = false;
  bool exclusive = false;
  size_t rows = 0;
  size_t n = 0;
  const T* x = nullptr;
  T* y = nullptr;
  ptrdiff_t row_stride = 0;  // elements, of x and y; negative: from the end
};

// The functions of one type; null where operators of the type need none.
template <class T>
struct FoldFunctions {
  T (*fold)(const LineFold<T>&) = nullptr;
  void (*fold_lines)(const LinesFold<T>&) = nullptr;
  void (*fold_rows)(const RowsFold<T>&) = nullptr;
  size_t (*arg)(const LineArg<T>&) = nullptr;
  void (*arg_rows)(const RowsArg<T>&) = nullptr;
  void (*top_rows)(const RowsTop<T>&) = nullptr;  // signed types of 32 and 64 bits
  void (*greatest)(const GreatestStep<T>&) = nullptr;
  void (*running_sum)(const RunningSum<T>&) = nullptr;
};

// One row per ISA: every function of the family, compiled for it.
struct FoldKernel {
  Isa isa{};
  uint16_t vector_bytes = 16;      // of the rows that a CPU runs, the one with the widest registers is taken
  FoldFunctions<float> f32 = {};   // all but the folds of sums, products and extremes
  FoldFunctions<double> f64 = {};  // all
  FoldFunctions<int32_t> i32 = {};
  FoldFunctions<int64_t> i64 = {};
  FoldFunctions<uint32_t> u32 = {};
  FoldFunctions<uint64_t> u64 = {};
  FoldFunctions<int8_t> i8 = {};  // all but running_sum
  FoldFunctions<uint8_t> u8 = {};

  template <class T>
  constexpr const FoldFunctions<T>& Of() const {
    if constexpr (std::is_same_v<T, float>)
      return f32;
    else if constexpr (std::is_same_v<T, double>)
      return f64;
    else if constexpr (std::is_same_v<T, int32_t>)
      return i32;
    else if constexpr (std::is_same_v<T, int64_t>)
      return i64;
    else if constexpr (std::is_same_v<T, uint32_t>)
      return u32;
    else if constexpr (std::is_same_v<T, uint64_t>)
      return u64;
    else if constexpr (std::is_same_v<T, int8_t>)
      return i8;
    else
      return u8;
  }
};

// `fold_any_<isa>`
KernelName Name(const FoldKernel& row);

std::span<const KernelList<FoldKernel>* const> AllFoldKernels();

// The row for a CPU; never null, as the portable one runs everywhere. Rows without a body in this build are passed
// over.
const FoldKernel* SelectFoldRow(const CpuFacts& cpu);

}  // namespace quern::ukernel
