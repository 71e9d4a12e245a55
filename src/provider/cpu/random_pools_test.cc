// Pools of the CPU provider over one to three dimensions, of all kinds and types, with and without indices.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

Tensor ToF64(const Tensor& x) {
  Tensor y = Tensor::Allocate(DType::kF64, x.shape()).value();
  for (int64_t i = 0; i < x.num_elements(); ++i) y.data<double>()[i] = static_cast<double>(x.data<float>()[i]);
  return y;
}

// Window attributes at random, and a shape that they fit.
Shape DrawWindow(int spatial, Case& c) {
  std::vector<int64_t> kernel, strides, pads, dilations;
  Shape shape{Draw(1, 2), Pick<int64_t>({1, 3, 16, 20})};
  const bool large = Draw(0, 2) == 0;
  for (int d = 0; d < spatial; ++d) {
    // Large ones are folded by lines first.
    kernel.push_back(large ? Draw(3, 6) : Draw(1, 3));
    strides.push_back(large ? Draw(1, 2) : Draw(1, 3));
    dilations.push_back(Draw(0, 3) == 0 ? 2 : 1);
    shape.push_back(Draw(large ? 11 : 5, spatial == 3 && !large ? 8 : 14));
  }
  for (int d = 0; d < 2 * spatial; ++d) pads.push_back(Draw(0, kernel[static_cast<size_t>(d % spatial)] - 1));
  c.Attr("kernel_shape", kernel).Attr("strides", strides).Attr("dilations", dilations);
  const std::string pad = Pick<std::string>({"NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  if (pad == "NOTSET") c.Attr("pads", pads);
  c.Attr("auto_pad", pad).Attr("ceil_mode", Draw(0, 1));
  return shape;
}

TEST_F(CpuOps, PoolsOfAllRanks) {
  for (const std::string op : {"MaxPool", "AveragePool", "LpPool"}) {
    for (int i = 0; i < 5 * kRounds; ++i) {
      Case c{.op = op, .opset = 22};
      const Shape shape = DrawWindow(static_cast<int>(Draw(1, 3)), c);
      if (op == "AveragePool") c.Attr("count_include_pad", Draw(0, 1));
      if (op == "LpPool") c.Attr("p", Draw(1, 4));
      c.relative = 1e-5;
      Tensor x = DrawTensor(DType::kF32, shape, 2, op == "MaxPool");
      if (Draw(0, 3) == 0) x = ToF64(x);
      if (op == "MaxPool" && Draw(0, 3) == 0) x = DrawTensor(Pick({DType::kU8, DType::kI8}), shape);
      ASSERT_NO_FATAL_FAILURE(Check(c.In(x)));
    }
  }
}

TEST_F(CpuOps, GlobalPoolsOfAllRanks) {
  for (const std::string op : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"}) {
    for (int i = 0; i < 2 * kRounds; ++i) {
      Shape shape{Draw(0, 3), Pick<int64_t>({1, 5, 16, 130})};
      for (int64_t d = Draw(1, 3); d > 0; --d) shape.push_back(Draw(1, 9));
      Case c{.op = op, .opset = 22};
      c.relative = 1e-5;
      if (op == "GlobalLpPool") c.Attr("p", Draw(1, 4));
      ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(Pick({DType::kF32, DType::kF32, DType::kF64}), shape))));
    }
  }
}

TEST_F(CpuOps, MaxPoolWithIndices) {
  for (int i = 0; i < 5 * kRounds; ++i) {
    Case c{.op = "MaxPool", .opset = 22, .outputs = 2};
    const Shape shape = DrawWindow(static_cast<int>(Draw(1, 3)), c);
    c.Attr("storage_order", Draw(0, 1));
    Tensor x = DrawTensor(DType::kF32, shape, 2, i % 2 == 0);
    if (Draw(0, 3) == 0) x = DrawTensor(Pick({DType::kU8, DType::kI8}), shape);
    if (i % 7 == 0) x = ToF64(DrawTensor(DType::kF32, shape, 2, true));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(x)));
  }
}

TEST_F(CpuOps, WindowsLargerThanTheInputTakeNoMemoryForTheirPadding) {
  for (const std::string op : {"MaxPool", "AveragePool", "LpPool"}) {
    Case c{.op = op, .opset = 22};
    const int64_t huge = int64_t{1} << 30;
    c.In(DrawTensor(DType::kF32, Shape{1, 3, 4, 5}));
    c.Attr("kernel_shape", std::vector<int64_t>{huge, huge});
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("pads", std::vector<int64_t>{huge - 4, huge - 5, 1, 0})));
  }
}

}  // namespace
}  // namespace quern::cpu
