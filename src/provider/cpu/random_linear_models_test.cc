// Linear models of ai.onnx.ml and what stands before them on the CPU provider, on random cases.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

std::vector<float> DrawNumbers(int64_t n) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(Draw(-8, 8)) / 4);
  return v;
}
Tensor DrawRows(int64_t features) {
  const int64_t rows = Pick<int64_t>({-1, 0, 1, 5, 300});
  const Shape shape = rows < 0 ? Shape{features} : Shape{rows, features};
  if (Draw(0, 2)) return DrawTensor(Pick({DType::kF32, DType::kI32, DType::kI64}), shape);
  const Tensor x = DrawTensor(DType::kF32, shape);
  Tensor y = Tensor::Allocate(DType::kF64, shape).value();
  for (int64_t i = 0; i < x.num_elements(); ++i) y.data<double>()[i] = static_cast<double>(x.data<float>()[i]) / 3;
  return y;
}
std::string DrawTransform() {
  return Pick<std::string>({"NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"});
}

TEST_F(CpuOps, LinearClassifier) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    const int64_t features = Draw(1, 9), classes = Draw(1, 5), functions = classes == 2 ? Draw(1, 2) : classes;
    std::vector<int64_t> labels;
    for (int64_t k = 0; k < classes; ++k) labels.push_back(Draw(-50, 50));
    Case c{.op = "LinearClassifier", .outputs = 2, .domain = "ai.onnx.ml"};
    c.Attr("classlabels_ints", labels).Attr("coefficients", DrawNumbers(functions * features));
    if (Draw(0, 3)) c.Attr("intercepts", DrawNumbers(functions));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("post_transform", DrawTransform()).In(DrawRows(features))));
  }
}

// Rows that are computed together, and those that are left over; few functions and more.
TEST_F(CpuOps, LinearModelsOfManyRows) {
  for (int i = 0; i < 2 * kRounds; ++i) {
    const int64_t features = Draw(1, 40), targets = Draw(1, 10);
    Case c{.op = "LinearRegressor", .domain = "ai.onnx.ml"};
    c.Attr("targets", targets).Attr("coefficients", DrawNumbers(targets * features));
    if (Draw(0, 3)) c.Attr("intercepts", DrawNumbers(targets));
    const DType type = Pick({DType::kF32, DType::kF64, DType::kI64});
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawTensor(type, Shape{Draw(10, 70), features}))));
  }
}

TEST_F(CpuOps, LinearRegressor) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    const int64_t features = Draw(1, 9), targets = Draw(1, 5);
    Case c{.op = "LinearRegressor", .domain = "ai.onnx.ml"};
    c.Attr("targets", targets).Attr("coefficients", DrawNumbers(targets * features));
    if (Draw(0, 3)) c.Attr("intercepts", DrawNumbers(targets));
    ASSERT_NO_FATAL_FAILURE(Check(c.Attr("post_transform", DrawTransform()).In(DrawRows(features))));
  }
}

TEST_F(CpuOps, ScalerAndNormalizer) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const int64_t features = Draw(1, 9);
    Case scaler{.op = "Scaler", .domain = "ai.onnx.ml"};
    if (Draw(0, 3)) scaler.Attr("offset", DrawNumbers(Pick<int64_t>({1, features})));
    if (Draw(0, 3)) scaler.Attr("scale", DrawNumbers(Pick<int64_t>({1, features})));
    ASSERT_NO_FATAL_FAILURE(Check(scaler.In(DrawRows(features))));
    Case normalizer{.op = "Normalizer", .domain = "ai.onnx.ml"};
    normalizer.Attr("norm", Pick<std::string>({"MAX", "L1", "L2"}));
    ASSERT_NO_FATAL_FAILURE(Check(normalizer.In(DrawRows(features))));
  }
}

TEST_F(CpuOps, Imputer) {
  for (int i = 0; i < 8 * kRounds; ++i) {
    const int64_t features = Draw(1, 9), count = Pick<int64_t>({1, features});
    std::vector<int64_t> integers;
    for (int64_t k = 0; k < count; ++k) integers.push_back(Draw(-20, 20));
    Case c{.op = "Imputer", .domain = "ai.onnx.ml"};
    c.Attr("imputed_value_floats", DrawNumbers(count)).Attr("imputed_value_int64s", integers);
    c.Attr("replaced_value_float", Pick({NAN, 0.5f, 0.0f}));
    c.Attr("replaced_value_int64", Pick<int64_t>({0, 3, int64_t{1} << 32}));
    Tensor x = DrawRows(features);
    for (int64_t k = 0; x.dtype() == DType::kF32 && k < x.num_elements(); ++k) {
      if (Draw(0, 2) == 0) x.data<float>()[k] = Pick({NAN, 0.5f, 0.0f});
    }
    ASSERT_NO_FATAL_FAILURE(Check(c.In(x)));
  }
}

TEST_F(CpuOps, LinearModelsOfOtherFeaturesAreErrors) {
  Case c{.op = "LinearClassifier", .outputs = 2, .domain = "ai.onnx.ml"};
  c.Attr("classlabels_ints", std::vector<int64_t>{1, 2}).Attr("coefficients", DrawNumbers(6));
  c.Attr("intercepts", DrawNumbers(2)).In(DrawTensor(DType::kF32, Shape{2, 3}));
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  HostileExecutor executor(1, 1);
  const auto exe = CpuExecutable::Compile(b.graph, Config(false), executor);
  ASSERT_TRUE(exe.ok()) << exe.status().message();
  const std::vector<Value> wrong = {DrawTensor(DType::kF32, Shape{2, 4})};
  const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, wrong, Config(false));
  EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace quern::cpu
