// Operators of the CPU provider that read images at positions which come with the run, on random cases.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

TEST_F(CpuOps, GridSample) {
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    for (const std::string padding : {"zeros", "border", "reflection"}) {
      for (int i = 0; i < kRounds; ++i) {
        const int rank = static_cast<int>(Draw(1, 3));
        Shape x{Draw(1, 3), i % 2 ? Draw(1, 5) : Draw(16, 20)}, grid{x[0]};  // many: channels last
        for (int d = 0; d < rank; ++d) {
          x.push_back(Draw(1, 6));
          grid.push_back(i == 0 && rank < 3 ? 20 : Draw(1, 6));
        }
        grid.push_back(rank);
        Case c{.op = "GridSample", .opset = 22};
        c.absolute = c.relative = 1e-4;
        c.In(DrawTensor(DType::kF32, x)).In(DrawTensor(DType::kF32, grid, 0.8f, i % 3 == 0));
        c.Attr("mode", mode).Attr("padding_mode", padding).Attr("align_corners", Draw(0, 1));
        ASSERT_NO_FATAL_FAILURE(Check(c));
      }
    }
  }
  Case old{.op = "GridSample", .opset = 16};
  old.In(DrawTensor(DType::kF32, Shape{1, 2, 3, 4})).In(DrawTensor(DType::kF32, Shape{1, 5, 6, 2}, 0.5f));
  ASSERT_NO_FATAL_FAILURE(Check(old.Attr("mode", std::string("bicubic"))));
  Case empty{.op = "GridSample", .opset = 22};
  empty.In(DrawTensor(DType::kF32, Shape{1, 2, 0, 4})).In(DrawTensor(DType::kF32, Shape{1, 5, 6, 2}, 0.5f));
  ASSERT_NO_FATAL_FAILURE(Check(empty));
}

TEST_F(CpuOps, GridSampleOfNothingIsAnError) {
  Case c{.op = "GridSample", .opset = 22};
  c.In(DrawTensor(DType::kF32, Shape{1, 2, 0, 4})).In(DrawTensor(DType::kF32, Shape{1, 5, 6, 2}, 0.5f));
  c.Attr("padding_mode", std::string("border"));
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, b.inputs, Config(false));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("nothing to read"), std::string::npos) << result.status().message();
}

}  // namespace
}  // namespace quern::cpu
