// Losses of labelled samples, LinearAttention and CausalConvWithState against plain loops in double.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using ::testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;

// Scores [2, 3, 2], labels [2, 2], weights [3].
const F kScores = {1, 2, 2, 2, 3, 2, 0, 1, 2, 2, 1, 2};
const I kLabels = {2, 1, 0, 2};
const F kWeights = {0.2f, 0.3f, 0.1f};

// The example of the specification: losses -3, -2, -0, -2, weighted -0.3, -0.6, -0, -0.2.
TEST(NegativeLogLikelihoodLoss, ReducesWeightedLosses) {
  const auto loss = [](const char* reduction, bool weighted, std::optional<int64_t> ignored) {
    OpTester t("NegativeLogLikelihoodLoss", 13);
    t.Input(Shape{2, 3, 2}, kScores).Input(Shape{2, 2}, kLabels);
    if (weighted) t.Input(Shape{3}, kWeights);
    if (ignored) t.Attr("ignore_index", *ignored);
    return t.Attr("reduction", std::string(reduction)).Values<float>();
  };
  ExpectNear(loss("none", false, {}), {-3, -2, 0, -2});
  ExpectNear(loss("none", true, {}), {-0.3, -0.6, 0, -0.2});
  ExpectNear(loss("sum", true, {}), {-1.1});
  ExpectNear(loss("mean", true, {}), {-1.1 / 0.7});
  ExpectNear(loss("mean", false, {}), {-7.0 / 4});
  ExpectNear(loss("mean", false, 2), {-2.0 / 2});
  ExpectNear(loss("mean", true, 2), {-0.6 / 0.5});
  ExpectNear(loss("none", true, 2), {0, -0.6, 0, 0});
}

TEST(NegativeLogLikelihoodLoss, IgnoresALabelOutsideTheClasses) {
  OpTester t("NegativeLogLikelihoodLoss", 22), wrong("NegativeLogLikelihoodLoss", 22);
  t.Input<float>({2, 2}, {1, 2, 3, 4}).Input<int32_t>({2}, {-5, 1}).Attr("ignore_index", int64_t{-5});
  ExpectNear(t.Values<float>(), {-4});
  wrong.Input<float>({2, 2}, {1, 2, 3, 4}).Input<int32_t>({2}, {2, 1});
  EXPECT_THAT(wrong.Error(), HasSubstr("label 2 is outside [0, 1]"));
}

TEST(NegativeLogLikelihoodLoss, RefusesWhatDoesNotFit) {
  const auto error = [](const Shape& scores, const Shape& labels, const Shape& weights, const char* reduction) {
    OpTester t("NegativeLogLikelihoodLoss", 13);
    t.Input(scores, F(static_cast<size_t>(scores.num_elements())));
    t.Input(labels, I(static_cast<size_t>(labels.num_elements())));
    t.Input(weights, F(static_cast<size_t>(weights.num_elements()))).Attr("reduction", std::string(reduction));
    return t.Error();
  };
  EXPECT_THAT(error({3}, {}, {3}, "sum"), HasSubstr("at least a batch and a class dimension"));
  EXPECT_THAT(error({2, 3}, {3}, {3}, "sum"), HasSubstr("[2] is needed"));
  EXPECT_THAT(error({2, 3}, {2}, {2}, "sum"), HasSubstr("one for each class"));
  EXPECT_THAT(error({2, 3}, {2}, {3}, "max"), HasSubstr("none, sum or mean"));
}

TEST(SoftmaxCrossEntropyLoss, TakesTheLogOfTheSoftmax) {
  std::vector<double> log_prob(12), losses;
  for (int n = 0; n < 2; ++n) {
    for (int p = 0; p < 2; ++p) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += std::exp(kScores[(n * 3 + k) * 2 + p]);
      for (int k = 0; k < 3; ++k) {
        log_prob[(n * 3 + k) * 2 + p] = kScores[(n * 3 + k) * 2 + p] - std::log(sum);
      }
      losses.push_back(-log_prob[(n * 3 + kLabels[n * 2 + p]) * 2 + p]);
    }
  }
  OpTester none("SoftmaxCrossEntropyLoss", 13), mean("SoftmaxCrossEntropyLoss", 12),
      both("SoftmaxCrossEntropyLoss", 13);
  none.Input(Shape{2, 3, 2}, kScores).Input(Shape{2, 2}, kLabels).Attr("reduction", std::string("none"));
  ExpectNear(none.Values<float>(), losses);
  mean.Input(Shape{2, 3, 2}, kScores).Input(Shape{2, 2}, kLabels).Input(Shape{3}, kWeights);
  ExpectNear(mean.Values<float>(), {(0.1 * losses[0] + 0.3 * losses[1] + 0.2 * losses[2] + 0.1 * losses[3]) / 0.7});
  both.Input(Shape{2, 3, 2}, kScores).Input(Shape{2, 2}, kLabels).Outputs(2);
  ExpectNear(both.Values<float>(1), log_prob);
}

TEST(SoftmaxCrossEntropyLoss, StaysFiniteForLargeScores) {
  OpTester t("SoftmaxCrossEntropyLoss", 13), half("SoftmaxCrossEntropyLoss", 13);
  t.Input<float>({1, 2}, {1000, 0}).Input<int64_t>({1}, {1});
  ExpectNear(t.Values<float>(), {1000});
  half.Input<BFloat16>({1, 2}, {BFloat16(0), BFloat16(0)}).Input<int64_t>({1}, {1});
  EXPECT_NEAR(static_cast<float>(half.Values<BFloat16>()[0]), std::log(2.0), 4e-3);
}

TEST(Losses, OfNothing) {
  const int64_t huge = int64_t{1} << 40;  // of a dimension beside an empty one
  OpTester sum("NegativeLogLikelihoodLoss", 13), both("SoftmaxCrossEntropyLoss", 13), conv("CausalConvWithState", 27);
  sum.Input<float>({huge, 2, 0}, {}).Input<int64_t>({huge, 0}, {}).Attr("reduction", std::string("sum"));
  EXPECT_EQ(sum.Values<float>(), F{0});
  both.Input<float>({huge, 2, 0}, {}).Input<int64_t>({huge, 0}, {}).Attr("reduction", std::string("none")).Outputs(2);
  EXPECT_EQ(both.Values<float>(1), F{});
  conv.Input<float>({huge, 1, 0}, {}).Input<float>({1, 1, 1}, {1}).Outputs(2);
  EXPECT_EQ(conv.Values<float>(1), F{});
}

TEST(Losses, InferSymbolicShapes) {
  Graph g;
  g.opset_imports[""] = 13;
  GraphValue* scores =
      g.AddInput("scores", ValueType::Tensor(DType::kF32, Dims{Dim::Symbol("n"), Dim(5), Dim::Symbol("d")}));
  GraphValue* labels = g.AddInput("labels", ValueType::Tensor(DType::kI64));
  Node* none = g.AddNode({.op_type = "SoftmaxCrossEntropyLoss",
                          .inputs = {scores, labels},
                          .outputs = {"loss", "log_prob"},
                          .attributes = {{"reduction", std::string("none")}}});
  Node* mean = g.AddNode({.op_type = "NegativeLogLikelihoodLoss", .inputs = {scores, labels}, .outputs = {"mean"}});
  g.AddOutput(mean->output(0));
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(TypeToString(none->output(0)->type()), "f32[n,d]");
  EXPECT_EQ(TypeToString(none->output(1)->type()), "f32[n,5,d]");
  EXPECT_EQ(TypeToString(mean->output(0)->type()), "f32[]");
}

// One recurrence, written down as the specification does, per head with full matrices.
struct Attention {
  int batch = 2, length = 3, q_heads = 4, heads = 2, key_size = 3, value_size = 2;
  F query = TestFloats(batch * length * q_heads * key_size, 1), key = TestFloats(batch * length * heads * key_size, 2),
    value = TestFloats(batch * length * heads * value_size, 3),
    past = TestFloats(batch * heads * key_size * value_size, 4), decay, beta;
  bool decay_per_key = false, shared_beta = false;
  std::vector<double> output, present;

  void Run(const std::string& rule, bool has_past, double scale) {
    const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
    decay = gated ? TestFloats(batch * length * heads * (decay_per_key ? key_size : 1), 5) : F{};
    beta = delta ? TestFloats(batch * length * (shared_beta ? 1 : heads), 6) : F{};
    output.assign(static_cast<size_t>(batch * length * q_heads * value_size), 0);
    present.assign(past.size(), 0);
    for (int b = 0; b < batch; ++b) {
      for (int h = 0; h < heads; ++h) {
        std::vector<std::vector<double>> s(static_cast<size_t>(key_size), std::vector<double>(size_t(value_size)));
        double* state_out = &present[(b * heads + h) * key_size * value_size];
        for (int i = 0; has_past && i < key_size; ++i) {
          for (int j = 0; j < value_size; ++j) {
            s[i][j] = past[((b * heads + h) * key_size + i) * value_size + j];
          }
        }
        for (int t = 0; t < length; ++t) {
          const int row = b * length + t;
          const float* k = &key[(row * heads + h) * key_size];
          for (int i = 0; gated && i < key_size; ++i) {
            const double g = decay_per_key ? decay[(row * heads + h) * key_size + i] : decay[row * heads + h];
            for (double& v : s[i]) v *= std::exp(g);
          }
          for (int j = 0; j < value_size; ++j) {
            double update = value[(row * heads + h) * value_size + j];
            if (delta) {
              double retrieved = 0;
              for (int i = 0; i < key_size; ++i) retrieved += s[i][j] * k[i];
              update = (update - retrieved) * (shared_beta ? beta[row] : beta[row * heads + h]);
            }
            for (int i = 0; i < key_size; ++i) s[i][j] += k[i] * update;
          }
          for (int q = 0; q < q_heads; ++q) {
            if (q / (q_heads / heads) != h) continue;
            for (int j = 0; j < value_size; ++j) {
              double sum = 0;
              for (int i = 0; i < key_size; ++i) sum += query[(row * q_heads + q) * key_size + i] * s[i][j];
              output[(row * q_heads + q) * value_size + j] = scale * sum;
            }
          }
        }
        for (int i = 0; i < key_size; ++i) {
          for (int j = 0; j < value_size; ++j) state_out[i * value_size + j] = s[i][j];
        }
      }
    }
  }

  OpTester& Feed(OpTester& t, const std::string& rule, bool has_past) const {
    t.Input(Shape{batch, length, q_heads * key_size}, query).Input(Shape{batch, length, heads * key_size}, key);
    t.Input(Shape{batch, length, heads * value_size}, value);
    has_past ? t.Input(Shape{batch, heads, key_size, value_size}, past) : t.Omit();
    decay.empty() ? t.Omit() : t.Input(Shape{batch, length, heads * (decay_per_key ? key_size : 1)}, decay);
    if (!beta.empty()) t.Input(Shape{batch, length, shared_beta ? 1 : heads}, beta);
    t.Attr("q_num_heads", int64_t{q_heads}).Attr("kv_num_heads", int64_t{heads});
    return t.Attr("update_rule", rule).Outputs(2);
  }
};

TEST(LinearAttention, FollowsEveryRule) {
  for (const std::string rule : {"linear", "gated", "delta", "gated_delta"}) {
    for (const bool wide : {false, true}) {
      Attention a;
      a.decay_per_key = wide;
      a.shared_beta = wide;
      a.Run(rule, wide, wide ? 0.5 : 1 / std::sqrt(3.0));
      OpTester t("LinearAttention", 27);
      a.Feed(t, rule, wide);
      if (wide) t.Attr("scale", 0.5f);
      const std::vector<Value> r = t.Run().value();
      for (const auto& [value, want] : {std::pair(r[0], a.output), std::pair(r[1], a.present)}) {
        const std::span<float> got = value.tensor().values<float>();
        ExpectNear(F(got.begin(), got.end()), want);
      }
    }
  }
}

TEST(LinearAttention, KeepsTheTypeOfTheState) {
  OpTester t("LinearAttention", 27);
  const std::vector<Float16> one = {Float16(1)};
  t.Input(Shape{1, 1, 1}, one).Input(Shape{1, 1, 1}, one).Input(Shape{1, 1, 1}, one);
  t.Input<float>({1, 1, 1, 1}, {0.1f}).Attr("q_num_heads", int64_t{1}).Attr("kv_num_heads", int64_t{1});
  t.Attr("update_rule", std::string("linear")).Outputs(2);
  EXPECT_FLOAT_EQ(t.Values<float>(1)[0], 1.1f);
}

TEST(LinearAttention, RefusesWhatDoesNotFit) {
  Attention a;
  a.Run("gated_delta", true, 1);
  OpTester rule("LinearAttention", 27), missing("LinearAttention", 27), heads("LinearAttention", 27),
      past("LinearAttention", 27);
  EXPECT_THAT(a.Feed(rule, "quadratic", true).Error(), HasSubstr("'update_rule' is 'quadratic'"));
  EXPECT_THAT(a.Feed(missing, "linear", true).Error(), HasSubstr("update rule 'linear' takes no input decay"));
  EXPECT_THAT(a.Feed(heads, "gated_delta", true).Attr("q_num_heads", int64_t{3}).Error(), HasSubstr("multiple"));
  past.Input(Shape{2, 3, 8}, TestFloats(48))
      .Input(Shape{2, 3, 4}, TestFloats(24))
      .Input(Shape{2, 3, 4}, TestFloats(24));
  past.Input(Shape{2, 2, 1, 1}, TestFloats(4)).Attr("q_num_heads", int64_t{4}).Attr("kv_num_heads", int64_t{2});
  past.Attr("update_rule", std::string("linear")).Outputs(2);
  EXPECT_THAT(past.Error(), HasSubstr("past_state has shape [2,2,1,1]; [2,2,2,2] is needed"));
}

TEST(CausalConvWithState, ContinuesItsState) {
  // One channel, kernel [1, 10, 100], state [1, 2], input [3, 4, 5, 6].
  OpTester t("CausalConvWithState", 27), zero("CausalConvWithState", 27);
  t.Input<float>({1, 1, 4}, {3, 4, 5, 6}).Input<float>({1, 1, 3}, {1, 10, 100}).Input<float>({1}, {0.5f});
  const std::vector<Value> r = t.Input<float>({1, 1, 2}, {1, 2}).Outputs(2).Run().value();
  const std::span<float> y = r[0].tensor().values<float>(), state = r[1].tensor().values<float>();
  EXPECT_EQ(F(y.begin(), y.end()), (F{321.5f, 432.5f, 543.5f, 654.5f}));
  EXPECT_EQ(F(state.begin(), state.end()), (F{5, 6}));
  // Two channels, an input shorter than the state: zeros are carried on.
  zero.Input<float>({1, 2, 1}, {3, 4}).Input<float>({2, 1, 3}, {1, 10, 100, 1, 1, 1}).Outputs(2);
  EXPECT_EQ(zero.Values<float>(1), (F{0, 3, 0, 4}));
}

TEST(CausalConvWithState, ActivatesAndRefuses) {
  OpTester t("CausalConvWithState", 27), name("CausalConvWithState", 27), wide("CausalConvWithState", 27),
      state("CausalConvWithState", 27);
  t.Input<float>({1, 1, 2}, {1, -2}).Input<float>({1, 1, 1}, {2}).Attr("activation", std::string("silu")).Outputs(2);
  ExpectNear(t.Values<float>(), {2 / (1 + std::exp(-2.0)), -4 / (1 + std::exp(4.0))});
  name.Input<float>({1, 1, 1}, {1}).Input<float>({1, 1, 1}, {2}).Attr("activation", std::string("relu")).Outputs(2);
  EXPECT_THAT(name.Error(), HasSubstr("'activation' is 'relu'"));
  wide.Input<float>({1, 1, 1}, {1}).Input<float>({1, 2, 1}, {2, 2}).Outputs(2);
  EXPECT_THAT(wide.Error(), HasSubstr("the weight has shape [1,2,1]; [1,1,1] is needed"));
  state.Input<float>({1, 1, 1}, {1}).Input<float>({1, 1, 2}, {2, 2}).Omit().Input<float>({1, 1, 2}, {2, 2}).Outputs(2);
  EXPECT_THAT(state.Error(), HasSubstr("past_state has shape [1,1,2]; [1,1,1] is needed"));
}

}  // namespace
}  // namespace quern
