// Mixtures of experts of random forms beside the reference provider.
#include <gtest/gtest.h>

#include "provider/cpu/random_cases.h"

namespace quern::cpu {
namespace {

// Scores that differ clearly, so that rounding does not change the choice.
Tensor DrawScores(int64_t tokens, int64_t experts) {
  Tensor t = Tensor::Allocate(DType::kF32, Shape{tokens, experts}).value();
  for (int64_t i = 0; i < tokens; ++i) {
    std::vector<float> row;
    for (int64_t e = 0; e < experts; ++e) row.push_back(0.5f * static_cast<float>(e) - 1);
    std::shuffle(row.begin(), row.end(), Random());
    std::copy(row.begin(), row.end(), t.data<float>() + i * experts);
  }
  return t;
}

struct Sizes {
  Shape tokens;
  int64_t count, experts, hidden, units;
};

Sizes DrawSizes(int64_t multiple) {
  Sizes s{.tokens = {}, .count = Draw(1, 30), .experts = Draw(1, 6), .hidden = Draw(1, 5), .units = Draw(1, 5)};
  s.hidden *= multiple;
  s.units *= multiple;
  s.tokens = Draw(0, 1) ? Shape{s.count, s.hidden} : Shape{1, s.count, s.hidden};
  return s;
}

// Draws the attributes of the choice and of the activation; gives the rows of W1 for each unit and whether there is W3.
std::pair<int64_t, bool> DrawForm(const Sizes& s, Case& c) {
  c.Attr("k", Draw(1, s.experts)).Attr("normalize_routing_weights", Draw(0, 1));
  c.relative = c.absolute = 2e-5;
  const bool own = Draw(0, 3) == 0;
  if (Draw(0, 1)) {
    c.Attr("activation_type", Pick<std::string>({"relu", "gelu", "silu", "identity"}));
    return {1, own};
  }
  const int64_t fusion = own ? 0 : Draw(1, 2);
  c.Attr("activation_type", std::string("swiglu")).Attr("swiglu_fusion", fusion);
  c.Attr("activation_alpha", 1.7f).Attr("activation_beta", Pick({0.0f, 1.0f}));
  if (Draw(0, 1)) c.Attr("swiglu_limit", 0.8f);
  return {fusion > 0 ? 2 : 1, own};
}

void AddBias(Case& c, const Shape& shape) {
  if (Draw(0, 1)) {
    c.In(DrawTensor(DType::kF32, shape), true);
  } else {
    c.Omit();
  }
}

Case MakeMixture(const Sizes& s) {
  Case c{.op = "MoE", .domain = "com.microsoft"};
  const auto [fused, own] = DrawForm(s, c);
  c.In(DrawTensor(DType::kF32, s.tokens, 1)).In(DrawScores(s.count, s.experts));
  const auto add = [&](int64_t rows, int64_t k) {
    c.In(DrawTensor(DType::kF32, Shape{s.experts, rows, k}, 1 / std::sqrt(static_cast<float>(k))), true);
    AddBias(c, Shape{s.experts, rows});
  };
  add(fused * s.units, s.hidden);
  add(s.hidden, s.units);
  if (own) add(s.units, s.hidden);
  return c;
}

Case MakeQuantized(const Sizes& s) {
  Case c{.op = "QMoE", .domain = "com.microsoft"};
  const auto [fused, own] = DrawForm(s, c);
  const int64_t bits = Pick<int64_t>({2, 4, 8}), block = Pick<int64_t>({0, 16}), per_byte = 8 / bits;
  c.Attr("expert_weight_bits", bits);
  if (block > 0) c.Attr("block_size", block);
  c.In(DrawTensor(DType::kF32, s.tokens, 1)).In(DrawScores(s.count, s.experts));
  std::vector<Tensor> zeros;
  const auto add = [&](int64_t rows, int64_t k) {
    const int64_t blocks = block > 0 ? k / block : 1;
    Tensor scales = DrawTensor(DType::kF32, block > 0 ? Shape{s.experts, rows, blocks} : Shape{s.experts, rows});
    const float step = 1 / std::sqrt(static_cast<float>(k)) / static_cast<float>(1 << (bits - 1));
    for (float& v : scales.values<float>()) v = step * (0.5f + 0.1f * std::fabs(v));
    c.In(DrawTensor(DType::kU8, Shape{s.experts, rows, k / per_byte}), true).In(std::move(scales), true);
    AddBias(c, Shape{s.experts, rows});
    const auto bytes = [&](int64_t n) { return (n + per_byte - 1) / per_byte; };
    const Shape of_zeros = block > 0 ? Shape{s.experts, rows, bytes(blocks)} : Shape{s.experts, bytes(rows)};
    zeros.push_back(DrawTensor(DType::kU8, of_zeros));
  };
  add(fused * s.units, s.hidden);
  add(s.hidden, s.units);
  if (own) {
    add(s.units, s.hidden);
  } else {
    c.Omit().Omit().Omit();
  }
  const bool has_zeros = Draw(0, 1);
  for (size_t i = 0; i < 3; ++i) {
    if (has_zeros && i < zeros.size()) {
      c.In(zeros[i], true);
    } else {
      c.Omit();
    }
  }
  if (Draw(0, 2) == 0) {
    Tensor weights = DrawTensor(DType::kF32, Shape{s.count, s.experts});
    for (float& v : weights.values<float>()) v = 0.1f + std::fabs(v);
    c.In(std::move(weights));
  }
  return c;
}

TEST_F(CpuOps, MixturesOfExperts) {
  for (int i = 0; i < 6 * kRounds; ++i) ASSERT_NO_FATAL_FAILURE(Check(MakeMixture(DrawSizes(Pick({1, 7, 16})))));
}

TEST_F(CpuOps, QuantizedMixturesOfExperts) {
  for (int i = 0; i < 6 * kRounds; ++i) ASSERT_NO_FATAL_FAILURE(Check(MakeQuantized(DrawSizes(16))));
}

TEST_F(CpuOps, MixturesOfNoTokens) {
  Sizes s = DrawSizes(16);
  s.count = 0;
  s.tokens = {0, s.hidden};
  ASSERT_NO_FATAL_FAILURE(Check(MakeMixture(s)));
  ASSERT_NO_FATAL_FAILURE(Check(MakeQuantized(s)));
}

}  // namespace
}  // namespace quern::cpu
