// Operators of the CPU provider that take float64, on random cases; ReduceLogSumExp.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

Tensor DrawDoubles(const Shape& shape, float scale, bool special = false) {
  const Tensor x = DrawTensor(DType::kF32, shape, scale, special);
  Tensor y = Tensor::Allocate(DType::kF64, shape).value();
  for (int64_t i = 0; i < x.num_elements(); ++i) y.data<double>()[i] = static_cast<double>(x.data<float>()[i]) / 3;
  return y;
}

// The results in double are the reference's but for the order of sums.
void CheckDoubles(const Case& c) {
  SCOPED_TRACE(c.ToString());
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  ASSERT_EQ(FindCpuOp(c.domain, c.op)->reject(*b.node, Config(false)), "");
  const Result<std::vector<Value>> expected = EvaluateGraph(b.graph, b.inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const Result<std::vector<Tensor>> actual = RunOnCpu(b.graph, b.inputs, Config(false));
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  const Tensor &a = (*actual)[0], &e = (*expected)[0].tensor();
  ASSERT_EQ(a.dtype(), DType::kF64);
  ASSERT_EQ(a.shape().ToString(), e.shape().ToString());
  for (int64_t i = 0; i < e.num_elements(); ++i) {
    const double x = a.data<double>()[i], y = e.data<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ASSERT_LE(std::fabs(x - y), 1e-13 + 1e-12 * std::fabs(y)) << i << ": " << x << ", not " << y;
  }
}

std::vector<int64_t> DrawAxes(int rank) {
  std::vector<int64_t> axes;
  for (int d = 0; d < rank; ++d) {
    if (Draw(0, 1)) axes.push_back(Draw(0, 1) ? d : d - rank);
  }
  return axes;
}

TEST_F(CpuOps, ReductionsOfDoubles) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare",
                         "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"}) {
    for (int i = 0; i < 2 * kRounds; ++i) {
      const Shape shape = DrawShape(0, 6);
      const bool extreme = op[6] == 'M';
      if (extreme && shape.num_elements() == 0) continue;
      Case c{.op = op, .opset = 18};
      c.In(DrawDoubles(shape, 1, extreme && i % 2 == 0)).In(Ints(DrawAxes(shape.rank())), true);
      ASSERT_NO_FATAL_FAILURE(CheckDoubles(c.Attr("keepdims", Draw(0, 1))));
    }
  }
}

TEST_F(CpuOps, SoftmaxOfDoubles) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (int i = 0; i < 2 * kRounds; ++i) {
      const Shape shape = DrawShapeOrLarge(1, 5);
      Case c{.op = op, .opset = Pick({11, 13})};
      c.In(DrawDoubles(shape, 5));
      ASSERT_NO_FATAL_FAILURE(CheckDoubles(c.Attr("axis", Draw(-shape.rank(), shape.rank() - 1))));
    }
  }
}

TEST_F(CpuOps, LogSumExp) {
  for (int i = 0; i < 4 * kRounds; ++i) {
    const Shape shape = DrawShapeOrLarge(0, 6);
    Case c{.op = "ReduceLogSumExp", .opset = 18};
    c.absolute = 1e-5;
    c.In(DrawTensor(DType::kF32, shape, Pick({1.0f, 300.0f}), i % 3 == 0));
    c.In(Ints(DrawAxes(shape.rank())), true);
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("keepdims", Draw(0, 1))));
  }
}

}  // namespace
}  // namespace quern::cpu
