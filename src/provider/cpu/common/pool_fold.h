// What the pools of this provider share.
#pragma once

#include <cmath>
#include <string_view>
#include <type_traits>

#include "ops/common/pool.h"
#include "provider/cpu/common/fold_rows.h"

namespace quern::cpu {

// What a window becomes: its largest element, its mean, or the root of the sum of its elements' powers.
struct Fold {
  ukernel::FoldKind kind = ukernel::FoldKind::kMax;
  bool average = false;
  int64_t p = 0;  // 0: no norm

  static Fold Of(const Node& node) {
    const std::string_view op = node.op_type();
    if (op == "LpPool" || op == "GlobalLpPool") {
      const int64_t p = node.GetInt("p", 2);
      return {p == 1 ? ukernel::FoldKind::kSumAbs : ukernel::FoldKind::kSumSquares, false, p};
    }
    if (op == "MaxPool" || op == "GlobalMaxPool") return {};
    return {ukernel::FoldKind::kSum, true, 0};
  }
  // Folds `args.rows` rows, whose kind is this.
  template <typename T>
  void Run(const FoldRows& rows, ukernel::RowsFold<T> args) const {
    args.kind = kind;
    if constexpr (std::is_floating_point_v<T>) {
      if (p > 2) return SumPowers(args);
    }
    rows.Of<T>().fold_rows(args);
    if (p != 2) return;
    for (size_t w = 0; w < args.windows; ++w, args.y += args.y_step) {
      if constexpr (std::is_same_v<T, float>) {
        rows.vector->unary({.kind = ukernel::UnaryKind::kSqrt, .n = args.n, .x = args.y, .y = args.y});
      } else if constexpr (std::is_same_v<T, double>) {
        for (size_t c = 0; c < args.n; ++c) args.y[c] = std::sqrt(args.y[c]);
      }
    }
  }

 private:
  template <typename T>
  void SumPowers(const ukernel::RowsFold<T>& a) const {
    const T power = static_cast<T>(p);
    const T* x = a.x;
    T* y = a.y;
    for (size_t w = 0; w < a.windows; ++w, x += a.x_step, y += a.y_step) {
      std::fill_n(y, a.n, T{0});
      for (size_t r = 0; r < a.rows; ++r) {
        const T* from = x + (a.offsets ? a.offsets[r] : static_cast<ptrdiff_t>(r) * a.row_stride);
        for (size_t c = 0; c < a.n; ++c) y[c] += std::pow(std::fabs(from[c]), power);
      }
      for (size_t c = 0; c < a.n; ++c) y[c] = std::pow(y[c], 1 / power);
    }
  }
};

// A pool over actual extents.
struct Pool {
  Window3 w{};
  int64_t images = 0, channels = 0;
  int64_t from_pixel = 0, to_pixel = 0;  // elements from one pixel to the next, of all images
  bool include_pad = false;
  Fold fold;

  int64_t image_in() const { return w.in_size() * from_pixel; }
};

// Offsets (elements) of taps [deep) x [high) x [wide) from the first of them.
inline void TapOffsets(const Pool& p, int64_t deep, int64_t high, int64_t wide, ptrdiff_t* offsets) {
  for (int64_t i = 0; i < deep; ++i) {
    for (int64_t j = 0; j < high; ++j) {
      const int64_t row = i * p.w.dilation[0] * p.w.in[1] + j * p.w.dilation[1];
      for (int64_t k = 0; k < wide; ++k) *offsets++ = (row * p.w.in[2] + k * p.w.dilation[2]) * p.from_pixel;
    }
  }
}

}  // namespace quern::cpu
