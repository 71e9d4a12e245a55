// Operators of com.microsoft other than attention, against plain sums.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

constexpr char kDomain[] = "com.microsoft";

// Words, positions and segments of two elements each.
struct Embedding : OpTester {
  Embedding(const Ints& words, const Ints& segments) : OpTester("EmbedLayerNormalization", 1, kDomain) {
    const Shape shape = {1, static_cast<int64_t>(words.size())};
    Input(shape, words);
    segments.empty() ? Omit() : Input(shape, segments);
    Input<float>({2, 2}, {1, 2, 30, 4}).Input<float>({3, 2}, {0, 0, 100, 0, 0, 1000});
    segments.empty() ? Omit() : Input<float>({2, 2}, {0, 7, 0, 0});
    Input<float>({2}, {2, 3}).Input<float>({2}, {0, 1});
  }
};

TEST(EmbedLayerNormalization, SumsEmbeddings) {
  Embedding t({1, 0, 1}, {0, 1, 0});
  t.Input<int32_t>({1, 3}, {1, 1, 0}).Outputs(3);
  const auto result = t.Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  const auto y = (*result)[0].tensor().values<float>(), sum = (*result)[2].tensor().values<float>();
  EXPECT_EQ(Floats(sum.begin(), sum.end()), (Floats{30, 11, 101, 2, 30, 1011}));
  ExpectNear({y.begin(), y.end()}, {2, -2, 2, -2, -2, 4});  // two elements: one is 1 above the mean, one 1 below
  EXPECT_EQ((*result)[1].tensor().data<int32_t>()[0], 2);

  Embedding placed({0, 0}, {});
  placed.Omit().Input<int32_t>({1, 2}, {2, 1}).Outputs(3);
  const auto other = placed.Run();
  ASSERT_TRUE(other.ok()) << other.status().message();
  const auto sums = (*other)[2].tensor().values<float>();
  EXPECT_EQ(Floats(sums.begin(), sums.end()), (Floats{1, 1002, 101, 2}));
  EXPECT_EQ((*other)[1].tensor().data<int32_t>()[0], 0);
}

TEST(EmbedLayerNormalization, RefusesIdsOutsideOfTheTables) {
  EXPECT_THAT(Embedding({2}, {}).Error(), HasSubstr("'x0' has the entry 2"));
  EXPECT_THAT(Embedding({0}, {-1}).Error(), HasSubstr("'x1' has the entry -1"));
  EXPECT_THAT(Embedding({0, 0, 0, 0}, {}).Error(), HasSubstr("the implied positions has the entry 3"));
  EXPECT_THAT(Embedding({0}, {}).Omit().Input<int32_t>({1, 1}, {3}).Error(), HasSubstr("'x8' has the entry 3"));
  EXPECT_THAT(Embedding({0}, {}).Input<int32_t>({1, 2}, {1, 1}).Error(), HasSubstr("[1,1] is needed"));
}

TEST(GroupNorm, NormalizesGroupsOfTheLastDimension) {
  // Two groups of two channels over an area of two; both groups have deviation 2.
  const Floats x = {1, 5, 0, 4, 5, 1, 4, 0};
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  const auto run = [&](int64_t activation) {
    OpTester t("GroupNorm", 1, kDomain);
    t.Input({1, 2, 1, 4}, x).Input<float>({4}, {1, 2, 3, 4}).Input<float>({4}, {0, 0, 1, 1});
    t.Attr("groups", int64_t{2}).Attr("activation", activation).Attr("epsilon", 0.0f);
    return t.Values<float>();
  };
  std::vector<double> want = {-1, 2, -2, 5, 1, -2, 4, -3};
  ExpectNear(run(0), want);
  for (double& v : want) v = silu(v);
  ExpectNear(run(1), want);
}

TEST(SkipGroupNorm, AddsFirst) {
  for (const Shape& shape : {Shape{1, 2, 1, 1}, Shape{1, 2}}) {
    OpTester t("SkipGroupNorm", 1, kDomain);
    t.Input<float>({1, 2, 1, 2}, {1, 2, 3, 4}).Input<float>({2}, {1, 1}).Input<float>({2}, {0, 0});
    t.Input<float>(shape, {10, 20}).Input<float>({2}, {1, 2}).Attr("channels_last", int64_t{0}).Outputs(2);
    t.Attr("groups", int64_t{2}).Attr("activation", int64_t{0}).Attr("epsilon", 0.0f);
    const auto result = t.Run();
    ASSERT_TRUE(result.ok()) << result.status().message();
    const auto y = (*result)[0].tensor().values<float>(), sum = (*result)[1].tensor().values<float>();
    EXPECT_EQ(Floats(sum.begin(), sum.end()), (Floats{12, 13, 25, 26}));
    ExpectNear({y.begin(), y.end()}, {-1, 1, -1, 1});
  }
  OpTester t("SkipGroupNorm", 1, kDomain);
  t.Input<float>({1, 1, 1, 3}, {1, 2, 3}).Input<float>({3}, {1, 1, 1}).Input<float>({3}, {0, 0, 0});
  t.Input<float>({3}, {1, 1, 1}).Attr("activation", int64_t{0}).Attr("groups", int64_t{3});
  EXPECT_THAT(t.Error(), HasSubstr("[1,1,1,3] is needed"));
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(GroupNorm, RefusesWhatDoesNotFit) {
  const auto error = [](int64_t groups, int64_t activation, int64_t channels) {
    OpTester t("GroupNorm", 1, kDomain);
    t.Input({1, 1, 1, channels}, TestFloats(channels)).Input({channels}, TestFloats(channels));
    t.Input({channels}, TestFloats(channels)).Attr("groups", groups).Attr("activation", activation);
    return t.Error();
  };
  EXPECT_THAT(error(2, 0, 3), HasSubstr("'groups' = 2 does not divide the 3 channels"));
  EXPECT_THAT(error(int64_t{1} << 60, 0, 0), HasSubstr("does not divide the 0 channels"));
  EXPECT_THAT(error(0, 0, 2), HasSubstr("'groups' is 0"));
  EXPECT_THAT(error(1, 2, 2), HasSubstr("'activation' is 2"));
}

TEST(DynamicQuantizeLSTM, StepsBackAndForth) {
  // One unit; every value is a step of its quantization, so that plain products are exact but for that of h.
  const Floats x = {0.2f, 1, 0.6f};
  const Ints w = {10, -20, 30, 40}, r = {5, 6, -7, 8};  // less their zero points
  for (const char* direction : {"forward", "reverse"}) {
    OpTester t("DynamicQuantizeLSTM", 1, kDomain);
    t.Input({3, 1, 1}, x).Input<int8_t>({1, 1, 4}, {11, -19, 31, 41}).Input<int8_t>({1, 1, 4}, {5, 6, -7, 8});
    t.Input<float>({1, 8}, {0, 0, 0, 0, 0.1f, 0.2f, 0.3f, 0.4f}).Omit().Omit().Omit().Omit();
    t.Input<float>({1}, {0.02f}).Input<int8_t>({1}, {1}).Input<float>({1, 4}, {0.1f, 0.1f, 0.1f, 0.2f});
    t.Input<int8_t>({1}, {0}).Attr("hidden_size", int64_t{1}).Attr("direction", std::string(direction)).Outputs(3);
    const auto result = t.Run();
    ASSERT_TRUE(result.ok()) << result.status().message();
    const bool reverse = direction[0] == 'r';
    double h = 0, c = 0;
    std::vector<double> want(3);
    for (int k = 0; k < 3; ++k) {
      const int step = reverse ? 2 - k : k;
      const double quantized = std::nearbyint(x[step] * 255) / 255;
      const auto gate = [&](int n) {
        return 0.02 * w[n] * quantized + (n == 3 ? 0.2 : 0.1) * r[n] * h + 0.1 * (n + 1);
      };
      c = Sigmoid(gate(2)) * c + Sigmoid(gate(0)) * std::tanh(gate(3));
      h = Sigmoid(gate(1)) * std::tanh(c);
      want[step] = h;
    }
    const auto y = (*result)[0].tensor().values<float>();
    ExpectNear({y.begin(), y.end()}, want, 1e-4);
    EXPECT_NEAR((*result)[1].tensor().data<float>()[0], h, 1e-4);
    EXPECT_NEAR((*result)[2].tensor().data<float>()[0], c, 1e-4);
  }
}

TEST(DynamicQuantizeLSTM, RefusesWhatDoesNotFit) {
  struct Tester : OpTester {
    Tester(int32_t length, int64_t zeros) : OpTester("DynamicQuantizeLSTM", 1, kDomain) {
      Input<float>({1, 1, 1}, {1}).Input<int8_t>({1, 1, 4}, {1, 1, 1, 1}).Input<int8_t>({1, 1, 4}, {1, 1, 1, 1});
      Omit().Input<int32_t>({1}, {length}).Omit().Omit().Omit().Input<float>({1}, {1});
      Input(Shape{zeros}, std::vector<int8_t>(static_cast<size_t>(zeros))).Input<float>({1}, {1});
      Input<int8_t>({1}, {0});
    }
  };
  EXPECT_THAT(Tester(2, 1).Error(), HasSubstr("sequence_lens has the entry 2"));
  EXPECT_THAT(Tester(1, 2).Error(), HasSubstr("'x9' has shape [2]"));
}

TEST(FusedMatMul, TakesTheFirstDimensionForRows) {
  // A is [rows, batch, k]; B [batch, k, 1].
  OpTester t("FusedMatMul", 1, kDomain);
  t.Input<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6}).Input<float>({3, 1, 1}, {1, 10, 100});
  EXPECT_EQ(t.Attr("transBatchA", int64_t{1}).Values<float>(), (Floats{1, 4, 20, 50, 300, 600}));
}

TEST(FusedGemm, ActivatesIntegers) {
  OpTester t("FusedGemm", 1, kDomain);
  t.Input<int32_t>({1, 1}, {3}).Input<int32_t>({1, 2}, {-2, 5}).Attr("activation", std::string("Relu"));
  EXPECT_EQ(t.Values<int32_t>(), (Ints{0, 15}));
}

TEST(SimplifiedLayerNormalization, HasTheTypeOfItsScale) {
  OpTester t("SimplifiedLayerNormalization", 17);
  t.Input<double>({1, 2}, {3, 4}).Input<float>({2}, {1, 2}).Attr("epsilon", 0.0f).Attr("stash_type", int64_t{11});
  const auto result = t.Outputs(2).Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  const double inverse = 1 / std::sqrt(12.5);
  const auto y = (*result)[0].tensor().values<float>();
  ExpectNear({y.begin(), y.end()}, {3 * inverse, 8 * inverse});
  EXPECT_NEAR((*result)[1].tensor().data<double>()[0], inverse, 1e-12);
}

TEST(MatMulNBits, RefusesPrepackedWeights) {
  OpTester t("MatMulNBits", 1, kDomain);
  t.Input<float>({1, 16}, TestFloats(16)).Input<uint8_t>({1, 1, 8}, std::vector<uint8_t>(8)).Input<float>({1}, {1});
  t.Attr("N", int64_t{1}).Attr("K", int64_t{16}).Attr("block_size", int64_t{16}).Attr("weight_prepacked", int64_t{1});
  EXPECT_THAT(t.Error(), HasSubstr("weight_prepacked"));
}

// A weight of 3 x 6 elements in blocks of 16: the second block begins inside of the last row.
struct LevelProduct : OpTester {
  LevelProduct(int64_t type, const Floats& a) : OpTester("MatMulBnb4", 1, kDomain) {
    Input<float>({2, 6}, a);
    // Codes 0 to 15, 3 and 12 in the order of elements: the first of a byte in its higher bits.
    Input<uint8_t>({9}, {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x3c}).Input<float>({2}, {2, 10});
    Attr("N", int64_t{3}).Attr("K", int64_t{6}).Attr("block_size", int64_t{16}).Attr("quant_type", type);
  }
};

TEST(MatMulBnb4, LooksUpLevels) {
  const Floats a = {1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1};
  // Codes 0, 6 and 12 in the first column; 3 to 5, 9 to 11 and 15, 3, 12 in the last three.
  ExpectNear(LevelProduct(0, a).Values<float>(), {0, 1.0 / 3, -2.0 / 3, 2 * (1 + 1.0 / 3 + 0.5),
                                                  2 * (-1.0 / 192 - 2.0 / 3 - 1), -0.5 + 10 * (1 - 1.0 / 3)});
  ExpectNear(LevelProduct(1, a).Values<float>(),
             {-2, 2 * -0.0910500362, 2 * 0.4407098293, 2 * (-0.3949174881 - 0.2844413817 - 0.1847734302),
              2 * (0.1609302014 + 0.2461123019 + 0.3379152417), 2 + 10 * (-0.3949174881 + 0.4407098293)});
}

TEST(MatMulBnb4, RefusesWhatDoesNotFit) {
  const Floats a(12);
  EXPECT_THAT(LevelProduct(2, a).Error(), HasSubstr("'quant_type' is 2"));
  EXPECT_THAT(LevelProduct(1, a).Attr("block_size", int64_t{24}).Error(), HasSubstr("'block_size' is 24"));
  EXPECT_THAT(LevelProduct(1, a).Attr("N", int64_t{0}).Error(), HasSubstr("'N' and 'K' are out of range"));
  EXPECT_THAT(LevelProduct(1, a).Attr("N", int64_t{4}).Error(), HasSubstr("'x1' has shape [9]; 12 elements"));
  EXPECT_THAT(LevelProduct(1, a).Attr("block_size", int64_t{32}).Error(), HasSubstr("'x2' has shape [2]; 1 elements"));
  EXPECT_THAT(LevelProduct(1, a).Attr("K", int64_t{5}).Error(), HasSubstr("last dimension must be 'K' = 5"));
  EXPECT_THAT(LevelProduct(1, a).Attr("transB", int64_t{0}).Error(), HasSubstr("'transB' = 0"));
}

TEST(GatedAdd, ScalesRows) {
  OpTester t("GatedAdd", 1, kDomain);
  t.Input<float>({2, 1, 2}, {1, 2, 3, 4}).Input<float>({2, 1, 2}, {10, 20, 30, 40}).Input<float>({2, 1, 1}, {0.5f, -1});
  EXPECT_EQ(t.Values<float>(), (Floats{6, 12, -27, -36}));
}

std::vector<BFloat16> Rounded(const Floats& x) { return {x.begin(), x.end()}; }

TEST(GatedAdd, RoundsEachStep) {
  // 1.0078125 * 1.0078125 is 1.01568603515625: 1.015625 in bfloat16. -1 leaves what a single rounding would not.
  OpTester plain("GatedAdd", 1, kDomain);
  plain.Input({1, 1}, Rounded({-1})).Input({1, 1}, Rounded({1.0078125f})).Input({1, 1}, Rounded({1.0078125f}));
  EXPECT_EQ(static_cast<float>(plain.Values<BFloat16>()[0]), 0.015625f);
  // sigmoid(1 * 3 - 2 * 1) is 0.7310586: 0.73046875; times 3 is 2.19140625: 2.1875; and 16: 18.1875 to 18.25 or 18.125.
  OpTester projected("GatedAdd", 1, kDomain);
  projected.Input({1, 1}, Rounded({16})).Input({1, 1}, Rounded({3})).Input({1, 2}, Rounded({1, -2}));
  projected.Input({2, 1}, Rounded({3, 1}));
  EXPECT_EQ(static_cast<float>(projected.Values<BFloat16>()[0]), 18.25f);
}

struct Gated : OpTester {
  Gated(const Shape& y, const Shape& gate) : OpTester("GatedAdd", 1, kDomain) {
    Input<float>({2, 3}, Floats(6)).Input(y, Floats(static_cast<size_t>(y.num_elements())));
    Input(gate, Floats(static_cast<size_t>(gate.num_elements())));
  }
};

TEST(GatedAdd, RefusesWhatDoesNotFit) {
  EXPECT_THAT(Gated({1, 3}, {2, 1}).Error(), HasSubstr("'x1' has shape [1,3]; [2,3] is needed"));
  EXPECT_THAT(Gated({2, 3}, {1, 1}).Error(), HasSubstr("'x2' has shape [1,1]; [2,1] is needed"));
  EXPECT_THAT(Gated({2, 3}, {2}).Error(), HasSubstr("'x2' has shape [2]; [2,1] is needed"));
  EXPECT_THAT(Gated({2, 3}, {2, 4}).Input<float>({4, 1}, Floats(4)).Error(), HasSubstr("bfloat16"));
  OpTester weights("GatedAdd", 1, kDomain);
  weights.Input({1, 1}, Rounded({1})).Input({1, 1}, Rounded({1})).Input({1, 2}, Rounded({1, 1}));
  EXPECT_THAT(weights.Input({1, 2}, Rounded({1, 1})).Error(), HasSubstr("'x3' has shape [1,2]; [2,1] is needed"));
}

struct GatedNorm : OpTester {
  GatedNorm(const Shape& x, const Shape& scale, const Shape& gate) : OpTester("GatedRMSNorm", 1, kDomain) {
    Input(x, Floats{3, 4, 0, 2}).Input(scale, Floats(static_cast<size_t>(scale.num_elements()), 2));
    Input(gate, Floats{0, 1, -1, 50}).Attr("epsilon", 0.5f);
  }
};

TEST(GatedRMSNorm, NormalizesGroupsOfTheLastDimension) {
  const double first = 2 / std::sqrt(12.5 + 0.5), second = 2 / std::sqrt(2 + 0.5), whole = 2 / std::sqrt(7.25 + 0.5);
  const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
  ExpectNear(GatedNorm({1, 4}, {2}, {1, 4}).Values<float>(), {0, 4 * first * sigmoid(1), 0, 2 * second * 50});
  ExpectNear(GatedNorm({1, 4}, {4}, {1, 4}).Attr("activation", std::string("swish")).Values<float>(),
             {0, 4 * whole * sigmoid(1), 0, 2 * whole * 50});
  ExpectNear(GatedNorm({2, 2}, {2}, {2, 2}).Attr("activation", std::string("sigmoid")).Values<float>(),
             {3 * first / 2, 4 * first * sigmoid(1), 0, 2 * second});
}

TEST(GatedRMSNorm, RefusesWhatDoesNotFit) {
  EXPECT_THAT(GatedNorm({1, 4}, {3}, {1, 4}).Error(), HasSubstr("no multiple of the scale's 3"));
  EXPECT_THAT(GatedNorm({1, 4}, {0}, {1, 4}).Error(), HasSubstr("no multiple of the scale's 0"));
  EXPECT_THAT(GatedNorm({1, 4}, {1, 2}, {1, 4}).Error(), HasSubstr("'x1' has shape [1,2]; one dimension"));
  EXPECT_THAT(GatedNorm({1, 4}, {2}, {4, 1}).Error(), HasSubstr("'x2' has shape [4,1]; [1,4] is needed"));
  EXPECT_THAT(GatedNorm({1, 4}, {2}, {1, 4}).Attr("activation", std::string("tanh")).Error(),
              HasSubstr("'activation' is 'tanh'"));
}

}  // namespace
}  // namespace quern
