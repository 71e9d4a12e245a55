// Models of ai.onnx.ml: linear ones, support vector machines and trees; expected values by hand, by plain loops of
// doubles, and for the special forms of two classes as onnxruntime gives them.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "graph/type.h"
#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::HasSubstr;
using F = std::vector<float>;
using D = std::vector<double>;
using I = std::vector<int64_t>;
using S = std::vector<std::string>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

S StringsOf(OpTester& t, int i = 0) {
  const Result<std::vector<Value>> outputs = t.Run();
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? (*outputs)[i].strings().values : S();
}
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// An operator with attributes, run anew for each of its outputs.
struct Model {
  std::string op;
  int version = 1;
  std::map<std::string, Attribute> attributes = {};
  Value x = {};

  Model With(const std::string& name, Attribute value) const {
    Model m = *this;
    m.attributes.insert_or_assign(name, std::move(value));
    return m;
  }
  Model On(const Shape& shape, const F& values) const {
    Model m = *this;
    m.x = Tensor::FromValues<float>(shape, values);
    return m;
  }
  template <typename T>
  Model OnValues(const Shape& shape, const std::vector<T>& values) const {
    Model m = *this;
    m.x = Tensor::FromValues<T>(shape, values);
    return m;
  }
  void Fill(OpTester& t) const {
    t.Input(x).Outputs(op.ends_with("Classifier") ? 2 : 1);
    for (const auto& [name, value] : attributes) t.Attr(name, value);
  }
  F Floats(int i = 0) const {
    OpTester t(op, version, "ai.onnx.ml");
    Fill(t);
    return t.Values<float>(i);
  }
  D Doubles() const {
    OpTester t(op, version, "ai.onnx.ml");
    Fill(t);
    return t.Values<double>(0);
  }
  I Labels() const {
    OpTester t(op, version, "ai.onnx.ml");
    Fill(t);
    return t.Values<int64_t>(0);
  }
  S Names() const {
    OpTester t(op, version, "ai.onnx.ml");
    Fill(t);
    return StringsOf(t);
  }
  std::string Error() const {
    OpTester t(op, version, "ai.onnx.ml");
    Fill(t);
    return t.Error();
  }
};

TEST(LinearRegressor, TargetsAndTransforms) {
  const Model m = {"LinearRegressor", 1, {{"coefficients", F{1, 2, 3, 4}}, {"targets", int64_t{2}}}};
  EXPECT_EQ(m.On({2, 2}, {1, 0, 0, 1}).Floats(), (F{1, 3, 2, 4}));
  EXPECT_EQ(m.On({2}, {1, 1}).With("intercepts", F{10, 20}).Floats(), (F{13, 27}));
  ExpectNear(m.On({2}, {1, 0}).With("post_transform", std::string("SOFTMAX")).Floats(),
             {1 / (1 + std::exp(2)), 1 / (1 + std::exp(-2))});
  ExpectNear(m.On({2}, {1, 0}).With("post_transform", std::string("LOGISTIC")).Floats(), {Sigmoid(1), Sigmoid(3)});
  // Nothing is left of a logistic of float far below zero, as in onnxruntime.
  EXPECT_EQ(m.On({2}, {-20, 20}).With("post_transform", std::string("LOGISTIC")).Floats()[0], 1);
  EXPECT_EQ(m.On({2}, {-20, 0}).With("post_transform", std::string("LOGISTIC")).Floats(), (F{0, 0}));
  // Values of onnxruntime, whose formula is an approximation.
  ExpectNear(m.With("coefficients", F{0.4f, 0, 0.2f, 0})
                 .On({2}, {1, 0})
                 .With("post_transform", std::string("PROBIT"))
                 .Floats(),
             {-0.253354, -0.841756});
  EXPECT_THAT(m.On({3}, {1, 2, 3}).Error(), HasSubstr("3 features, the model was made for 2"));
  EXPECT_THAT(m.On({2}, {1, 2}).With("targets", int64_t{3}).Error(), HasSubstr("do not make 3 targets"));
  EXPECT_THAT(m.On({2}, {1, 2}).With("intercepts", F{1}).Error(), HasSubstr("1 intercepts"));
  EXPECT_THAT(m.On({2}, {1, 2}).With("post_transform", std::string("SQUARE")).Error(), HasSubstr("'SQUARE'"));
}

TEST(LinearClassifier, ManyClasses) {
  const Model m = {"LinearClassifier",
                   1,
                   {{"coefficients", F{1, 0, 0, 1, -1, -1}},
                    {"intercepts", F{0, 0.5f, 0}},
                    {"classlabels_strings", S{"a", "b", "c"}}},
                   Tensor::FromValues<int64_t>({3, 2}, I{1, 0, 0, 0, -1, -1})};
  EXPECT_EQ(m.Names(), (S{"a", "b", "c"}));
  EXPECT_EQ(m.Floats(1), (F{1, 0.5f, -1, 0, 0.5f, 0, -1, -0.5f, 2}));
  EXPECT_THAT(m.With("classlabels_strings", S{"a"}).Error(), HasSubstr("1 class labels"));
  EXPECT_THAT(m.With("classlabels_ints", I{1}).Error(), HasSubstr("both given"));
  EXPECT_THAT(m.With("coefficients", F{1, 2, 3, 4, 5}).Error(), HasSubstr("5 coefficients"));
}

// One linear function for two labels; scores that onnxruntime gives.
TEST(LinearClassifier, OneRowForTwoClasses) {
  const Model m = {"LinearClassifier",
                   1,
                   {{"coefficients", F{1, 0.5f}}, {"intercepts", F{-0.5f}}, {"classlabels_ints", I{7, 9}}},
                   Tensor::FromValues<float>({2, 2}, F{1, 0, 0, 1})};
  EXPECT_EQ(m.Labels(), (I{9, 7}));
  EXPECT_EQ(m.Floats(1), (F{0.5f, 0.5f, 1, 0}));
  EXPECT_EQ(m.With("post_transform", std::string("SOFTMAX")).Floats(1), (F{0.5f, 0.5f, 1, 0}));
  ExpectNear(m.With("post_transform", std::string("LOGISTIC")).Floats(1), {Sigmoid(-0.5), Sigmoid(0.5), 0.5, 0.5});
  EXPECT_THAT(m.With("classlabels_ints", I{7}).With("coefficients", F{1, 2, 3, 4}).Error(),
              HasSubstr("1 class labels"));
}

// Three classes with one support vector each on a line; the kernel is the product.
const Model kThreeMachines = {"SVMClassifier",
                              1,
                              {{"classlabels_ints", I{10, 20, 30}},
                               {"vectors_per_class", I{1, 1, 1}},
                               {"support_vectors", F{1, 2, 3}},
                               {"coefficients", F{1, -1, 0.5f, 2, 1, -1}},
                               {"rho", F{0.5f, -1, 0.25f}},
                               {"kernel_params", F{0, 0, 0}}}};

TEST(SvmClassifier, VotesOfPairs) {
  // A pair (i,j) takes row j-1 of the coefficients for the vectors of i and row i for those of j. Kernels 2, 4, 6 for
  // x = 2: (0,1) 1*2 - 1*4 + 0.5, (0,2) 2*2 + 0.5*6 - 1, (1,2) 1*4 - 1*6 + 0.25.
  EXPECT_EQ(kThreeMachines.On({1}, {2}).Floats(1), (F{-1.5f, 6, -1.75f}));
  // A vote for each class at 2: the first one wins. Class 0 wins twice at 0.4, class 2 at 0.27.
  EXPECT_EQ(kThreeMachines.On({3, 1}, {2, 0.4f, 0.27f}).Labels(), (I{10, 10, 30}));
}

TEST(SvmClassifier, TwoClasses) {
  const Model m = {"SVMClassifier",
                   1,
                   {{"classlabels_strings", S{"no", "yes"}},
                    {"vectors_per_class", I{1, 1}},
                    {"support_vectors", F{1, 2}},
                    {"coefficients", F{1, -1}},
                    {"rho", F{0.5f}}},
                   Tensor::FromValues<float>({2, 1}, F{0.25f, 1})};  // scores 0.25 and -0.5
  EXPECT_EQ(m.Names(), (S{"no", "yes"}));
  EXPECT_EQ(m.Floats(1), (F{-0.25f, 0.25f, 0.5f, -0.5f}));
  EXPECT_EQ(m.With("post_transform", std::string("SOFTMAX")).Floats(1), (F{0.75f, 0.25f, 1.5f, -0.5f}));
  ExpectNear(m.With("post_transform", std::string("LOGISTIC")).Floats(1),
             {Sigmoid(-0.25), Sigmoid(0.25), Sigmoid(0.5), Sigmoid(-0.5)});
}

TEST(SvmClassifier, LinearFunctions) {
  const Model m = {"SVMClassifier", 1, {{"coefficients", F{1, 0, 0, 1, 2, 2}}, {"rho", F{0.5f}}}};
  const Model three = m.With("classlabels_ints", I{1, 2, 3}).On({2, 2}, {1, 3, -1, -2});
  EXPECT_EQ(three.Floats(1), (F{1.5f, 3.5f, 8.5f, -0.5f, -1.5f, -5.5f}));
  EXPECT_EQ(three.Labels(), (I{3, 1}));
  // Of two classes the second wins as soon as one of the scores is positive.
  const Model two = m.With("coefficients", F{1, -1}).With("rho", F{0}).With("classlabels_ints", I{1, 2});
  EXPECT_EQ(two.On({2, 1}, {3, 0}).Labels(), (I{2, 1}));
  // Without negative coefficients it takes 0.5.
  EXPECT_EQ(two.With("coefficients", F{1, 0.5f}).On({3, 1}, {0.25f, 0.5f, 3}).Labels(), (I{1, 2, 2}));
}

TEST(SvmClassifier, Errors) {
  const Model m = kThreeMachines.On({1}, {2});
  EXPECT_THAT(m.With("rho", F{1}).Error(), HasSubstr("rho has 1 values, 3 are needed"));
  EXPECT_THAT(m.With("coefficients", F{1}).Error(), HasSubstr("coefficients has 1 values, 6 are needed"));
  EXPECT_THAT(m.With("vectors_per_class", I{1, 2}).Error(), HasSubstr("vectors_per_class has 2 values for 3"));
  EXPECT_THAT(m.With("vectors_per_class", I{1, -1, 1}).Error(), HasSubstr("holds -1"));
  EXPECT_THAT(m.With("support_vectors", F{1, 2}).Error(), HasSubstr("2 values for 3 vectors"));
  EXPECT_THAT(m.With("kernel_type", std::string("CUBE")).Error(), HasSubstr("'CUBE'"));
  EXPECT_THAT(m.With("kernel_params", F{1}).Error(), HasSubstr("gamma, coef0 and degree"));
  EXPECT_THAT(m.With("prob_a", F{1, 1, 1}).Error(), HasSubstr("as many values"));
  EXPECT_THAT(m.With("classlabels_ints", I{}).Error(), HasSubstr("is needed"));
  EXPECT_THAT(m.On({1, 2}, {2, 3}).Error(), HasSubstr("2 features, the model was made for 1"));
}

TEST(SvmClassifier, ProbabilitiesOfPairsAgree) {
  // P(i | i or j) that come from probabilities: coupling gives those back. Scores are 0, so that prob_b tells them.
  const D p = {0.2, 0.5, 0.3};
  F prob_b;
  for (const auto& [i, j] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
    prob_b.push_back(static_cast<float>(std::log(p[j] / p[i])));
  }
  const Model m = kThreeMachines.With("coefficients", F(6, 0.0f)).With("rho", F(3, 0.0f)).With("prob_a", F(3, 1.0f));
  ExpectNear(m.With("prob_b", prob_b).On({1}, {2}).Floats(1), p, 5e-3);
}

TEST(SvmRegressor, Kernels) {
  const Model m = {"SVMRegressor",
                   1,
                   {{"n_supports", int64_t{2}},
                    {"support_vectors", F{1, 0, 0.5f, 2}},
                    {"coefficients", F{2, -1}},
                    {"rho", F{0.25f}},
                    {"kernel_params", F{0.5f, 1, 3}}}};
  const Model on = m.On({1, 2}, {1, 1});
  const auto kernel = [](double a, double b) { return 2 * a - b + 0.25; };
  ExpectNear(on.Floats(), {kernel(1, 2.5)});
  ExpectNear(on.With("kernel_type", std::string("POLY")).Floats(), {kernel(std::pow(1.5, 3), std::pow(2.25, 3))});
  ExpectNear(on.With("kernel_type", std::string("RBF")).Floats(), {kernel(std::exp(-0.5), std::exp(-0.625))});
  ExpectNear(on.With("kernel_type", std::string("SIGMOID")).Floats(), {kernel(std::tanh(1.5), std::tanh(2.25))});
  EXPECT_EQ(on.With("one_class", int64_t{1}).Floats(), F{-1});
  const Model linear = {"SVMRegressor", 1, {{"coefficients", F{2, -1}}, {"rho", F{1}}}};
  EXPECT_EQ(linear.On({2, 2}, {1, 1, 0, 3}).Floats(), (F{2, -2}));
  EXPECT_THAT(on.With("n_supports", int64_t{3}).Error(), HasSubstr("n_supports is 3"));
  EXPECT_THAT(on.With("rho", F{}).Error(), HasSubstr("rho has 0 values"));
}

// Two trees: x0 <= 1 ? a : (x1 > 0 ? b : c), and a lone leaf.
Model Trees(const std::string& op, const std::string& votes, I ids, F weights) {
  Model m = {op,
             1,
             {{"nodes_treeids", I{0, 0, 0, 0, 0, 1}},
              {"nodes_nodeids", I{0, 1, 2, 3, 4, 0}},
              {"nodes_featureids", I{0, 0, 1, 0, 0, 0}},
              {"nodes_values", F{1, 0, 0, 0, 0, 0}},
              {"nodes_modes", S{"BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "LEAF"}},
              {"nodes_truenodeids", I{1, 0, 3, 0, 0, 0}},
              {"nodes_falsenodeids", I{2, 0, 4, 0, 0, 0}}}};
  m.attributes[votes + "_treeids"] = I{0, 0, 0, 1};
  m.attributes[votes + "_nodeids"] = I{1, 3, 4, 0};
  m.attributes[votes + "_ids"] = std::move(ids);
  m.attributes[votes + "_weights"] = std::move(weights);
  return m;
}
Model Regressor(int64_t targets, I ids) {
  return Trees("TreeEnsembleRegressor", "target", std::move(ids), {1, 2, 4, 10}).With("n_targets", targets);
}
const F kFourRows = {1, 0, 2, 1, 2, 0, kNan, kNan};

TEST(TreeEnsembleRegressor, Aggregates) {
  const Model m = Regressor(1, {0, 0, 0, 0}).On({4, 2}, kFourRows);
  EXPECT_EQ(m.Floats(), (F{11, 12, 14, 14}));
  const auto by = [&](const char* name) { return m.With("aggregate_function", std::string(name)).Floats(); };
  EXPECT_EQ(by("AVERAGE"), (F{5.5f, 6, 7, 7}));
  EXPECT_EQ(by("MIN"), (F{1, 2, 4, 4}));
  EXPECT_EQ(by("MAX"), (F{10, 10, 10, 10}));
  EXPECT_EQ(m.With("base_values", F{0.5f}).Floats(), (F{11.5f, 12.5f, 14.5f, 14.5f}));
  EXPECT_EQ(m.With("nodes_missing_value_tracks_true", I{0, 0, 1, 0, 0, 0}).Floats(), (F{11, 12, 14, 12}));
  EXPECT_EQ(Regressor(2, {0, 0, 1, 1}).On({4, 2}, kFourRows).Floats(), (F{1, 10, 2, 10, 0, 14, 0, 14}));
  EXPECT_EQ(m.OnValues<int32_t>({1, 2}, {2, 5}).Floats(), F{12});
  EXPECT_EQ(m.On({2}, {1, 0}).Floats(), F{11});
}

TEST(TreeEnsembleRegressor, Modes) {
  const auto with = [](const char* mode) {
    return Regressor(1, {0, 0, 0, 0})
        .With("nodes_modes", S{mode, "LEAF", "LEAF", "LEAF", "LEAF", "LEAF"})
        .With("nodes_falsenodeids", I{3, 0, 0, 0, 0, 0})
        .With("target_nodeids", I{1, 3, 3, 0})
        .With("target_weights", F{1, 0, 0, 0})
        .On({4, 2}, {0, 0, 1, 0, 2, 0, kNan, 0})
        .Floats();
  };
  EXPECT_EQ(with("BRANCH_LEQ"), (F{1, 1, 0, 0}));
  EXPECT_EQ(with("BRANCH_LT"), (F{1, 0, 0, 0}));
  EXPECT_EQ(with("BRANCH_GTE"), (F{0, 1, 1, 0}));
  EXPECT_EQ(with("BRANCH_GT"), (F{0, 0, 1, 0}));
  EXPECT_EQ(with("BRANCH_EQ"), (F{0, 1, 0, 0}));
  EXPECT_EQ(with("BRANCH_NEQ"), (F{1, 0, 1, 1}));
}

TEST(TreeEnsembleRegressor, DoublesInTensors) {
  Model m = Regressor(1, {0, 0, 0, 0});
  m.version = 3;
  m.attributes.erase("nodes_values");
  m.attributes.erase("target_weights");
  const auto doubles = [](const D& v) {
    return Value(Tensor::FromValues<double>(Shape{static_cast<int64_t>(v.size())}, v));
  };
  const Model tensors = m.With("nodes_values_as_tensor", doubles({0.1, 0, 0, 0, 0, 0}))
                            .With("target_weights_as_tensor", doubles({1, 2, 4, 10}))
                            .With("base_values_as_tensor", doubles({100}));
  // 0.1f is above 0.1.
  EXPECT_EQ(tensors.On({1, 2}, {0.1f, 1}).Floats(), F{112});
  EXPECT_EQ(tensors.OnValues<double>({1, 2}, {0.1, 1}).Floats(), F{111});
  EXPECT_THAT(tensors.With("target_weights", F{1, 2, 3, 4}).On({1, 2}, {0, 0}).Error(), HasSubstr("both given"));
}

TEST(TreeEnsembleRegressor, RefusesBrokenTrees) {
  const Model m = Regressor(1, {0, 0, 0, 0}).On({1, 2}, {5, 5});
  EXPECT_THAT(m.With("nodes_truenodeids", I{1, 0, 0, 0, 0, 0}).Error(), HasSubstr("in a circle"));
  EXPECT_THAT(m.With("nodes_falsenodeids", I{0, 0, 4, 0, 0, 0}).Error(), HasSubstr("in a circle"));
  EXPECT_THAT(m.With("nodes_truenodeids", I{9, 0, 3, 0, 0, 0}).Error(), HasSubstr("node 0 of tree 0 leads to node 9"));
  EXPECT_THAT(m.With("nodes_featureids", I{0, 0, 2, 0, 0, 0}).Error(), HasSubstr("holds 2, the input has 2 features"));
  EXPECT_THAT(m.With("nodes_featureids", I{-1, 0, 0, 0, 0, 0}).Error(), HasSubstr("holds -1"));
  EXPECT_THAT(m.With("nodes_nodeids", I{0, 1, 2, 3, 3, 0}).Error(), HasSubstr("node 3 of tree 0 is there twice"));
  EXPECT_THAT(m.With("nodes_values", F{1}).Error(), HasSubstr("nodes_values has 1 elements, nodes_treeids has 6"));
  EXPECT_THAT(m.With("nodes_modes", S(6, "BRANCH")).Error(), HasSubstr("'BRANCH'"));
  EXPECT_THAT(m.With("target_ids", I{0, 0, 0, 1}).Error(), HasSubstr("target_ids holds 1, which is outside [0, 0]"));
  EXPECT_THAT(m.With("target_nodeids", I{1, 3, 4, 7}).Error(), HasSubstr("node 7 of tree 1, which is not there"));
  EXPECT_THAT(m.With("n_targets", int64_t{0}).Error(), HasSubstr("n_targets is 0"));
  EXPECT_THAT(m.With("n_targets", int64_t{1} << 40).Error(), HasSubstr("it must be 1 to"));
  EXPECT_THAT(m.With("base_values", F{1, 2}).Error(), HasSubstr("base_values has 2 values for 1 targets"));
  EXPECT_THAT(m.With("aggregate_function", std::string("MEDIAN")).Error(), HasSubstr("'MEDIAN'"));
  EXPECT_THAT(m.On({1, 1, 2}, {1, 2}).Error(), HasSubstr("[N,F] or [F] is needed"));
}

// A subtree that two nodes lead to is no circle.
TEST(TreeEnsembleRegressor, SharedSubtrees) {
  const Model m = Regressor(1, {0, 0, 0, 0}).With("nodes_truenodeids", I{2, 0, 3, 0, 0, 0});
  EXPECT_EQ(m.On({2, 2}, {0, 1, 5, 0}).Floats(), (F{12, 14}));
}

Model Classifier(I ids, F weights, I labels) {
  return Trees("TreeEnsembleClassifier", "class", std::move(ids), std::move(weights))
      .With("classlabels_int64s", std::move(labels))
      .On({3, 2}, {1, 0, 2, 1, 2, 0});
}

TEST(TreeEnsembleClassifier, ManyClasses) {
  const Model m = Classifier({0, 1, 2, 1}, {-1, 2, -4, -3}, {5, 6, 7});
  EXPECT_EQ(m.Floats(1), (F{-1, -3, 0, 0, -1, 0, 0, -3, -4}));
  // A class without a vote does not win, whatever its score of 0 is worth.
  EXPECT_EQ(m.Labels(), (I{5, 6, 6}));
  EXPECT_EQ(m.With("base_values", F{0, 0, 1}).Labels(), (I{7, 7, 5}));
  ExpectNear(m.With("post_transform", std::string("SOFTMAX_ZERO")).Floats(1),
             {std::exp(-1) / (std::exp(-1) + std::exp(-3)), std::exp(-3) / (std::exp(-1) + std::exp(-3)), 0, 0, 1, 0, 0,
              std::exp(1) / (std::exp(1) + 1), 1 / (std::exp(1) + 1)});
  EXPECT_THAT(m.With("base_values", F{1}).Error(), HasSubstr("base_values has 1 values for 3 classes"));
  EXPECT_THAT(m.With("class_ids", I{0, 1, 2, 3}).Error(), HasSubstr("class_ids holds 3"));
  EXPECT_THAT(m.With("classlabels_int64s", I{}).Error(), HasSubstr("is needed"));
}

TEST(TreeEnsembleClassifier, TiesGoToTheFirst) {
  const Model m = Classifier({0, 1, 2, 1}, {3, 2, 4, 3}, {5, 6, 7});
  EXPECT_EQ(m.Labels(), (I{5, 6, 7}));
  Model strings = m.With("classlabels_strings", S{"a", "b", "c"});
  strings.attributes.erase("classlabels_int64s");
  EXPECT_EQ(strings.Names(), (S{"a", "b", "c"}));
}

// What converters write for two classes: votes for one class only.
TEST(TreeEnsembleClassifier, OneScoreForTwoClasses) {
  const Model probability = Classifier({0, 0, 0, 0}, {0.25f, 0.5f, 0.375f, 0.125f}, {7, 9});  // 0.375, 0.625, 0.5
  EXPECT_EQ(probability.Floats(1), (F{0.625f, 0.375f, 0.375f, 0.625f, 0.5f, 0.5f}));
  EXPECT_EQ(probability.Labels(), (I{7, 9, 7}));
  EXPECT_EQ(probability.With("base_values", F{0.25f}).Labels(), (I{9, 9, 9}));
  const auto logistic = [](const Model& m) { return m.With("post_transform", std::string("LOGISTIC")).Floats(1); };
  ExpectNear(logistic(probability),
             {Sigmoid(-0.375), Sigmoid(0.375), Sigmoid(-0.625), Sigmoid(0.625), Sigmoid(-0.5), Sigmoid(0.5)});
  const Model margin = Classifier({0, 0, 0, 0}, {1, -0.5f, 0.5f, -0.5f}, {7, 9});  // 0.5, -1, 0
  EXPECT_EQ(margin.Floats(1), (F{-0.5f, 0.5f, 1, -1, 0, 0}));
  EXPECT_EQ(margin.Labels(), (I{9, 7, 7}));
  ExpectNear(logistic(margin), {Sigmoid(-0.5), Sigmoid(0.5), Sigmoid(1), Sigmoid(-1), 0.5, 0.5});
  // Votes for the second class leave the first one at 0.
  EXPECT_EQ(margin.With("class_ids", I{1, 1, 1, 1}).Floats(1), (F{0, 0.5f, 0, -1, 0, 0}));
}

TEST(TreeEnsembleClassifier, OneClassAndSumsInFloat) {
  EXPECT_EQ(Classifier({0, 0, 0, 0}, {1, -2, -4, 1}, {7}).Labels(), (I{1, 0, 0}));
  // Ten trees, five of which vote 0.1f: in float the sum is 0.5, which is not above 0.5; in double it would be.
  Model m = {"TreeEnsembleClassifier", 1, {{"classlabels_int64s", I{0, 1}}}};
  I trees;
  F weights;
  for (int64_t t = 0; t < 10; ++t) {
    trees.push_back(t);
    weights.push_back(t % 2 == 0 ? 0.1f : 0.0f);
  }
  for (const char* name : {"nodes_treeids", "class_treeids"}) m.attributes[name] = trees;
  for (const char* name :
       {"nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "class_nodeids", "class_ids"}) {
    m.attributes[name] = I(10, 0);
  }
  m.attributes["nodes_values"] = F(10, 0.0f);
  m.attributes["nodes_modes"] = S(10, "LEAF");
  m.attributes["class_weights"] = weights;
  EXPECT_EQ(m.On({1}, {0}).Labels(), I{0});
}

Value U8(const std::vector<uint8_t>& v) {
  return Tensor::FromValues<uint8_t>(Shape{static_cast<int64_t>(v.size())}, v);
}
Value Floats(const F& v) { return Tensor::FromValues<float>(Shape{static_cast<int64_t>(v.size())}, v); }

// x0 <= 11 ? (x0 in {1.2, 8} ? leaf 0 : (x0 in {12, 7} ? leaf 1 : leaf 3)) : leaf 2
const Model kSets = {"TreeEnsemble",
                     5,
                     {{"n_targets", int64_t{4}},
                      {"tree_roots", I{0}},
                      {"nodes_modes", U8({0, 6, 6})},
                      {"nodes_featureids", I{0, 0, 0}},
                      {"nodes_splits", Floats({11, 0, 0})},
                      {"nodes_truenodeids", I{1, 0, 1}},
                      {"nodes_trueleafs", I{0, 1, 1}},
                      {"nodes_falsenodeids", I{2, 2, 3}},
                      {"nodes_falseleafs", I{1, 0, 1}},
                      {"membership_values", Floats({8, 1.2f, kNan, 12, 7, kNan})},
                      {"leaf_targetids", I{0, 1, 2, 3}},
                      {"leaf_weights", Floats({1, 10, 1000, 100})}}};

TEST(TreeEnsemble, SetsOfMembers) {
  EXPECT_EQ(kSets.On({4, 1}, {1.2f, 3, 7, kNan}).Floats(), (F{1, 0, 0, 0, 0, 0, 0, 100, 0, 10, 0, 0, 0, 0, 1000, 0}));
  const Model tracking = kSets.With("nodes_missing_value_tracks_true", I{1, 0, 1});
  EXPECT_EQ(tracking.On({1}, {kNan}).Floats(), (F{0, 10, 0, 0}));
  // The last set may go without its NaN.
  EXPECT_EQ(kSets.With("membership_values", Floats({8, kNan, 7})).On({1}, {7}).Floats(), (F{0, 10, 0, 0}));
  EXPECT_THAT(kSets.With("membership_values", Floats({8, kNan, 7, kNan, 1})).On({1}, {7}).Error(),
              HasSubstr("more sets"));
  EXPECT_THAT(kSets.With("membership_values", Floats({8})).On({1}, {7}).Error(), HasSubstr("fewer sets"));
}

TEST(TreeEnsemble, TypesAndALoneLeaf) {
  const Model lone = {"TreeEnsemble",
                      5,
                      {{"n_targets", int64_t{1}},
                       {"tree_roots", I{0, 0}},
                       {"nodes_modes", U8({0})},
                       {"nodes_featureids", I{77}},
                       {"nodes_splits", Floats({0})},
                       {"nodes_truenodeids", I{0}},
                       {"nodes_trueleafs", I{1}},
                       {"nodes_falsenodeids", I{0}},
                       {"nodes_falseleafs", I{1}},
                       {"leaf_targetids", I{0}},
                       {"leaf_weights", Floats({1.5f})}}};
  EXPECT_EQ(lone.On({2, 1}, {0, 1}).Floats(), (F{3, 3}));
  EXPECT_EQ(lone.With("aggregate_function", int64_t{0}).On({1, 1}, {0}).Floats(), F{1.5f});
  EXPECT_EQ(lone.OnValues<double>({1, 1}, {0}).Doubles(), D{3});
  // A root whose two sides have the same number, one a leaf and one a node, is no lone leaf.
  const Model mixed = lone.With("nodes_modes", U8({0, 0}))
                          .With("nodes_featureids", I{0, 0})
                          .With("nodes_splits", Floats({1, 2}))
                          .With("nodes_truenodeids", I{1, 0})
                          .With("nodes_trueleafs", I{1, 1})
                          .With("nodes_falsenodeids", I{1, 2})
                          .With("nodes_falseleafs", I{0, 1})
                          .With("tree_roots", I{0})
                          .With("leaf_targetids", I{0, 0, 0})
                          .With("leaf_weights", Floats({10, 20, 30}));
  EXPECT_EQ(mixed.On({3, 1}, {1, 2, 3}).Floats(), (F{20, 10, 30}));
  OpTester half("TreeEnsemble", 5, "ai.onnx.ml");
  half.Input(Shape{1, 1}, std::vector<Float16>{Float16(2.0f)});
  for (const auto& [name, value] : mixed.attributes) half.Attr(name, value);
  EXPECT_EQ(static_cast<float>(half.Values<Float16>()[0]), 10);
}

TEST(TreeEnsemble, RefusesBrokenTrees) {
  const Model m = kSets.On({1}, {7});
  EXPECT_THAT(m.With("nodes_truenodeids", I{0, 0, 1}).Error(), HasSubstr("in a circle"));
  EXPECT_THAT(m.With("nodes_truenodeids", I{3, 0, 1}).Error(), HasSubstr("leads to node 3, there are 3"));
  EXPECT_THAT(m.With("nodes_truenodeids", I{1, 4, 1}).Error(), HasSubstr("leads to leaf 4, there are 4"));
  EXPECT_THAT(m.With("tree_roots", I{3}).Error(), HasSubstr("tree_roots holds 3"));
  EXPECT_THAT(m.With("leaf_targetids", I{0, 1, 2, 4}).Error(), HasSubstr("leaf_targetids holds 4"));
  EXPECT_THAT(m.With("nodes_modes", U8({0, 7, 6})).Error(), HasSubstr("holds 7, it must be 0 to 6"));
  EXPECT_THAT(m.With("nodes_modes", Floats({0, 6, 6})).Error(), HasSubstr("tensor of u8"));
  EXPECT_THAT(m.With("nodes_splits", Floats({0})).Error(), HasSubstr("nodes_splits has 1 elements"));
  EXPECT_THAT(m.With("post_transform", int64_t{5}).Error(), HasSubstr("post_transform is 5"));
  EXPECT_THAT(m.With("aggregate_function", int64_t{-1}).Error(), HasSubstr("aggregate_function is -1"));
  EXPECT_THAT(m.With("nodes_featureids", I{0, 1, 0}).Error(), HasSubstr("the input has 1 features"));
}

}  // namespace
}  // namespace quern
