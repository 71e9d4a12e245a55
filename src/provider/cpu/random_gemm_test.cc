// Gemm with every form of C, on random cases.
#include <gtest/gtest.h>

#include <cmath>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// Small whole numbers, of which sums of products are exact in any order.
Tensor DrawWhole(const Shape& shape) {
  Tensor t = DrawTensor(DType::kF32, shape);
  for (float& v : t.values<float>()) v = std::nearbyint(4 * v);
  return t;
}

TEST_F(CpuOps, GemmWithAnyC) {
  for (int i = 0; i < 20 * kRounds; ++i) {
    const int64_t m = Draw(0, 9), n = Draw(1, 40), k = Draw(1, 30);
    const bool trans_a = Draw(0, 1) != 0, trans_b = Draw(0, 1) != 0;
    Case c{.op = "Gemm", .opset = static_cast<int>(Pick({7, 9, 11, 13}))};
    c.In(DrawWhole(trans_a ? Shape{k, m} : Shape{m, k}));
    c.In(DrawWhole(trans_b ? Shape{n, k} : Shape{k, n}), Draw(0, 1) != 0);
    c.Attr("transA", int64_t{trans_a}).Attr("transB", int64_t{trans_b});
    if (Draw(0, 1)) c.Attr("alpha", Pick({2.0f, -0.5f, 0.0f}));
    if (Draw(0, 1)) c.Attr("beta", Pick({2.0f, -0.25f, 0.0f}));
    const Shape shapes[] = {Shape{}, Shape{1}, Shape{n}, Shape{1, n}, Shape{m, 1}, Shape{m, n}, Shape{1, 1}};
    if (c.opset < 11 || Draw(0, 5) != 0) c.In(DrawWhole(shapes[Draw(0, 6)]), Draw(0, 1) != 0);
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

}  // namespace
}  // namespace quern::cpu
