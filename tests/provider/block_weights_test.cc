// Weights in 4-bit blocks, from a graph built through the C ABI down to the kernel that reads them as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "quern/quern.hpp"

namespace {

using Json = nlohmann::json;
using quern::Model;
using quern::Session;
using quern::SessionOptions;
using quern::Value;
using testing::HasSubstr;

constexpr int64_t kN = 96, kK = 256, kBlock = 32;

// [N, K] weights as q4_0 blocks (f16 scale, then nibbles: w[i] low, w[i + 16] high; w = d * (q - 8)) and as numbers.
struct Weights {
  std::vector<uint8_t> blocks;
  std::vector<double> numbers;
};
Weights DrawWeights() {
  std::mt19937 random(7);
  Weights w;
  w.numbers.resize(kN * kK);
  for (int64_t b = 0; b < kN * kK / kBlock; ++b) {
    // A power of two between 1/16 and 1/2 as float16: the exponent alone.
    const int exponent = -1 - static_cast<int>(random() % 4);
    const auto half = static_cast<uint16_t>((exponent + 15) << 10);
    w.blocks.push_back(static_cast<uint8_t>(half & 0xff));
    w.blocks.push_back(static_cast<uint8_t>(half >> 8));
    for (int64_t i = 0; i < 16; ++i) {
      const int low = static_cast<int>(random() % 16), high = static_cast<int>(random() % 16);
      w.blocks.push_back(static_cast<uint8_t>(low | high << 4));
      w.numbers[b * kBlock + i] = std::ldexp(low - 8, exponent);
      w.numbers[b * kBlock + i + 16] = std::ldexp(high - 8, exponent);
    }
  }
  return w;
}

Model Network(std::vector<uint8_t>& blocks) {
  Model m = Model::Create("blocks");
  m.Import("", 17).Input("x", QUERN_F32, {-1, kK}, {"rows", ""});
  m.Constant("w", Value::Wrap(QUERN_Q4_0, {kN, kK}, {}, blocks.data(), blocks.size()));
  m.Node("Gemm", {"x", "w"}, {"y"}, {{"transB", 1}}, "dense").Output("y");
  return m;
}

// Relative Frobenius error against double precision.
double Error(const Weights& w, const std::vector<float>& x, const Value& y, int64_t rows) {
  double off = 0, all = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < kN; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < kK; ++k) sum += x[r * kK + k] * w.numbers[n * kK + k];
      off += std::pow(y.data<float>()[r * kN + n] - sum, 2);
      all += sum * sum;
    }
  }
  return std::sqrt(off / all);
}

TEST(BlockWeights, ReachTheKernelUnexpanded) {
  Weights w = DrawWeights();
  const Model model = Network(w.blocks);
  SessionOptions options;
  options.threads = 2;
  Session session(model, options);
  const Json partition = Json::parse(session.Facts("partition"))["partition"];
  ASSERT_EQ(partition["nodes"].size(), 1u);
  EXPECT_EQ(partition["nodes"][0]["provider"], "cpu") << partition;

  SessionOptions on_reference;
  on_reference.providers = {"reference"};
  Session reference(model, on_reference);
  for (int64_t rows : {1, 5, 33}) {
    SCOPED_TRACE(rows);
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(rows * kK));
    for (float& v : x) v = normal(random);
    const std::vector<Value> in = {Value::Tensor<float>({rows, kK}, x)};
    EXPECT_LT(Error(w, x, session.Run(in)[0], rows), 0.02);
    EXPECT_LT(Error(w, x, reference.Run(in)[0], rows), 1e-5);

    const Json step = Json::parse(session.Facts("plan"))["plan"]["steps"][0]["steps"][0];
    EXPECT_THAT(step["kernel"].get<std::string>(), HasSubstr("qb4w"));
    EXPECT_LT(step["packed_bytes"].get<double>(), 0.7 * kN * kK);
    EXPECT_GE(step["packed_bytes"].get<double>(), 0.5 * kN * kK);
  }
  EXPECT_LT(Json::parse(session.Facts("compiled"))["compiled"]["packed_bytes"].get<double>(), 0.7 * kN * kK);
}

}  // namespace
