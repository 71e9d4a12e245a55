// Support vector machines of ai.onnx.ml on the CPU provider, on random cases.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

std::vector<float> DrawFloats(int64_t n) {
  const Tensor t = DrawTensor(DType::kF32, Shape{n}, 1);
  return {t.data<float>(), t.data<float>() + n};
}
Tensor DrawRows(int64_t features) {
  const int64_t rows = Pick<int64_t>({-1, 0, 1, 2, 5, 40});
  return DrawTensor(Pick({DType::kF32, DType::kF32, DType::kF64, DType::kI32, DType::kI64}),
                    rows < 0 ? Shape{features} : Shape{rows, features}, 1);
}

// A kernel whose values are of the order of 1 for rows and vectors of DrawRows and DrawFloats. Votes compare exactly,
// so sums of the results must not be close to 0 by more than chance.
Case& DrawKernel(Case& c, int64_t features) {
  const std::string type = Pick<std::string>({"LINEAR", "POLY", "RBF", "SIGMOID"});
  const float gamma = 0.5f / static_cast<float>(features), degree = Pick({0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 2.5f});
  // Integers go up to 9: powers and what cancels in their sums are large.
  c.absolute = type == "POLY" || type == "LINEAR" ? 5e-4 : 1e-5;
  c.relative = 1e-5;
  return c.Attr("kernel_type", type).Attr("kernel_params", std::vector<float>{gamma, Pick({0.0f, 0.75f}), degree});
}

struct Classifier {
  int64_t features, classes;
  std::vector<int64_t> counts;  // vectors of each class
  bool probabilities = false;
};
Case ClassifierCase(const Classifier& m) {
  std::vector<int64_t> labels;
  int64_t vectors = 0;
  for (int64_t k = 0; k < m.classes; ++k) labels.push_back(Draw(-50, 50));
  for (const int64_t n : m.counts) vectors += n;
  const int64_t pairs = m.classes * (m.classes - 1) / 2;
  Case c{.op = "SVMClassifier", .outputs = 2, .domain = "ai.onnx.ml"};
  c.Attr("classlabels_ints", labels).Attr("vectors_per_class", m.counts).Attr("rho", DrawFloats(pairs));
  c.Attr("support_vectors", DrawFloats(vectors * m.features));
  c.Attr("coefficients", DrawFloats((m.classes - 1) * vectors));
  if (m.probabilities) {
    std::vector<float> a = DrawFloats(pairs);
    for (float& v : a) v = -1 - std::fabs(v);
    c.Attr("prob_a", a).Attr("prob_b", DrawFloats(pairs));
  }
  return DrawKernel(c, m.features);
}

TEST_F(CpuOps, SvmClassifier) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    Classifier m{.features = Draw(1, 20), .classes = Draw(2, 6), .counts = {}, .probabilities = Draw(0, 2) == 0};
    for (int64_t k = 0; k < m.classes; ++k) m.counts.push_back(Draw(k == 0 ? 1 : 0, 12));
    Case c = ClassifierCase(m);
    c.Attr("post_transform", Pick<std::string>({"NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"}));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawRows(m.features))));
  }
}

// Blocks of rows and of vectors, tasks of threads.
TEST_F(CpuOps, SvmClassifierOfManyVectors) {
  for (const char* type : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    Case c = ClassifierCase({.features = 33, .classes = 3, .counts = {3000, 0, 6500}});
    c.absolute = 1e-3;  // of sums of thousands
    c.Attr("kernel_type", std::string(type)).Attr("kernel_params", std::vector<float>{0.02f, 0.5f, 3});
    ASSERT_NO_FATAL_FAILURE(CheckOnce(c.In(DrawTensor(DType::kF32, Shape{60, 33}, 1)), false, false)) << type;
  }
}

TEST_F(CpuOps, SvmClassifierWithoutVectors) {
  for (int i = 0; i < 6 * kRounds; ++i) {
    const int64_t features = Draw(1, 40), classes = Draw(1, 5);
    std::vector<int64_t> labels;
    for (int64_t k = 0; k < classes; ++k) labels.push_back(Draw(-50, 50));
    std::vector<float> coefficients = DrawFloats(classes * features);
    for (float& v : coefficients) v = Draw(0, 1) ? v : std::fabs(v);
    Case c{.op = "SVMClassifier", .outputs = 2, .relative = 1e-5, .absolute = 2e-4, .domain = "ai.onnx.ml"};
    c.Attr("classlabels_ints", labels).Attr("coefficients", coefficients).Attr("rho", DrawFloats(1));
    c.Attr("post_transform", Pick<std::string>({"NONE", "LOGISTIC", "SOFTMAX"}));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawRows(features))));
  }
}

TEST_F(CpuOps, SvmRegressor) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    const int64_t features = Draw(1, 20), vectors = Pick<int64_t>({0, 1, 3, 50, 300});
    Case c{.op = "SVMRegressor", .domain = "ai.onnx.ml"};
    DrawKernel(c, features).Attr("n_supports", vectors).Attr("rho", DrawFloats(1));
    c.Attr("coefficients", DrawFloats(vectors > 0 ? vectors : features));
    if (vectors > 0) c.Attr("support_vectors", DrawFloats(vectors * features));
    c.Attr("one_class", Pick<int64_t>({0, 0, 1})).Attr("post_transform", Pick<std::string>({"NONE", "LOGISTIC"}));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawRows(features))));
  }
}

// |x|^2 + |s|^2 - 2xs would leave nothing of the distance.
TEST_F(CpuOps, SvmDistancesFarFromZero) {
  std::vector<float> vectors = DrawFloats(300 * 37);
  for (float& v : vectors) v += 4000;
  Case c{.op = "SVMRegressor", .relative = 1e-5, .absolute = 1e-4, .domain = "ai.onnx.ml"};
  c.Attr("kernel_type", std::string("RBF")).Attr("kernel_params", std::vector<float>{0.02f, 0, 0});
  c.Attr("n_supports", int64_t{300}).Attr("support_vectors", vectors).Attr("coefficients", DrawFloats(300));
  const Tensor x = DrawTensor(DType::kF32, Shape{9, 37}, 1);
  for (float& v : x.values<float>()) v += 4000;
  ASSERT_NO_FATAL_FAILURE(Check(c.Attr("rho", std::vector<float>{0.5f}).In(x)));
}

TEST_F(CpuOps, SvmOfOtherFeaturesIsAnError) {
  Case c = ClassifierCase({.features = 3, .classes = 2, .counts = {2, 2}});
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c.In(DrawTensor(DType::kF32, Shape{2, 3})), false, b));
  const std::vector<Value> wrong = {DrawTensor(DType::kF32, Shape{2, 4})};
  EXPECT_FALSE(RunOnCpu(b.graph, wrong, Config(false)).ok());
}

TEST_F(CpuOps, SvmWithNamesOfClassesIsLeftToTheReference) {
  Case c = ClassifierCase({.features = 3, .classes = 2, .counts = {2, 2}});
  c.attributes.erase("classlabels_ints");
  c.Attr("classlabels_strings", std::vector<std::string>{"a", "b"}).In(DrawTensor(DType::kF32, Shape{2, 3}));
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  EXPECT_EQ(FindCpuOp("ai.onnx.ml", "SVMClassifier")->reject(*b.node, Config(false)), "the labels are strings");
}

}  // namespace
}  // namespace quern::cpu
