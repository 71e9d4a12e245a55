// Reductions and Softmax of float64 on the CPU provider, on random cases; ReduceLogSumExp.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

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
      c.In(DrawTensor(DType::kF64, shape, 1, extreme && i % 2 == 0)).In(Ints(DrawAxes(shape.rank())), true);
      ASSERT_NO_FATAL_FAILURE(Check(c.Attr("keepdims", Draw(0, 1))));
    }
  }
}

TEST_F(CpuOps, SoftmaxOfDoubles) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (int i = 0; i < 2 * kRounds; ++i) {
      const Shape shape = DrawShapeOrLarge(1, 5);
      Case c{.op = op, .opset = Pick({11, 13})};
      c.In(DrawTensor(DType::kF64, shape, 5));
      ASSERT_NO_FATAL_FAILURE(Check(c.Attr("axis", Draw(-shape.rank(), shape.rank() - 1))));
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
