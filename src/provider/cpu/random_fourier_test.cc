// DFT and STFT on the CPU provider, on random cases.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

Tensor Scalar(int64_t value) { return Tensor::FromValues<int64_t>(Shape{}, std::vector<int64_t>{value}); }

// Products of small primes, larger primes that a pass still takes, and lengths for Bluestein's algorithm.
int64_t DrawLength() {
  return Pick(
      {Draw(1, 20), Draw(1, 130), 4 * Draw(1, 40), int64_t{61 * 2}, int64_t{67}, int64_t{2 * 67}, int64_t{400}});
}

TEST_F(CpuOps, Dft) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const bool inverse = Draw(0, 1) != 0, onesided = Draw(0, 1) != 0;
    const int64_t components = onesided ? 1 + inverse : Draw(1, 2);
    Shape shape;
    const int64_t lines = Draw(1, 3);
    const auto axis = static_cast<int>(Draw(0, lines - 1));
    for (int d = 0; d < lines; ++d) shape.push_back(d == axis ? DrawLength() : Pick({Draw(1, 5), Draw(1, 40)}));
    if (inverse && onesided && shape[axis] == 1) shape[axis] = 2;
    const int64_t rank = lines + 1;
    shape.push_back(components);
    Case c{.op = "DFT", .opset = Pick({17, 20})};
    c.relative = 1e-6;
    c.absolute = 4e-6 * std::sqrt(static_cast<double>(shape[axis]) * (inverse ? 0.01 : 4));
    c.In(DrawTensor(DType::kF32, shape));
    // Shorter and longer than the signal.
    if (Draw(0, 2) == 0) {
      c.In(Scalar(std::max<int64_t>(1, shape[axis] + Draw(-9, 9))), true);
    } else {
      c.Omit();
    }
    const int64_t given = axis - (Draw(0, 1) ? rank : 0);
    c.opset < 20 ? c.Attr("axis", given) : c.In(Scalar(given), true);
    c.Attr("inverse", int64_t{inverse}).Attr("onesided", int64_t{onesided});
    ASSERT_NO_FATAL_FAILURE(Check(c));
  }
}

TEST_F(CpuOps, Stft) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const bool onesided = Draw(0, 1) != 0;
    const int64_t length = DrawLength(), components = onesided ? 1 : Draw(1, 2);
    const int64_t step = Draw(1, length + 3), signal = length + Draw(0, 40) * step / 2;
    Case c{.op = "STFT", .opset = 17};
    c.relative = 1e-6;
    c.absolute = 8e-6 * std::sqrt(static_cast<double>(length));
    Shape shape{Draw(1, 3), signal};
    if (components == 2 || Draw(0, 1)) shape.push_back(components);
    c.In(DrawTensor(DType::kF32, shape)).In(Scalar(step), true);
    const bool windowed = Draw(0, 2) != 0;
    windowed ? c.In(DrawTensor(DType::kF32, {length}, 1), Draw(0, 1) != 0) : c.Omit();
    if (!windowed || Draw(0, 1)) c.In(Scalar(length), true);
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("onesided", int64_t{onesided})));
  }
}

}  // namespace
}  // namespace quern::cpu
