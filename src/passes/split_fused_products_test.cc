#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

constexpr char kHeader[] = "graph opset(\"\": 17, \"com.microsoft\": 1) {\n";

// What the pass makes of lines whose one result is %y of inputs %a, %b and %c, after a look at its results.
std::unique_ptr<Graph> Checked(const std::string& lines, const std::vector<Value>& inputs) {
  const std::string text = kHeader + lines + "  return %y\n}\n";
  const std::unique_ptr<Graph> before = Parse(text);
  std::unique_ptr<Graph> after = Parse(text);
  EXPECT_TRUE(InferShapes(*before).ok() && InferShapes(*after).ok());
  const auto reports = RunPasses(*after, {{FindNeutralPass("split_fused_products")}}, {});
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  const auto expected = EvaluateGraph(*before, inputs), actual = EvaluateGraph(*after, inputs);
  EXPECT_TRUE(expected.ok() && actual.ok());
  const Tensor &e = (*expected)[0].tensor(), &a = (*actual)[0].tensor();
  EXPECT_EQ(a.shape(), e.shape());
  for (int64_t i = 0; i < e.num_elements(); ++i) EXPECT_NEAR(a.data<float>()[i], e.data<float>()[i], 1e-5);
  EXPECT_EQ(after->outputs()[0]->name(), "y");
  return after;
}

int Count(const Graph& graph, const char* op_type) {
  int count = 0;
  for (const Node* n : graph.nodes()) count += n->Is(op_type);
  return count;
}

TEST(SplitFusedProducts, TransposesMatricesAndBatches) {
  const auto matmul = [](const char* attributes) {
    return std::string("  input %a: f32[3,2,4,5]\n  input %b: f32[3,2,4,5]\n") +
           "  %y: f32[*] = com.microsoft::FusedMatMul(%a, %b) {" + attributes + "}\n";
  };
  const std::vector<Value> inputs = {DrawNormal(Shape{3, 2, 4, 5}, 1), DrawNormal(Shape{3, 2, 4, 5}, 2)};
  const auto scaled = Checked(matmul("transB = 1, alpha = 0.125"), inputs);
  EXPECT_EQ(Count(*scaled, "Transpose"), 1);
  EXPECT_EQ(Count(*scaled, "MatMul"), 1);
  EXPECT_EQ(Count(*scaled, "Mul"), 1);
  const auto turned = Checked(matmul("transA = 1"), inputs);
  EXPECT_EQ(Count(*turned, "Transpose"), 1);
  EXPECT_EQ(turned->num_nodes(), 2);
  EXPECT_EQ(Count(*Checked(matmul("transBatchA = 1, transBatchB = 1, transB = 1"), inputs), "Transpose"), 2);
  EXPECT_EQ(Checked("  input %a: f32[4,5]\n  input %b: f32[5]\n"
                    "  %y: f32[4] = com.microsoft::FusedMatMul(%a, %b) {transB = 1}\n",
                    {DrawNormal(Shape{4, 5}, 1), DrawNormal(Shape{5}, 2)})
                ->num_nodes(),
            1);
}

TEST(SplitFusedProducts, ActivationsFollowTheirGemm) {
  const std::vector<Value> inputs = {DrawNormal(Shape{5, 4}, 1), DrawNormal(Shape{5, 3}, 2), DrawNormal(Shape{3}, 3)};
  const auto gemm = [](const std::string& attributes) {
    return "  input %a: f32[5,4]\n  input %b: f32[5,3]\n  input %c: f32[3]\n"
           "  %y: f32[4,3] = com.microsoft::FusedGemm(%a, %b, %c) {transA = 1, beta = 0.5" +
           attributes + "}\n";
  };
  for (const std::string name : {"Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "LeakyRelu", "ThresholdedRelu",
                                 "Elu", "Celu", "Selu", "HardSigmoid", "HardSwish"}) {
    const auto graph = Checked(gemm(", activation = \"" + name + "\""), inputs);
    EXPECT_EQ(graph->num_nodes(), 2);
    EXPECT_EQ(Count(*graph, name.c_str()), 1);
  }
  Checked(gemm(", activation = \"LeakyRelu\", activation_alpha = 0.75"), inputs);
  Checked(gemm(", activation = \"HardSigmoid\", activation_alpha = 0.5, activation_beta = 0.25"), inputs);
  Checked(gemm(", activation = \"Selu\", activation_gamma = 2.0"), inputs);
  EXPECT_EQ(Count(*Checked(gemm(""), inputs), "Gemm"), 1);
  EXPECT_EQ(Checked(gemm(", activation = \"Clip\""), inputs)->num_nodes(), 1);  // stays: its bounds would be inputs
}

}  // namespace
}  // namespace quern
