#include <gtest/gtest.h>

#include "passes/pass_tester.h"

namespace quern {
namespace {

std::string HeaderOf(int version) {
  return "graph opset(\"\": 17, \"ai.onnx.ml\": " + std::to_string(version) + ") {\n";
}

std::unique_ptr<Graph> Split(const std::string& text) {
  std::unique_ptr<Graph> graph = Parse(text);
  const Result<std::vector<PassReport>> reports = RunPasses(*graph, {{FindNeutralPass("split_string_labels")}}, {});
  EXPECT_TRUE(reports.ok()) << reports.status().message();
  return graph;
}

TEST(SplitStringLabels, GivesNumbersAndTheirStrings) {
  const std::string attributes = "coefficients = [1.0, 0.0, 0.0, 1.0], intercepts = [0.25, 0.0]";
  const std::string before = HeaderOf(3) +
                             "  input %x: f32[n,2]\n"
                             "  %l: string[n], %s: f32[n,2] = ai.onnx.ml::LinearClassifier(%x) "
                             "{classlabels_strings = [\"b\", \"a\"], " +
                             attributes + "}\n  return %l, %s\n}\n";
  EXPECT_EQ(PrintGraph(*Split(before), kFull),
            HeaderOf(3) +
                "  input %x: f32[n,2]\n"
                "  %l_number: i64[n], %s: f32[n,2] = ai.onnx.ml::LinearClassifier(%x) "
                "{classlabels_ints = [0, 1], " +
                attributes +
                "}\n"
                "  %l: string[n] = ai.onnx.ml::LabelEncoder(%l_number) "
                "{keys_int64s = [0, 1], values_strings = [\"b\", \"a\"]}\n"
                "  return %l, %s\n}\n");
}

// Two and three classes, trees whose votes are for one of two classes, and the oldest LabelEncoder.
TEST(SplitStringLabels, KeepsEachLabel) {
  const std::string tree =
      "nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], "
      "nodes_values = [0.1, 0.0, 0.0], nodes_modes = [\"BRANCH_LEQ\", \"LEAF\", \"LEAF\"], "
      "nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], class_treeids = [0, 0], class_nodeids = [1, 2]";
  const std::string nodes[] = {
      "TreeEnsembleClassifier(%x) {classlabels_strings = [\"no\", \"yes\"], class_ids = [0, 0], "
      "class_weights = [0.9, 0.2], " +
          tree + "}",
      "TreeEnsembleClassifier(%x) {classlabels_strings = [\"no\", \"yes\"], class_ids = [0, 1], "
      "class_weights = [-0.9, 0.2], " +
          tree + "}",
      "TreeEnsembleClassifier(%x) {classlabels_strings = [\"c\", \"a\", \"c\"], class_ids = [0, 2], "
      "class_weights = [0.5, 0.5], " +
          tree + "}",
      "LinearClassifier(%x) {classlabels_strings = [\"c\", \"b\", \"a\"], coefficients = [1.0, -1.0, 0.5], "
      "intercepts = [0.0, 0.0, 0.1]}",
  };
  for (const std::string& node : nodes) {
    for (const int version : {1, 3}) {
      const std::string text =
          HeaderOf(version) + "  input %x: f32[n,1]\n  %l, %s = ai.onnx.ml::" + node + "\n  return %l, %s\n}\n";
      const std::unique_ptr<Graph> before = Parse(text);
      ASSERT_TRUE(InferShapes(*before).ok());
      const std::unique_ptr<Graph> after = Split(text);
      EXPECT_EQ(after->num_nodes(), 2);
      ASSERT_TRUE(InferShapes(*after).ok());
      const std::vector<Value> inputs = {DrawNormal(Shape{40, 1}, 3)};
      const auto expected = EvaluateGraph(*before, inputs), actual = EvaluateGraph(*after, inputs);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      ASSERT_TRUE(actual.ok()) << actual.status().message();
      EXPECT_EQ((*actual)[0].strings().values, (*expected)[0].strings().values) << node;
      for (int64_t i = 0; i < (*expected)[1].tensor().num_elements(); ++i) {
        ASSERT_EQ((*actual)[1].tensor().data<float>()[i], (*expected)[1].tensor().data<float>()[i]);
      }
    }
  }
}

TEST(SplitStringLabels, LeavesOneClassAndNumbers) {
  for (const char* labels : {"classlabels_strings = [\"a\"]", "classlabels_ints = [4, 2]"}) {
    const std::string text = HeaderOf(3) + "  input %x: f32[n,1]\n  %l, %s = ai.onnx.ml::LinearClassifier(%x) {" +
                             labels + ", coefficients = [1.0]}\n  return %l, %s\n}\n";
    EXPECT_EQ(Split(text)->num_nodes(), 1);
  }
}

}  // namespace
}  // namespace quern
