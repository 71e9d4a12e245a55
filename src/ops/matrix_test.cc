// Matrix products, normalizations, softmax, attention and recurrent operators against plain loops in double.
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

TEST(MatMul, BroadcastsBatchesAndVectors) {
  const Floats a = TestFloats(2 * 3 * 4), b = TestFloats(5 * 1 * 4 * 2, 2);
  OpTester t("MatMul");
  t.Input(Shape{2, 3, 4}, a).Input(Shape{5, 1, 4, 2}, b);
  std::vector<double> want;
  for (int p = 0; p < 5; ++p)
    for (int q = 0; q < 2; ++q)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 2; ++j) {
          double sum = 0;
          for (int k = 0; k < 4; ++k) sum += double{a[(q * 3 + i) * 4 + k]} * b[(p * 4 + k) * 2 + j];
          want.push_back(sum);
        }
  ExpectNear(t.Values<float>(), want);
  OpTester row("MatMul"), dot("MatMul");
  EXPECT_EQ(row.Input<float>({2}, {1, 2}).Input<float>({2, 3}, {1, 2, 3, 4, 5, 6}).Values<float>(),
            (Floats{9, 12, 15}));
  EXPECT_EQ(dot.Input<int32_t>({2}, {1, 2}).Input<int32_t>({2}, {3, 4}).Values<int32_t>(), (std::vector<int32_t>{11}));
  OpTester wrong("MatMul");
  wrong.Input(Shape{2, 3}, TestFloats(6)).Input(Shape{4, 2}, TestFloats(8));
  EXPECT_EQ(wrong.Error(), "node 'n' (MatMul): shapes [2,3] and [4,2] do not multiply: 3 columns against 4 rows");
}

TEST(Gemm, ScalesTransposesAndAdds) {
  const Floats a = TestFloats(12), b = TestFloats(20, 2), c = TestFloats(5, 3);
  for (const int64_t trans_a : {0, 1}) {
    for (const int64_t trans_b : {0, 1}) {
      OpTester t("Gemm");
      t.Input(trans_a ? Shape{4, 3} : Shape{3, 4}, a).Input(trans_b ? Shape{5, 4} : Shape{4, 5}, b).Input(Shape{5}, c);
      t.Attr("alpha", 0.5f).Attr("beta", 2.0f).Attr("transA", trans_a).Attr("transB", trans_b);
      std::vector<double> want;
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 5; ++j) {
          double sum = 0;
          for (int k = 0; k < 4; ++k) {
            sum += double{a[trans_a ? k * 3 + i : i * 4 + k]} * b[trans_b ? j * 4 + k : k * 5 + j];
          }
          want.push_back(0.5 * sum + 2.0 * c[j]);
        }
      ExpectNear(t.Values<float>(), want);
    }
  }
}

TEST(Gemm, FactorsOfIntegersSaturate) {
  OpTester t("Gemm");
  t.Input<int32_t>({1, 1}, {1}).Input<int32_t>({1, 1}, {1}).Input<int32_t>({1}, {0});
  t.Attr("alpha", std::numeric_limits<float>::infinity()).Attr("beta", std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(t.Values<int32_t>(), std::vector<int32_t>{std::numeric_limits<int32_t>::max()});
}

TEST(Gemm, ReadsBlockFormats) {
  constexpr int kRows = 3, kColumns = 64;
  for (const DType format : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    Tensor b = Tensor::Allocate(format, Shape{kRows, kColumns}).value();
    uint8_t* bytes = static_cast<uint8_t*>(b.raw_data());
    std::vector<double> weights;
    for (int block = 0; block < kRows * 2; ++block) {
      const uint16_t d = F32ToF16Bits(0.25f * static_cast<float>(block + 1)), m = F32ToF16Bits(-1.5f);
      const double scale = 0.25 * (block + 1);
      std::memcpy(bytes, &d, 2);
      uint8_t* q = bytes + 2;
      if (format == DType::kQ4_1) {
        std::memcpy(q, &m, 2);
        q += 2;
      }
      double values[32];
      for (int i = 0; i < 32; ++i) {
        const int code = (i * 7 + block * 3) % 16;
        if (format == DType::kQ8_0) {
          q[i] = static_cast<uint8_t>(code * 5 - 40);
          values[i] = scale * (code * 5 - 40);
        } else {
          const int shift = i < 16 ? 0 : 4;
          q[i % 16] = static_cast<uint8_t>((shift ? q[i % 16] : 0) | code << shift);
          values[i] = format == DType::kQ4_0 ? scale * (code - 8) : scale * code - 1.5;
        }
      }
      weights.insert(weights.end(), values, values + 32);
      bytes += GetDTypeInfo(format).block_bytes;
    }
    const Floats a = TestFloats(2 * kColumns);
    std::vector<double> want;
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < kRows; ++j) {
        double sum = 0;
        for (int k = 0; k < kColumns; ++k) sum += a[i * kColumns + k] * weights[j * kColumns + k];
        want.push_back(sum);
      }
    OpTester t("Gemm"), wrong("Gemm");
    ExpectNear(t.Input(Shape{2, kColumns}, a).Input(b).Attr("transB", int64_t{1}).Values<float>(), want, 1e-3);
    EXPECT_NE(wrong.Input(Shape{2, kRows}, TestFloats(2 * kRows)).Input(b).Error().find("'transB' = 1"),
              std::string::npos);
  }
}

TEST(MatMulNBits, UnpacksEachWidth) {
  constexpr int kN = 3, kK = 40, kBlock = 16, kBlocks = 3;
  for (const int bits : {2, 4, 8}) {
    const int per_byte = 8 / bits, blob = kBlock * bits / 8, zero_row = (kBlocks * bits + 7) / 8;
    std::vector<uint8_t> b(kN * kBlocks * blob), zeros(kN * zero_row);
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<uint8_t>(i * 37 + 11);
    for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<uint8_t>(i * 91 + 5);
    const Floats scales = TestFloats(kN * kBlocks, 4), a = TestFloats(2 * kK, 5), bias = TestFloats(kN, 6);
    const auto code = [&](const uint8_t* p, int i) { return (p[i / per_byte] >> (i % per_byte * bits)) % (1 << bits); };
    std::vector<double> want;
    for (int m = 0; m < 2; ++m)
      for (int n = 0; n < kN; ++n) {
        double sum = bias[n];
        for (int k = 0; k < kK; ++k) {
          const int block = k / kBlock;
          const int q = code(&b[(n * kBlocks + block) * blob], k % kBlock), z = code(&zeros[n * zero_row], block);
          sum += double{a[m * kK + k]} * (q - z) * scales[n * kBlocks + block];
        }
        want.push_back(sum);
      }
    OpTester t("MatMulNBits", 1, "com.microsoft");
    t.Input(Shape{2, kK}, a).Input<uint8_t>({kN, kBlocks, blob}, b).Input(Shape{kN, kBlocks}, scales);
    t.Input<uint8_t>({kN, zero_row}, zeros).Omit().Input(Shape{kN}, bias);
    t.Attr("N", int64_t{kN}).Attr("K", int64_t{kK}).Attr("bits", int64_t{bits}).Attr("block_size", int64_t{kBlock});
    ExpectNear(t.Values<float>(), want, 1e-3 * (1 << bits));
  }
}

TEST(Softmax, FlattensBeforeOpset13) {
  const Floats x = {0, 1, 2, 3, 4, 5, 6, 7};
  OpTester old("Softmax", 11), now("Softmax", 13);
  std::vector<double> whole, last;
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 4; ++i) {
      double four = 0, two = 0;
      for (int j = 0; j < 4; ++j) four += std::exp(x[row * 4 + j] - x[row * 4 + i]);
      for (int j = 0; j < 2; ++j) two += std::exp(x[row * 4 + i / 2 * 2 + j] - x[row * 4 + i]);
      whole.push_back(1 / four);
      last.push_back(1 / two);
    }
  ExpectNear(old.Input(Shape{2, 2, 2}, x).Values<float>(), whole);
  ExpectNear(now.Input(Shape{2, 2, 2}, x).Values<float>(), last);
  OpTester logarithm("LogSoftmax"), hard("Hardmax");
  ExpectNear(logarithm.Input<float>({2}, {1000, 1000}).Values<float>(), {-std::log(2.0), -std::log(2.0)});
  EXPECT_EQ(hard.Input<float>({3}, {1, 3, 3}).Values<float>(), (Floats{0, 1, 0}));
}

TEST(LayerNormalization, GivesItsStatistics) {
  const Floats x = TestFloats(2 * 6), scale = TestFloats(6, 2), bias = TestFloats(6, 3);
  OpTester t("LayerNormalization");
  t.Input(Shape{2, 2, 3}, x).Input(Shape{2, 3}, scale).Input(Shape{2, 3}, bias).Attr("axis", int64_t{1}).Outputs(3);
  const auto result = t.Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (int r = 0; r < 2; ++r) {
    double mean = 0, variance = 0;
    for (int i = 0; i < 6; ++i) mean += x[r * 6 + i] / 6.0;
    for (int i = 0; i < 6; ++i) variance += (x[r * 6 + i] - mean) * (x[r * 6 + i] - mean) / 6.0;
    const double inverse = 1 / std::sqrt(variance + 1e-5);
    for (int i = 0; i < 6; ++i) {
      EXPECT_NEAR((*result)[0].tensor().data<float>()[r * 6 + i], (x[r * 6 + i] - mean) * inverse * scale[i] + bias[i],
                  1e-5);
    }
    EXPECT_NEAR((*result)[1].tensor().data<float>()[r], mean, 1e-6);
    EXPECT_NEAR((*result)[2].tensor().data<float>()[r], inverse, 1e-4);
  }
  EXPECT_EQ((*result)[1].tensor().shape(), (Shape{2, 1, 1}));
}

TEST(GroupNormalization, ScalesPerGroupAndSince21PerChannel) {
  // [1, 4, 2], two groups: mean 2 and variance 5, mean 4 and variance 20; normalized, both are -3s, -s, s, 3s.
  const Floats x = {-1, 1, 3, 5, -2, 2, 6, 10};
  const double s = 1 / std::sqrt(5.0);
  const auto set = [&](OpTester& t, const Floats& scale, const Floats& bias) -> OpTester& {
    const auto length = static_cast<int64_t>(scale.size());
    t.Input(Shape{1, 4, 2}, x).Input(Shape{length}, scale).Input(Shape{length}, bias);
    return t.Attr("num_groups", int64_t{2}).Attr("epsilon", 0.0f);
  };
  OpTester per_group("GroupNormalization", 18), per_channel("GroupNormalization", 21), wrong("GroupNormalization", 18);
  ExpectNear(set(per_group, {1, 2}, {0, 10}).Values<float>(),
             {-3 * s, -s, s, 3 * s, 10 - 6 * s, 10 - 2 * s, 10 + 2 * s, 10 + 6 * s});
  ExpectNear(set(per_channel, {1, 2, 1, 2}, {0, 0, 5, 10}).Values<float>(),
             {-3 * s, -s, 2 * s, 6 * s, 5 - 3 * s, 5 - s, 10 + 2 * s, 10 + 6 * s});
  EXPECT_NE(set(wrong, {1, 2, 1, 2}, {0, 0, 5, 10}).Error().find("has shape [4]; [2] is needed"), std::string::npos);
}

TEST(BatchNormalization, UsesGivenStatistics) {
  OpTester t("BatchNormalization"), wrong("BatchNormalization");
  t.Input<float>({1, 2, 2}, {1, 2, 3, 4}).Input<float>({2}, {2, 3}).Input<float>({2}, {0.5f, -1});
  t.Input<float>({2}, {1, 3}).Input<float>({2}, {4, 0.25f}).Attr("epsilon", 0.0f);
  ExpectNear(t.Values<float>(), {0.5, 1.5, -1, 5});
  wrong.Input<float>({1, 2, 2}, {1, 2, 3, 4}).Input<float>({3}, {2, 3, 4});
  for (int i = 0; i < 3; ++i) wrong.Input<float>({2}, {1, 1});
  EXPECT_NE(wrong.Error().find("input 'x1' has shape [3]; [2] is needed"), std::string::npos);
}

TEST(Attention, SharesKeyHeadsAndAppendsToThePast) {
  constexpr int kHeads = 4, kKvHeads = 2, kSize = 3, kPast = 2, kNew = 2, kTotal = kPast + kNew;
  const Floats q = TestFloats(kHeads * kNew * kSize, 1), k = TestFloats(kKvHeads * kNew * kSize, 2),
               v = TestFloats(kKvHeads * kNew * kSize, 3), pk = TestFloats(kKvHeads * kPast * kSize, 4),
               pv = TestFloats(kKvHeads * kPast * kSize, 5);
  OpTester t("Attention", 23);
  t.Input(Shape{1, kHeads, kNew, kSize}, q).Input(Shape{1, kKvHeads, kNew, kSize}, k);
  t.Input(Shape{1, kKvHeads, kNew, kSize}, v).Omit();
  t.Input(Shape{1, kKvHeads, kPast, kSize}, pk).Input(Shape{1, kKvHeads, kPast, kSize}, pv);
  t.Attr("is_causal", int64_t{1}).Outputs(3);
  const auto result = t.Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ((*result)[1].tensor().shape(), (Shape{1, kKvHeads, kTotal, kSize}));
  const auto row = [&](const Floats& past, const Floats& now, int head, int j, int p) {
    return j < kPast ? past[(head * kPast + j) * kSize + p] : now[(head * kNew + j - kPast) * kSize + p];
  };
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < kNew; ++i) {
      double weights[kTotal] = {}, sum = 0;
      for (int j = 0; j <= i + kPast; ++j) {
        double score = 0;
        for (int p = 0; p < kSize; ++p) score += q[(h * kNew + i) * kSize + p] * row(pk, k, h / 2, j, p);
        sum += weights[j] = std::exp(score / std::sqrt(3.0));
      }
      for (int p = 0; p < kSize; ++p) {
        double want = 0;
        for (int j = 0; j < kTotal; ++j) want += weights[j] / sum * row(pv, v, h / 2, j, p);
        EXPECT_NEAR((*result)[0].tensor().data<float>()[(h * kNew + i) * kSize + p], want, 1e-5);
      }
    }
  }
}

TEST(LSTM, FollowsItsEquationsInBothDirections) {
  constexpr int kSteps = 3, kBatch = 2, kInput = 2, kHidden = 2, kRows = 4 * kHidden;
  const Floats x = TestFloats(kSteps * kBatch * kInput, 1), w = TestFloats(2 * kRows * kInput, 2),
               r = TestFloats(2 * kRows * kHidden, 3), b = TestFloats(2 * 2 * kRows, 4),
               p = TestFloats(2 * 3 * kHidden, 5), h0 = TestFloats(2 * kBatch * kHidden, 6),
               c0 = TestFloats(2 * kBatch * kHidden, 7);
  const std::vector<int32_t> lengths = {3, 2};
  OpTester t("LSTM");
  t.Input(Shape{kSteps, kBatch, kInput}, x).Input(Shape{2, kRows, kInput}, w).Input(Shape{2, kRows, kHidden}, r);
  t.Input(Shape{2, 2 * kRows}, b).Input(Shape{kBatch}, lengths).Input(Shape{2, kBatch, kHidden}, h0);
  t.Input(Shape{2, kBatch, kHidden}, c0).Input(Shape{2, 3 * kHidden}, p);
  t.Attr("direction", std::string("bidirectional")).Attr("hidden_size", int64_t{kHidden}).Outputs(3);
  const auto result = t.Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (int d = 0; d < 2; ++d) {
    for (int n = 0; n < kBatch; ++n) {
      double h[kHidden], c[kHidden];
      for (int i = 0; i < kHidden; ++i) {
        h[i] = h0[(d * kBatch + n) * kHidden + i];
        c[i] = c0[(d * kBatch + n) * kHidden + i];
      }
      for (int s = 0; s < lengths[n]; ++s) {
        const int time = d == 0 ? s : lengths[n] - 1 - s;
        double gate[kRows];
        for (int g = 0; g < kRows; ++g) {
          gate[g] = double{b[d * 2 * kRows + g]} + b[d * 2 * kRows + kRows + g];
          for (int i = 0; i < kInput; ++i)
            gate[g] += double{w[(d * kRows + g) * kInput + i]} * x[(time * kBatch + n) * kInput + i];
          for (int i = 0; i < kHidden; ++i) gate[g] += r[(d * kRows + g) * kHidden + i] * h[i];
        }
        for (int i = 0; i < kHidden; ++i) {
          const float* peep = &p[d * 3 * kHidden + i];
          const double in = sigmoid(gate[i] + peep[0] * c[i]);
          const double forget = sigmoid(gate[2 * kHidden + i] + peep[2 * kHidden] * c[i]);
          c[i] = forget * c[i] + in * std::tanh(gate[3 * kHidden + i]);
          h[i] = sigmoid(gate[kHidden + i] + peep[kHidden] * c[i]) * std::tanh(c[i]);
          EXPECT_NEAR((*result)[0].tensor().data<float>()[((time * 2 + d) * kBatch + n) * kHidden + i], h[i], 1e-5);
        }
      }
      for (int i = 0; i < kHidden; ++i) {
        EXPECT_NEAR((*result)[1].tensor().data<float>()[(d * kBatch + n) * kHidden + i], h[i], 1e-5);
        EXPECT_NEAR((*result)[2].tensor().data<float>()[(d * kBatch + n) * kHidden + i], c[i], 1e-5);
        if (lengths[n] < kSteps) {
          EXPECT_EQ((*result)[0].tensor().data<float>()[((2 * 2 + d) * kBatch + n) * kHidden + i], 0.0f);
        }
      }
    }
  }
}

TEST(LSTM, NamesTheInputThatDoesNotFit) {
  OpTester t("LSTM");
  t.Input(Shape{1, 1, 2}, TestFloats(2)).Input(Shape{1, 8, 3}, TestFloats(24)).Input(Shape{1, 8, 2}, TestFloats(16));
  t.Attr("hidden_size", int64_t{2});
  EXPECT_EQ(t.Error(), "node 'n' (LSTM): input 'x1' has shape [1,8,3]; [1,8,2] is needed");
}

TEST(QuantizeLinear, RoundsSaturatesAndGoesBack) {
  OpTester q("QuantizeLinear"), per_axis("QuantizeLinear"), back("DequantizeLinear"), blocked("DequantizeLinear");
  q.Input<float>({5}, {1, 3, 5, 1000, -1000}).Input<float>({}, {2}).Input<uint8_t>({}, {10});
  EXPECT_EQ(q.Values<uint8_t>(), (std::vector<uint8_t>{10, 12, 12, 255, 0}));
  per_axis.Input<float>({2, 2}, {1, 1, -1, 300}).Input<float>({2}, {1, 0.5f}).Input<int8_t>({2}, {0, 1});
  EXPECT_EQ(per_axis.Values<int8_t>(), (std::vector<int8_t>{1, 3, -1, 127}));
  back.Input<int8_t>({2, 2}, {1, 3, -1, 127}).Input<float>({2}, {1, 0.5f}).Input<int8_t>({2}, {0, 1});
  EXPECT_EQ(back.Values<float>(), (Floats{1, 1, -1, 63}));
  blocked.Input<uint8_t>({1, 4}, {1, 2, 3, 4}).Input<float>({1, 2}, {1, 10}).Attr("block_size", int64_t{2});
  EXPECT_EQ(blocked.Values<float>(), (Floats{1, 2, 30, 40}));
}

TEST(DequantizeLinear, UnpacksFourBits) {
  Tensor x = Tensor::Allocate(DType::kI4, Shape{3}).value();
  static_cast<uint8_t*>(x.raw_data())[0] = 0x8f;  // -1, -8
  static_cast<uint8_t*>(x.raw_data())[1] = 0x07;  // 7
  OpTester t("DequantizeLinear");
  EXPECT_EQ(t.Input(x).Input<float>({}, {0.5f}).Values<float>(), (Floats{-0.5f, -4, 3.5f}));
}

TEST(Einsum, ContractsAndBroadcasts) {
  OpTester product("Einsum"), diagonal("Einsum"), batched("Einsum");
  product.Input<float>({2, 2}, {1, 2, 3, 4}).Input<float>({2, 2}, {5, 6, 7, 8});
  EXPECT_EQ(product.Attr("equation", std::string("ij,kj->ki")).Values<float>(), (Floats{17, 39, 23, 53}));
  diagonal.Input<float>({2, 2}, {1, 2, 3, 4}).Attr("equation", std::string("ii"));
  EXPECT_EQ(diagonal.Values<float>(), (Floats{5}));
  batched.Input<float>({2, 1, 2}, {1, 2, 3, 4}).Input<float>({2}, {10, 100});
  EXPECT_EQ(batched.Attr("equation", std::string("...i,i->...")).Values<float>(), (Floats{210, 430}));
  // One repeats as often as the other says: not at all.
  OpTester empty("Einsum");
  empty.Input<float>({2, 0}, {}).Input<float>({1, 2}, {1, 2}).Attr("equation", std::string("ij,jk->ik"));
  EXPECT_EQ(empty.Values<float>(), (Floats{0, 0, 0, 0}));
}

TEST(Microsoft, FusedOperatorsAddTheirActivation) {
  OpTester conv("FusedConv", 1, "com.microsoft"), gemm("FusedGemm", 1, "com.microsoft");
  conv.Input<float>({1, 1, 3}, {1, -2, 3}).Input<float>({1, 1, 1}, {2}).Input<float>({1}, {1});
  conv.Input<float>({1, 1, 3}, {1, 1, -9}).Attr("activation", std::string("Relu"));
  EXPECT_EQ(conv.Values<float>(), (Floats{4, 0, 0}));
  gemm.Input<float>({1, 2}, {1, -1}).Input<float>({2, 2}, {1, 2, 3, 4}).Attr("activation", std::string("LeakyRelu"));
  EXPECT_EQ(gemm.Attr("activation_alpha", 0.5f).Values<float>(), (Floats{-1, -1}));
  OpTester product("FusedMatMul", 1, "com.microsoft");
  product.Input<float>({2, 1}, {1, 2}).Input<float>({1, 2}, {3, 4}).Attr("transA", int64_t{1});
  EXPECT_EQ(product.Attr("transB", int64_t{1}).Attr("alpha", 2.0f).Values<float>(), (Floats{22}));
}

TEST(Microsoft, SkipLayerNormalizationGivesTheSum) {
  OpTester t("SkipLayerNormalization", 1, "com.microsoft");
  t.Input<float>({1, 2}, {1, 2}).Input<float>({1, 2}, {2, 5}).Input<float>({2}, {1, 2}).Input<float>({2}, {0, 1});
  t.Input<float>({2}, {0, 1}).Outputs(4);  // sum: 3, 8
  const auto result = t.Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  const auto y = (*result)[0].tensor().values<float>(), sum = (*result)[3].tensor().values<float>();
  ExpectNear({y.begin(), y.end()}, {-1, 3});
  EXPECT_EQ(Floats(sum.begin(), sum.end()), (Floats{3, 8}));
}

}  // namespace
}  // namespace quern
