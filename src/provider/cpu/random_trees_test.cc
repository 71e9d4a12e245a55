// Ensembles of decision trees on the CPU provider: trees, votes, modes, transforms and types drawn at random.
#include <gtest/gtest.h>

#include <cmath>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// Trees as the attributes of versions 1 to 3 list them.
struct Trees {
  std::vector<int64_t> tree, id, feature, on_true, on_false, missing;
  std::vector<float> split;
  std::vector<std::string> mode;
  std::vector<int64_t> vote_tree, vote_id, vote_target;
  std::vector<float> vote_weight;
  int64_t features = 1, targets = 1;
  bool one_mode = true, one_target = false, positive = false;
  std::string the_mode;

  // Adds a node with all below it; gives its id.
  int64_t Grow(int64_t t, int64_t& next, int64_t depth) {
    const int64_t self = next++;
    const size_t at = id.size();
    const bool leaf = depth == 0 || Draw(0, 4) == 0;
    tree.push_back(t);
    id.push_back(self);
    feature.push_back(leaf ? 0 : Draw(0, features - 1));
    split.push_back(static_cast<float>(Draw(-3, 3)) / 2);
    missing.push_back(Draw(0, 1));
    mode.push_back(leaf       ? "LEAF"
                   : one_mode ? the_mode
                              : Pick<std::string>(
                                    {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}));
    on_true.push_back(0);
    on_false.push_back(0);
    if (leaf) {
      for (int64_t n = Draw(0, 2); n > 0; --n) {
        vote_tree.push_back(t);
        vote_id.push_back(self);
        vote_target.push_back(one_target ? 0 : Draw(0, targets - 1));
        vote_weight.push_back(static_cast<float>(Draw(positive ? 0 : -8, 8)) / 8);
      }
      return self;
    }
    const int64_t yes = Grow(t, next, depth - 1);
    on_true[at] = yes;
    on_false[at] = Draw(0, 9) == 0 ? yes : Grow(t, next, depth - 1);
    return self;
  }
  static Trees Drawn(int64_t features, int64_t targets) {
    Trees t;
    t.features = features;
    t.targets = targets;
    t.one_mode = Draw(0, 2) != 0;
    t.one_target = Draw(0, 2) == 0;
    t.positive = Draw(0, 1) != 0;
    t.the_mode = Pick<std::string>(
        {"BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"});
    const int64_t count = Draw(1, 12);
    for (int64_t i = 0; i < count; ++i) {
      int64_t next = 0;
      t.Grow(i, next, Draw(0, 5));
    }
    return t;
  }
  void Describe(const std::string& votes, Case& c) const {
    c.Attr("nodes_treeids", tree).Attr("nodes_nodeids", id).Attr("nodes_featureids", feature);
    c.Attr("nodes_values", split).Attr("nodes_modes", mode);
    c.Attr("nodes_truenodeids", on_true).Attr("nodes_falsenodeids", on_false);
    if (Draw(0, 1)) c.Attr("nodes_missing_value_tracks_true", missing);
    c.Attr(votes + "_treeids", vote_tree).Attr(votes + "_nodeids", vote_id).Attr(votes + "_ids", vote_target);
    c.Attr(votes + "_weights", vote_weight);
  }
};

// Features that often stand exactly on a split; [rows, features], or one row of [features].
Tensor DrawFeatures(int64_t rows, int64_t features, DType type) {
  const Shape shape = rows < 0 ? Shape{features} : Shape{rows, features};
  Tensor x = Tensor::Allocate(type, shape).value();
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double v = static_cast<double>(Draw(-4, 4)) / 2;
    switch (type) {
      case DType::kF32:
        x.data<float>()[i] = Draw(0, 9) == 0 ? NAN : static_cast<float>(v);
        break;
      case DType::kF64:
        x.data<double>()[i] = Draw(0, 9) == 0 ? NAN : v;
        break;
      case DType::kI32:
        x.data<int32_t>()[i] = static_cast<int32_t>(v);
        break;
      default:
        x.data<int64_t>()[i] = static_cast<int64_t>(v);
        break;
    }
  }
  return x;
}

int64_t DrawRows() { return Pick<int64_t>({-1, 0, 1, 3, 17, 150}); }
DType DrawFeatureType() { return Pick({DType::kF32, DType::kF32, DType::kF64, DType::kI32, DType::kI64}); }
std::string DrawTransform() {
  return Pick<std::string>({"NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"});
}
std::vector<float> DrawBase(int64_t n) {
  std::vector<float> base;
  for (int64_t i = 0; i < n; ++i) base.push_back(static_cast<float>(Draw(-4, 4)) / 4);
  return base;
}

TEST_F(CpuOps, TreeEnsembleClassifier) {
  for (int i = 0; i < 20 * kRounds; ++i) {
    const int64_t features = Draw(1, 6), classes = Draw(1, 4);
    Case c{.op = "TreeEnsembleClassifier", .outputs = 2, .domain = "ai.onnx.ml"};
    Trees::Drawn(features, classes).Describe("class", c);
    std::vector<int64_t> labels;
    for (int64_t k = 0; k < classes; ++k) labels.push_back(10 * k + Draw(0, 3));
    c.Attr("classlabels_int64s", labels).Attr("post_transform", DrawTransform());
    if (Draw(0, 2) == 0) c.Attr("base_values", DrawBase(classes == 2 ? Draw(1, 2) : classes));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawFeatures(DrawRows(), features, DrawFeatureType()))));
  }
}

TEST_F(CpuOps, TreeEnsembleRegressor) {
  for (int i = 0; i < 20 * kRounds; ++i) {
    const int64_t features = Draw(1, 6), targets = Draw(1, 4);
    Case c{.op = "TreeEnsembleRegressor", .domain = "ai.onnx.ml"};
    Trees::Drawn(features, targets).Describe("target", c);
    c.Attr("n_targets", targets).Attr("post_transform", DrawTransform());
    c.Attr("aggregate_function", Pick<std::string>({"SUM", "SUM", "AVERAGE", "MIN", "MAX"}));
    if (Draw(0, 2) == 0) c.Attr("base_values", DrawBase(targets));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawFeatures(DrawRows(), features, DrawFeatureType()))));
  }
}

// Every tree of version 5 is two levels of branches over four leaves; sets among them.
TEST_F(CpuOps, TreeEnsemble) {
  for (int i = 0; i < 10 * kRounds; ++i) {
    const int64_t features = Draw(1, 4), targets = Draw(1, 3), trees = Draw(1, 9);
    const DType type = Pick({DType::kF32, DType::kF64});
    std::vector<int64_t> roots, feature, yes, no, yes_leaf, no_leaf, target;
    std::vector<uint8_t> modes;
    std::vector<double> splits, weights, members;
    const bool sets = Draw(0, 1) != 0;
    for (int64_t t = 0; t < trees; ++t) {
      roots.push_back(3 * t);
      for (int64_t n = 0; n < 3; ++n) {
        feature.push_back(Draw(0, features - 1));
        modes.push_back(static_cast<uint8_t>(Draw(0, sets ? 6 : 5)));
        splits.push_back(static_cast<double>(Draw(-3, 3)) / 2);
        yes.push_back(n == 0 ? 3 * t + 1 : 4 * t + 2 * (n - 1));
        no.push_back(n == 0 ? 3 * t + 2 : 4 * t + 2 * (n - 1) + 1);
        yes_leaf.push_back(n > 0);
        no_leaf.push_back(n > 0);
        if (modes.back() == 6) members.insert(members.end(), {-1, 0.5, 1, static_cast<double>(NAN)});
      }
      for (int k = 0; k < 4; ++k) {
        target.push_back(Draw(0, targets - 1));
        weights.push_back(static_cast<double>(Draw(-8, 8)) / 8);
      }
    }
    const auto numbers = [type](const std::vector<double>& v) -> Value {
      const Shape shape{static_cast<int64_t>(v.size())};
      if (type == DType::kF64) return Tensor::FromValues<double>(shape, v);
      return Tensor::FromValues<float>(shape, std::vector<float>(v.begin(), v.end()));
    };
    Case c{.op = "TreeEnsemble", .domain = "ai.onnx.ml", .domain_opset = 5};
    c.Attr("tree_roots", roots).Attr("nodes_featureids", feature).Attr("nodes_splits", numbers(splits));
    c.Attr("nodes_modes", Value(Tensor::FromValues<uint8_t>(Shape{3 * trees}, modes)));
    c.Attr("nodes_truenodeids", yes).Attr("nodes_falsenodeids", no);
    c.Attr("nodes_trueleafs", yes_leaf).Attr("nodes_falseleafs", no_leaf);
    c.Attr("leaf_targetids", target).Attr("leaf_weights", numbers(weights));
    if (!members.empty()) c.Attr("membership_values", numbers(members));
    c.Attr("n_targets", targets).Attr("aggregate_function", Draw(0, 3)).Attr("post_transform", Draw(0, 4));
    ASSERT_NO_FATAL_FAILURE(Check(c.In(DrawFeatures(Draw(0, 200), features, type))));
  }
}

TEST_F(CpuOps, TreesThatAskForFeaturesBeyondTheInputAreErrors) {
  Case c{.op = "TreeEnsembleRegressor", .domain = "ai.onnx.ml"};
  using I = std::vector<int64_t>;
  c.Attr("nodes_treeids", I{0, 0, 0}).Attr("nodes_nodeids", I{0, 1, 2}).Attr("nodes_featureids", I{5, 0, 0});
  c.Attr("nodes_values", std::vector<float>{0, 0, 0});
  c.Attr("nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "LEAF"});
  c.Attr("nodes_truenodeids", I{1, 0, 0}).Attr("nodes_falsenodeids", I{2, 0, 0}).Attr("n_targets", int64_t{1});
  c.In(DrawFeatures(3, 2, DType::kF32));
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  const Result<std::vector<Tensor>> result = RunOnCpu(b.graph, b.inputs, Config(false));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("feature 5, the input has 2 features"), std::string::npos)
      << result.status().message();
}

TEST_F(CpuOps, TreesWithStringLabelsAreLeftAlone) {
  Case c{.op = "TreeEnsembleClassifier", .outputs = 2, .domain = "ai.onnx.ml"};
  Trees::Drawn(2, 2).Describe("class", c);
  c.Attr("classlabels_strings", std::vector<std::string>{"a", "b"}).In(DrawFeatures(3, 2, DType::kF32));
  Built b;
  ASSERT_NO_FATAL_FAILURE(Build(c, false, b));
  EXPECT_EQ(FindCpuOp("ai.onnx.ml", c.op)->reject(*b.node, Config(false)), "the labels are strings");
}

}  // namespace
}  // namespace quern::cpu
