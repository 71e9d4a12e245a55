// The integer product behind MatMulInteger and QLinearMatMul.
#pragma once

#include "ops/common/integer_io.h"
#include "ops/common/matmul.h"

namespace quern {

// Input b of 8 bits less its zero points: one, or one per column of the product.
inline Result<std::vector<int32_t>> ReadRightSide(EvalContext& c, int b, int b_zero_point, const MatMulLoops& loops) {
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> zero, ReadZeroPoints(c, b_zero_point, loops.n));
  std::vector<int32_t> right = WidenIntegers(c.input(b));
  for (size_t i = 0; i < right.size(); ++i) right[i] -= zero[i % loops.n];
  return right;
}

// Calls store(element index, column, int64 sum) for each element of the product of two sides less their zero points.
template <typename Store>
void MultiplySides(const MatMulLoops& loops, const std::vector<int32_t>& left, const std::vector<int32_t>& right,
                   Store store) {
  std::vector<int64_t> row(static_cast<size_t>(loops.n));
  int64_t index = 0;
  for (size_t i = 0; i < loops.a_offset.size(); ++i) {
    for (int64_t m = 0; m < loops.m; ++m) {
      MultiplyRow<int32_t, int32_t, int64_t>(loops.n, loops.k, left.data() + loops.a_offset[i] + m * loops.k, 1,
                                             right.data() + loops.b_offset[i], loops.n, 1, row.data());
      for (int64_t j = 0; j < loops.n; ++j) store(index++, j, row[j]);
    }
  }
}

// The same for 8-bit inputs `a` and `b`. Zero points: of a one or one per row, of b one or one per column.
template <typename Store>
Status MultiplyIntegers(EvalContext& c, int a, int a_zero_point, int b, int b_zero_point, Store store) {
  const MatMulLoops loops = MakeMatMulLoops(c.input(a).shape(), c.input(b).shape());
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> a_zero, ReadZeroPoints(c, a_zero_point, loops.m));
  std::vector<int32_t> left = WidenIntegers(c.input(a));
  if (loops.k > 0 && loops.m > 0) {
    for (size_t i = 0; i < left.size(); ++i) left[i] -= a_zero[i / loops.k % loops.m];
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> right, ReadRightSide(c, b, b_zero_point, loops));
  MultiplySides(loops, left, right, store);
  return OkStatus();
}

}  // namespace quern
