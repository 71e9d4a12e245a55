// Operators of com.microsoft that models with linear attention and several positions per token are made of, against
// plain loops.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr char kDomain[] = "com.microsoft";

double Silu(double x) { return x / (1 + std::exp(-x)); }

// One token of one head of six pairs (side by side with `interleaved`), at rows 0, 1 and 2 of the caches. Row r has the
// cosines 10 r + pair and the sines 0, so that a head of ones shows which row has turned each pair.
struct Rotation : OpTester {
  explicit Rotation(const Ints& sections, int64_t layout = 0, const Ints& positions = {0, 1, 2})
      : OpTester("MRotaryEmbedding", 1, kDomain) {
    Floats cosines;
    for (int i = 0; i < 18; ++i) cosines.push_back(static_cast<float>(10 * (i / 6) + i % 6));
    Input({1, 1, 12}, Floats(12, 1)).Input({3, 1, 1}, positions).Input({3, 6}, cosines).Input({3, 6}, Floats(18));
    Attr("num_heads", int64_t{1}).Attr("mrope_section", sections).Attr("mrope_layout", layout);
  }
};

TEST(MRotaryEmbedding, TakesEachPairsPosition) {
  const auto twice = [](Floats half) {
    const Floats copy = half;
    half.insert(half.end(), copy.begin(), copy.end());
    return half;
  };
  EXPECT_EQ(Rotation({1, 2, 3}).Values<float>(), twice({0, 11, 12, 23, 24, 25}));
  EXPECT_EQ(Rotation({6, 0, 0}).Values<float>(), twice({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Rotation({0, 0, 6}).Values<float>(), twice({20, 21, 22, 23, 24, 25}));
  EXPECT_EQ(Rotation({2, 2, 2}, 1).Values<float>(), twice({0, 11, 22, 3, 14, 25}));
  EXPECT_EQ(Rotation({4, 1, 1}, 1).Values<float>(), twice({0, 11, 22, 3, 4, 5}));
  EXPECT_EQ(Rotation({2, 3, 1}, 1).Values<float>(), twice({0, 11, 22, 3, 14, 5}));  // no third place of h
  Rotation side({1, 2, 3}), scaled({1, 2, 3});
  EXPECT_EQ(side.Attr("interleaved", int64_t{1}).Values<float>(),
            (Floats{0, 0, 11, 11, 12, 12, 23, 23, 24, 24, 25, 25}));
  EXPECT_EQ(scaled.Attr("scale", 2.0f).Values<float>(), twice({0, 22, 24, 46, 48, 50}));
}

TEST(MRotaryEmbedding, TurnsAPartOfHeads) {
  // Two heads of three elements, of which one pair is turned by a quarter at row 1; two tokens.
  const Floats x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  OpTester flat("MRotaryEmbedding", 1, kDomain), heads("MRotaryEmbedding", 1, kDomain);
  for (OpTester* t : {&flat, &heads}) {
    t->Input(t == &flat ? Shape{1, 2, 6} : Shape{1, 2, 2, 3}, x).Input({3, 1, 2}, Ints{0, 0, 0, 1, 1, 1});
    t->Input<float>({2, 1}, {1, 0}).Input<float>({2, 1}, {0, 1}).Attr("mrope_section", Ints{0, 1, 0});
    t->Attr("num_heads", int64_t{2}).Attr("rotary_embedding_dim", int64_t{2});
  }
  EXPECT_EQ(flat.Values<float>(), (Floats{1, 2, 3, 4, 5, 6, -8, 7, 9, -11, 10, 12}));
  EXPECT_EQ(heads.Values<float>(), (Floats{1, 2, 3, -5, 4, 6, 7, 8, 9, -11, 10, 12}));
  OpTester none("MRotaryEmbedding", 1, kDomain);
  none.Input({2, 0, 4}, Floats{}).Input({3, 2, 0}, Ints{}).Input({1, 1}, Floats{1}).Input({1, 1}, Floats{1});
  none.Attr("mrope_section", Ints{1, 0, 0}).Attr("num_heads", int64_t{2});
  EXPECT_EQ(none.Values<float>(), Floats{});
}

TEST(MRotaryEmbedding, RefusesWhatDoesNotFit) {
  EXPECT_THAT(Rotation({1, 2}).Error(), HasSubstr("'mrope_section' is [1,2]"));
  EXPECT_THAT(Rotation({9, -3, 0}).Error(), HasSubstr("'mrope_section' is [9,-3,0]"));
  EXPECT_THAT(Rotation({1, 2, 4}).Error(), HasSubstr("cos_cache has shape [3,6] but 'mrope_section' is of 7 pairs"));
  EXPECT_THAT(Rotation({1, 2, 3}, 2).Error(), HasSubstr("'mrope_layout' is 2"));
  EXPECT_THAT(Rotation({1, 2, 3}, 0, {0, 3, 0}).Error(), HasSubstr("position 3 is outside of the caches of 3 rows"));
  EXPECT_THAT(Rotation({6, 0, 0}, 0, {0, 0, -1}).Error(), HasSubstr("position -1 is outside"));
  EXPECT_THAT(Rotation({1, 2, 3}).Attr("num_heads", int64_t{0}).Error(), HasSubstr("positive 'num_heads'"));
  EXPECT_THAT(Rotation({1, 2, 3}).Attr("num_heads", int64_t{5}).Error(), HasSubstr("not made of heads"));
  EXPECT_THAT(Rotation({1, 2, 3}).Attr("rotary_embedding_dim", int64_t{8}).Error(),
              HasSubstr("'rotary_embedding_dim' = 8"));
  OpTester flat("MRotaryEmbedding", 1, kDomain);
  flat.Input({1, 1, 2}, Floats(2)).Input({1, 1}, Ints{0}).Input({1, 1}, Floats(1)).Input({1, 1}, Floats(1));
  flat.Attr("num_heads", int64_t{1}).Attr("mrope_section", Ints{1, 0, 0});
  EXPECT_THAT(flat.Error(), HasSubstr("[3,1,1] is needed"));
}

OpTester Convolution() { return OpTester("CausalConvWithState", 1, kDomain); }

TEST(MicrosoftCausalConvWithState, SpacesItsTaps) {
  // One channel, taps 1, 10 and 100 that are two apart, the state 1 2 3 4, the input 5 6 7.
  OpTester t = Convolution();
  t.Input<float>({1, 1, 3}, {5, 6, 7}).Input<float>({1, 1, 3}, {1, 10, 100}).Input<float>({1}, {0.5f});
  t.Input<float>({1, 1, 4}, {1, 2, 3, 4}).Attr("dilation", int64_t{2}).Outputs(2);
  const std::vector<Value> r = t.Run().value();
  const std::span<float> y = r[0].tensor().values<float>(), state = r[1].tensor().values<float>();
  EXPECT_EQ(Floats(y.begin(), y.end()), (Floats{531.5f, 642.5f, 753.5f}));
  EXPECT_EQ(Floats(state.begin(), state.end()), (Floats{4, 5, 6, 7}));
}

TEST(MicrosoftCausalConvWithState, TakesChannelsLast) {
  // Channels [2, 1] of a weight of two taps, three elements; without a past the first one has only itself.
  OpTester t = Convolution();
  t.Input<float>({1, 3, 2, 1}, {1, 2, 3, 4, 5, 6}).Input<float>({2, 1, 2}, {10, 1, 100, 1});
  const std::vector<Value> r =
      t.Attr("channels_last", int64_t{1}).Attr("activation", std::string("swish")).Outputs(2).Run().value();
  const std::span<float> y = r[0].tensor().values<float>(), state = r[1].tensor().values<float>();
  std::vector<double> want = {1, 2, 13, 204, 35, 406};
  std::transform(want.begin(), want.end(), want.begin(), Silu);
  ExpectNear({y.begin(), y.end()}, want);
  EXPECT_EQ(r[1].tensor().shape().ToString(), (Shape{1, 1, 2, 1}).ToString());
  EXPECT_EQ(Floats(state.begin(), state.end()), (Floats{5, 6}));
  // Nothing new: the state stays.
  OpTester none = Convolution();
  none.Input({1, 0, 2}, Floats{}).Input({2, 1, 2}, Floats(4)).Omit().Input<float>({1, 1, 2}, {7, 8});
  EXPECT_EQ(none.Attr("channels_last", int64_t{1}).Outputs(2).Values<float>(1), (Floats{7, 8}));
}

TEST(MicrosoftCausalConvWithState, ActivatesWhatIsNotRounded) {
  // Halves: 1 + 2^-11 rounds to 1, whose silu is another half than that of the sum.
  OpTester t = Convolution();
  const Float16 one(1), small(0x1p-11f);
  t.Input<Float16>({1, 1, 2}, {small, one}).Input<Float16>({1, 1, 2}, {one, one}).Outputs(2);
  const std::vector<Float16> y = t.Attr("activation", std::string("silu")).Values<Float16>();
  EXPECT_EQ(static_cast<float>(y[1]), static_cast<float>(Float16(static_cast<float>(Silu(1 + 0x1p-11)))));
}

TEST(MicrosoftCausalConvWithState, RefusesWhatDoesNotFit) {
  const auto error = [](const std::string& name, Attribute value) {
    OpTester t = Convolution();
    t.Input({1, 1, 3}, Floats(3)).Input({1, 1, 2}, Floats(2)).Outputs(2);
    return t.Attr(name, std::move(value)).Error();
  };
  EXPECT_THAT(error("activation", std::string("gelu")), HasSubstr("'activation' is 'gelu'"));
  EXPECT_THAT(error("dilation", int64_t{0}), HasSubstr("'dilation' is 0"));
  EXPECT_THAT(error("channels_last", int64_t{2}), HasSubstr("'channels_last' is 2"));
  EXPECT_THAT(error("channels_last", int64_t{1}), HasSubstr("the weight has shape [1,1,2]; [3,1,2] is needed"));
  for (const char* name : {"input_channel_offset", "input_channels", "ndim", "state_channels_last", "state_length",
                           "state_update_capacity", "state_window"}) {
    EXPECT_THAT(error(name, int64_t{2}), HasSubstr("'" + std::string(name) + "' = 2 is not supported"));
  }
  OpTester flat = Convolution(), update = Convolution(), past = Convolution();
  flat.Input({2, 3}, Floats(6)).Input({3, 1, 2}, Floats(6)).Attr("channels_last", int64_t{1}).Outputs(2);
  EXPECT_THAT(flat.Error(), HasSubstr("three dimensions or more"));
  update.Input({1, 1, 3}, Floats(3)).Input({1, 1, 2}, Floats(2)).Outputs(3);
  EXPECT_THAT(update.Error(), HasSubstr("'state_update_capacity'"));
  past.Input({1, 1, 3}, Floats(3)).Input({1, 1, 2}, Floats(2)).Omit().Input({1, 1, 1}, Floats(1)).Outputs(2);
  EXPECT_THAT(past.Attr("dilation", int64_t{3}).Error(), HasSubstr("[1,1,3] is needed"));
}

// Two samples of three tokens; heads of keys of two elements and values of one.
struct Attention {
  int q_heads = 1, heads = 4, key_heads = 2;
  Floats query, key, value, past, decay, beta;

  Attention(int q, int k) : q_heads(q), key_heads(k) {
    query = TestFloats(6 * q_heads * 2, 1);
    key = TestFloats(6 * key_heads * 2, 2);
    value = TestFloats(6 * heads, 3);
    past = TestFloats(2 * heads * 2, 4);
    decay = TestFloats(6 * heads, 5);
    beta = TestFloats(6 * heads, 6);
  }
  // Of the rule 'gated_delta', or 'linear'.
  std::vector<double> Expected(bool gated) const {
    const int out_heads = std::max(q_heads, heads);
    std::vector<double> y(6 * static_cast<size_t>(out_heads));
    for (int b = 0; b < 2; ++b) {
      for (int o = 0; o < out_heads; ++o) {
        const int h = o / (out_heads / heads), q = o / (out_heads / q_heads), from = h / (heads / key_heads);
        double s[2] = {past[(b * heads + h) * 2], past[(b * heads + h) * 2 + 1]};
        for (int t = 0; t < 3; ++t) {
          const int row = b * 3 + t;
          const double k[2] = {key[(row * key_heads + from) * 2], key[(row * key_heads + from) * 2 + 1]};
          double update = value[row * heads + h];
          if (gated) {
            for (double& e : s) e *= std::exp(decay[row * heads + h]);
            update = beta[row * heads + h] * (update - k[0] * s[0] - k[1] * s[1]);
          }
          for (int i = 0; i < 2; ++i) s[i] += k[i] * update;
          const float* reader = query.data() + (row * q_heads + q) * 2;
          y[row * out_heads + o] = 0.5 * (reader[0] * s[0] + reader[1] * s[1]);
        }
      }
    }
    return y;
  }
};

struct AttentionNode : OpTester {
  explicit AttentionNode(const Attention& a) : OpTester("LinearAttention", 1, kDomain) {
    Input({2, 3, a.q_heads * 2}, a.query).Input({2, 3, a.key_heads * 2}, a.key).Input({2, 3, a.heads}, a.value);
    Input({2, a.heads, 2, 1}, a.past).Input({2, 3, a.heads}, a.decay).Input({2, 3, a.heads}, a.beta);
    Attr("q_num_heads", int64_t{a.q_heads}).Attr("kv_num_heads", int64_t{a.heads}).Attr("scale", 0.5f).Outputs(2);
  }
  AttentionNode(int q_heads, int key_heads) : AttentionNode(Attention(q_heads, key_heads)) {}
};

TEST(MicrosoftLinearAttention, SharesKeysAndQueries) {
  for (const int q : {1, 2, 4, 8}) {
    for (const int k : {1, 2, 4}) {
      const Attention a(q, k);
      ExpectNear(AttentionNode(a).Values<float>(), a.Expected(true));
      ExpectNear(AttentionNode(a).Attr("update_rule", std::string("linear")).Values<float>(), a.Expected(false));
    }
  }
}

TEST(MicrosoftLinearAttention, RefusesWhatDoesNotFit) {
  EXPECT_THAT(AttentionNode(3, 2).Error(), HasSubstr("a positive multiple of the second, or a divisor of it"));
  EXPECT_THAT(AttentionNode(2, 3).Error(), HasSubstr("key has 6 columns"));
  EXPECT_THAT(AttentionNode(2, 8).Error(), HasSubstr("key has 16 columns"));
  EXPECT_THAT(AttentionNode(2, 2).Attr("state_window", int64_t{9}).Error(), HasSubstr("'state_window' is 9"));
  EXPECT_THAT(AttentionNode(2, 2).Attr("state_window", int64_t{2}).Error(),
              HasSubstr("'state_window' = 2 (states of several tokens) is not supported"));
  OpTester none("LinearAttention", 1, kDomain);
  for (int i = 0; i < 3; ++i) none.Input({1, 1, 1}, Floats{1});
  none.Attr("q_num_heads", int64_t{1}).Attr("kv_num_heads", int64_t{1}).Outputs(2);
  EXPECT_THAT(none.Error(), HasSubstr("update rule 'gated_delta' needs input decay"));
}

TEST(LinearAttentionGate, ComputesBoth) {
  const Floats a = {-2, 0.5f, 30, -90}, bias = {1, -1}, scale = {-0.5f, -3}, b = {0, 1, -2, 50};
  OpTester t("LinearAttentionGate", 1, kDomain);
  t.Input({1, 2, 2}, a).Input({2}, bias).Input({2}, scale).Input({1, 2, 2}, b).Outputs(2);
  const std::vector<Value> r = t.Run().value();
  const std::span<float> decay = r[0].tensor().values<float>(), beta = r[1].tensor().values<float>();
  std::vector<double> decays, betas;
  for (int i = 0; i < 4; ++i) {
    decays.push_back(scale[i % 2] * std::log1p(std::exp(static_cast<double>(a[i] + bias[i % 2]))));
    betas.push_back(1 / (1 + std::exp(-b[i])));
  }
  ExpectNear({decay.begin(), decay.end()}, decays);
  ExpectNear({beta.begin(), beta.end()}, betas);
  OpTester alone("LinearAttentionGate", 1, kDomain), none("LinearAttentionGate", 1, kDomain);
  alone.Input<Float16>({1, 2}, {Float16(-2), Float16(0.5f)}).Input({2}, bias).Input({2}, scale);
  EXPECT_NEAR(static_cast<float>(alone.Values<Float16>()[1]), decays[1], 1e-3);
  none.Input({2, 0, 2}, Floats{}).Input({2}, bias).Input({2}, scale).Input({2, 0, 2}, Floats{}).Outputs(2);
  EXPECT_EQ(none.Values<float>(1), Floats{});
}

TEST(LinearAttentionGate, RefusesWhatDoesNotFit) {
  struct Gate : OpTester {
    Gate(int64_t biases, int64_t scales) : OpTester("LinearAttentionGate", 1, kDomain) {
      Input({1, 1, 2}, Floats(2)).Input({biases}, Floats(biases)).Input({scales}, Floats(scales));
    }
  };
  EXPECT_THAT(Gate(3, 2).Error(), HasSubstr("'x1' has shape [3]; [2] is needed"));
  EXPECT_THAT(Gate(2, 1).Error(), HasSubstr("'x2' has shape [1]; [2] is needed"));
  EXPECT_THAT(Gate(2, 2).Outputs(2).Error(), HasSubstr("the output beta needs the input b"));
  EXPECT_THAT(Gate(2, 2).Input({1, 1, 1}, Floats(1)).Error(), HasSubstr("'x3' has shape [1,1,1]; [1,1,2] is needed"));
}

}  // namespace
}  // namespace quern
