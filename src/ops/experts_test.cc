// MoE and QMoE of com.microsoft against plain sums.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;

struct Experts : OpTester {
  explicit Experts(const char* op = "MoE") : OpTester(op, 1, "com.microsoft") {}
};

TEST(MoE, WeighsItsBestExperts) {
  // Experts multiply by 1, 10 and 100; the scores are the logarithms of 1, 2 and 5.
  const auto run = [](int64_t k, bool normalizes) {
    Experts t;
    t.Input<float>({2, 1}, {1, -3}).Input<float>({2, 3}, {0, std::log(2.f), std::log(5.f), std::log(5.f), 0, -1e9f});
    t.Input<float>({3, 1, 1}, {1, 10, 100}).Omit().Input<float>({3, 1, 1}, {1, 1, 1});
    t.Attr("k", k).Attr("activation_type", std::string("identity"));
    return t.Attr("normalize_routing_weights", int64_t{normalizes}).Values<float>();
  };
  ExpectNear(run(1, false), {100 * 5. / 8, -3 * 5. / 6});
  ExpectNear(run(1, true), {100, -3});
  ExpectNear(run(2, false), {(10 * 2 + 100 * 5) / 8., -3 * (5 + 10) / 6.});
  ExpectNear(run(2, true), {(10 * 2 + 100 * 5) / 7., -3 * (5 + 10) / 6.});
  ExpectNear(run(3, true), {(1 + 10 * 2 + 100 * 5) / 8., -3 * (5 + 10) / 6.});
}

TEST(MoE, AddsBiasesAroundItsActivation) {
  const auto gelu = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  const auto run = [](const std::string& activation) {
    Experts t;
    t.Input<float>({1, 1, 2}, {1, 2}).Input<float>({1, 1}, {7}).Input<float>({1, 2, 2}, {1, 1, 0, -1});
    t.Input<float>({1, 2}, {0.5f, 1}).Input<float>({1, 2, 2}, {1, 0, 0, 2}).Input<float>({1, 2}, {10, 20});
    return t.Attr("activation_type", activation).Values<float>();
  };
  ExpectNear(run("identity"), {13.5, 18});
  ExpectNear(run("relu"), {13.5, 20});
  ExpectNear(run("silu"), {10 + 3.5 / (1 + std::exp(-3.5)), 20 - 2 / (1 + std::exp(1))});
  ExpectNear(run("gelu"), {10 + gelu(3.5), 20 + 2 * gelu(-1)});
}

TEST(MoE, GatesByRowsOfAnyPlace) {
  // Two units: g = (1, -1), l = (4, 0.5) for x = 1.
  const auto gated = [](double g, double l) {
    return std::min(g, 2.) / (1 + std::exp(-1.5 * g)) * (std::min(l, 2.) + 1);
  };
  const auto run = [](int64_t fusion, const Floats& first) {
    Experts t;
    t.Input<float>({1, 1}, {1}).Input<float>({1, 1}, {0}).Input({1, static_cast<int64_t>(first.size()), 1}, first);
    t.Omit().Input<float>({1, 1, 2}, {1, 10}).Omit();
    if (fusion == 0) t.Input<float>({1, 2, 1}, {4, 0.5f});
    t.Attr("activation_type", std::string("swiglu")).Attr("swiglu_fusion", fusion).Attr("swiglu_limit", 2.0f);
    return t.Attr("activation_alpha", 1.5f).Attr("activation_beta", 1.0f).Values<float>();
  };
  const std::vector<double> want = {gated(1, 4) + 10 * gated(-1, 0.5)};
  ExpectNear(run(0, {1, -1}), want);
  ExpectNear(run(1, {1, 4, -1, 0.5f}), want);
  ExpectNear(run(2, {1, -1, 4, 0.5f}), want);

  Experts relu;  // of another activation, a gate of its own multiplies alone
  relu.Input<float>({1, 1}, {2}).Input<float>({1, 1}, {0}).Input<float>({1, 1, 1}, {3}).Omit();
  relu.Input<float>({1, 1, 1}, {1}).Omit().Input<float>({1, 1, 1}, {5}).Input<float>({1, 1}, {1});
  ExpectNear(relu.Values<float>(), {6 * 11});
}

// Weights of 3 experts as bytes with scales and zero points, and the numbers that they stand for.
struct Quantized {
  Bytes bytes, zeros;
  Floats scales, numbers;

  Quantized(int bits, int64_t block, bool has_zeros, int64_t rows, int64_t k) {
    const int64_t per_byte = 8 / bits, length = block > 0 ? block : k, blocks = k / length;
    const int64_t zero_row = block > 0 ? (blocks + per_byte - 1) / per_byte : 0, mask = (1 << bits) - 1;
    const int64_t zero_bytes = block > 0 ? rows * zero_row : (rows + per_byte - 1) / per_byte;
    const auto draw = [](int64_t i) { return static_cast<uint8_t>(i * 37 + i / 5 * 11); };
    for (int64_t i = 0; i < 3 * rows * k / per_byte; ++i) bytes.push_back(draw(i));
    for (int64_t i = 0; i < 3 * zero_bytes; ++i) zeros.push_back(draw(i + 3));
    for (int64_t i = 0; i < 3 * rows * blocks; ++i) scales.push_back(0x1p-9f * static_cast<float>(1 << i % 3));
    for (int64_t e = 0; e < 3; ++e) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t j = 0; j < k; ++j) {
          const int64_t element = (e * rows + r) * k + j, b = j / length, at = block > 0 ? b : r;
          const int64_t byte = e * zero_bytes + (block > 0 ? r * zero_row : 0) + at / per_byte;
          const int64_t zero = has_zeros ? zeros[byte] >> (at % per_byte * bits) & mask : int64_t{1} << (bits - 1);
          const int64_t q = bytes[element / per_byte] >> (element % per_byte * bits) & mask;
          numbers.push_back(static_cast<float>(q - zero) * scales[(e * rows + r) * blocks + b]);
        }
      }
    }
  }
};

TEST(QMoE, GivesWhatMoEGivesOfTheNumbers) {
  constexpr int64_t kHidden = 64, kUnits = 32, kTokens = 3;
  const Floats x = TestFloats(kTokens * kHidden, 1), scores = TestFloats(kTokens * 3, 2);
  for (const int bits : {2, 4, 8}) {
    for (const int64_t block : {0, 16}) {
      for (const bool zeros : {false, true}) {
        SCOPED_TRACE(std::to_string(bits) + " bits, blocks of " + std::to_string(block) +
                     (zeros ? ", zero points" : ""));
        const Quantized first(bits, block, zeros, kUnits, kHidden), second(bits, block, zeros, kHidden, kUnits);
        Experts plain, quantized("QMoE");
        for (Experts* t : {&plain, &quantized}) {
          t->Input({kTokens, kHidden}, x).Input({kTokens, 3}, scores);
          t->Attr("k", int64_t{2}).Attr("normalize_routing_weights", int64_t{1});
        }
        plain.Input({3, kUnits, kHidden}, first.numbers).Omit().Input({3, kHidden, kUnits}, second.numbers);
        const auto add = [&](const Quantized& q, int64_t rows, int64_t k) {
          quantized.Input({3, rows, k * bits / 8}, q.bytes);
          quantized.Input(block > 0 ? Shape{3, rows, k / block} : Shape{3, rows}, q.scales).Omit();
        };
        const auto add_zeros = [&](const Quantized& q, int64_t rows) {
          const auto bytes = static_cast<int64_t>(q.zeros.size()) / 3;
          quantized.Input(block > 0 ? Shape{3, rows, bytes / rows} : Shape{3, bytes}, q.zeros);
        };
        add(first, kUnits, kHidden);
        add(second, kHidden, kUnits);
        for (int i = 0; i < 3; ++i) quantized.Omit();
        if (zeros) {
          add_zeros(first, kUnits);
          add_zeros(second, kHidden);
        }
        quantized.Attr("expert_weight_bits", int64_t{bits});
        if (block > 0) quantized.Attr("block_size", block);
        const Floats want = plain.Values<float>();
        ExpectNear(quantized.Values<float>(), {want.begin(), want.end()});
      }
    }
  }
}

TEST(QMoE, TakesGivenWeights) {
  const auto run = [](bool normalizes) {
    Experts t("QMoE");
    t.Input<float>({1, 2}, {1, 1}).Input<float>({1, 3}, {1, 3, 2});
    // Two numbers of 8 bits in each of one row: experts multiply by 1, 10 and 100.
    t.Input<uint8_t>({3, 1, 2}, {129, 128, 138, 128, 228, 128}).Input<float>({3, 1}, {1, 1, 1}).Omit();
    t.Input<uint8_t>({3, 2, 1}, {129, 129, 129, 129, 129, 129}).Input<float>({3, 2}, {1, 1, 1, 1, 1, 1});
    for (int i = 0; i < 7; ++i) t.Omit();
    t.Input<float>({1, 3}, {0.5f, 0.25f, 1}).Attr("expert_weight_bits", int64_t{8}).Attr("k", int64_t{2});
    return t.Attr("normalize_routing_weights", int64_t{normalizes}).Values<float>();
  };
  ExpectNear(run(false), {102.5, 102.5});
  ExpectNear(run(true), {82, 82});
}

TEST(QMoE, RefusesWhatDoesNotFit) {
  const auto error = [](const std::string& name, Attribute value, const Shape& scales = {2, 4}) {
    Experts t("QMoE");
    t.Input<float>({1, 16}, Floats(16)).Input<float>({1, 2}, {1, 2}).Input({2, 4, 8}, Bytes(64));
    t.Input(scales, Floats(static_cast<size_t>(scales.num_elements()))).Omit().Input({2, 16, 2}, Bytes(64));
    t.Input({2, 16}, Floats(32));
    return t.Attr(name, std::move(value)).Error();
  };
  EXPECT_THAT(error("k", int64_t{3}), HasSubstr("'k' is 3 but there are 2 experts"));
  EXPECT_THAT(error("k", int64_t{0}), HasSubstr("at least 1 is needed"));
  EXPECT_THAT(error("quant_type", std::string("fp4")), HasSubstr("'quant_type' = 'fp4' is not supported"));
  EXPECT_THAT(error("weights_prepacked", int64_t{1}), HasSubstr("weights in a provider's own layout"));
  EXPECT_THAT(error("use_sparse_mixer", int64_t{1}), HasSubstr("'use_sparse_mixer' is not supported"));
  EXPECT_THAT(error("expert_weight_bits", int64_t{3}), HasSubstr("weights of 3 bits"));
  EXPECT_THAT(error("block_size", int64_t{24}), HasSubstr("'block_size' is 24"));
  EXPECT_THAT(error("block_size", int64_t{32}), HasSubstr("does not divide rows of 16"));
  EXPECT_THAT(error("block_size", int64_t{16}), HasSubstr("[2,4,1] is needed"));
  EXPECT_THAT(error("activation_type", std::string("tanh")), HasSubstr("'activation_type' is 'tanh'"));
  EXPECT_THAT(error("activation_type", std::string("swiglu")), HasSubstr("needs either 'swiglu_fusion'"));
  EXPECT_THAT(error("k", int64_t{1}, {2, 3}), HasSubstr("[2,4] is needed"));
}

}  // namespace
}  // namespace quern
