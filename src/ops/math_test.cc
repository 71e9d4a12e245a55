// Elementwise arithmetic, activations and reductions: literal values and edges.
#include <cmath>
#include <limits>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Div, TruncatesAndWrapsIntegers) {
  OpTester t("Div");
  t.Input<int32_t>({4}, {7, -7, 7, INT32_MIN}).Input<int32_t>({4}, {2, 2, -2, -1});
  EXPECT_EQ(t.Values<int32_t>(), (std::vector<int32_t>{3, -3, -3, INT32_MIN}));
}

TEST(Div, RefusesIntegerZero) {
  for (const char* op : {"Div", "Mod"}) {
    OpTester t(op);
    t.Input<int64_t>({2}, {1, 2}).Input<int64_t>({2}, {1, 0});
    EXPECT_EQ(t.Error(), std::string("node 'n' (") + op + "): integer division by zero");
  }
  OpTester floats("Div");
  EXPECT_EQ(floats.Input<float>({2}, {1, -1}).Input<float>({1}, {0}).Values<float>(), (Floats{kInf, -kInf}));
}

TEST(Mod, TakesTheSignOfDivisorOrDividend) {
  const std::vector<int32_t> a = {-4, 7, 5, 4, -7, 8}, b = {2, -3, 8, -2, 3, 5};
  OpTester python("Mod"), c("Mod");
  EXPECT_EQ(python.Input(Shape{6}, a).Input(Shape{6}, b).Values<int32_t>(), (std::vector<int32_t>{0, -2, 5, 0, 2, 3}));
  c.Input(Shape{6}, a).Input(Shape{6}, b).Attr("fmod", int64_t{1});
  EXPECT_EQ(c.Values<int32_t>(), (std::vector<int32_t>{0, 1, 5, 0, -1, 3}));
  OpTester floats("Mod", 28);
  EXPECT_EQ(floats.Input<float>({2}, {-4.5f, 4.5f}).Input<float>({2}, {2, -2}).Values<float>(), (Floats{1.5f, -1.5f}));
}

TEST(Pow, IsExactForIntegers) {
  OpTester t("Pow");
  t.Input<int64_t>({4}, {3, -2, -1, 5}).Input<int32_t>({4}, {39, 3, -3, -1});
  EXPECT_EQ(t.Values<int64_t>(), (Ints{4052555153018976267, -8, -1, 0}));
  OpTester mixed("Pow");
  EXPECT_EQ(mixed.Input<float>({2}, {2, 4}).Input<int64_t>({1}, {-1}).Values<float>(), (Floats{0.5f, 0.25f}));
}

TEST(Add, FollowsOldBroadcastAttributes) {
  OpTester t("Add", 6);
  t.Input<float>({2, 2, 1}, {1, 2, 3, 4}).Input<float>({2}, {10, 20});
  t.Attr("broadcast", int64_t{1}).Attr("axis", int64_t{0});
  EXPECT_EQ(t.Values<float>(), (Floats{11, 12, 23, 24}));
  OpTester refused("Add", 6);
  refused.Input<float>({2, 1}, {1, 2}).Input<float>({2}, {10, 20});
  EXPECT_NE(refused.Error().find("'broadcast' = 1"), std::string::npos);
}

TEST(Variadic, KeepsNanAndBroadcasts) {
  OpTester largest("Max"), mean("Mean");
  const Floats got =
      largest.Input<float>({2, 1}, {1, kNan}).Input<float>({2}, {0, 2}).Input<float>({}, {1.5f}).Values<float>();
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0], 1.5f);
  EXPECT_EQ(got[1], 2.0f);
  EXPECT_TRUE(std::isnan(got[2]) && std::isnan(got[3]));
  EXPECT_EQ(mean.Input<float>({2}, {1, 2}).Input<float>({1}, {3}).Values<float>(), (Floats{2, 2.5f}));
}

TEST(Clip, TakesAttributesInputsAndIntegers) {
  OpTester old("Clip", 6), one_sided("Clip"), integers("Clip");
  old.Input<float>({3}, {-5, 0.5f, 9}).Attr("min", 0.0f).Attr("max", 6.0f);
  EXPECT_EQ(old.Values<float>(), (Floats{0, 0.5f, 6}));
  one_sided.Input<float>({3}, {-5, 0.5f, 9}).Omit().Input<float>({}, {1});
  EXPECT_EQ(one_sided.Values<float>(), (Floats{-5, 0.5f, 1}));
  integers.Input<uint8_t>({3}, {1, 50, 200}).Input<uint8_t>({}, {10}).Input<uint8_t>({}, {100});
  EXPECT_EQ(integers.Values<uint8_t>(), (std::vector<uint8_t>{10, 50, 100}));
}

TEST(Activations, MatchTheirFormulas) {
  struct Row {
    const char* op;
    double (*f)(double);
  };
  const Row rows[] = {
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Softplus", [](double x) { return std::log(std::exp(x) + 1); }},
      {"HardSigmoid", [](double x) { return std::fmin(1, std::fmax(0, 0.2 * x + 0.5)); }},
      {"HardSwish", [](double x) { return x * std::fmin(1, std::fmax(0, x / 6 + 0.5)); }},
      {"LeakyRelu", [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"Elu", [](double x) { return x < 0 ? std::exp(x) - 1 : x; }},
      {"Selu", [](double x) { return 1.0507009873554805 * (x < 0 ? 1.6732632423543772 * (std::exp(x) - 1) : x); }},
      {"Celu", [](double x) { return std::fmax(0, x) + std::fmin(0, std::exp(x) - 1); }},
      {"Gelu", [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
      {"Mish", [](double x) { return x * std::tanh(std::log(std::exp(x) + 1)); }},
      {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
      {"ThresholdedRelu", [](double x) { return x > 1 ? x : 0; }},
      {"Swish", [](double x) { return x / (1 + std::exp(-x)); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
  };
  const Floats x = {-6.5f, -3, -0.25f, 0.125f, 0.5f, 1.5f, 2.5f, 7};
  for (const Row& row : rows) {
    OpTester t(row.op, 28);
    const Floats got = t.Input(Shape{8}, x).Values<float>();
    ASSERT_EQ(got.size(), x.size()) << row.op;
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(got[i], row.f(x[i]), 2e-6) << row.op << " of " << x[i];
  }
}

TEST(Round, HalvesToEven) {
  OpTester t("Round");
  EXPECT_EQ(t.Input<float>({6}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 2.4f}).Values<float>(), (Floats{0, 2, 2, 0, -2, 2}));
}

TEST(Unary, ComputesHalfInFloat) {
  OpTester t("Sqrt");
  const std::vector<Float16> got = t.Input<Float16>({2}, {Float16(2.0f), Float16(60000.0f)}).Values<Float16>();
  EXPECT_EQ(got[0].bits, F32ToF16Bits(std::sqrt(2.0f)));
  EXPECT_EQ(got[1].bits, F32ToF16Bits(std::sqrt(static_cast<float>(Float16(60000.0f)))));
}

TEST(PRelu, RefusesASlopeThatIsLarger) {
  OpTester fits("PRelu"), refused("PRelu");
  EXPECT_EQ(fits.Input<float>({2, 2}, {-1, 2, -3, -4}).Input<float>({2}, {10, 0.5f}).Values<float>(),
            (Floats{-10, 2, -30, -2}));
  refused.Input<float>({2}, {1, 2}).Input<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_NE(refused.Error().find("does not broadcast to x"), std::string::npos);
}

TEST(Reduce, FoldsAxes) {
  const Floats x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  struct Row {
    const char* op;
    Floats over_last, over_all;
  };
  const Row rows[] = {{"ReduceSum", {6, 15, 24, 33}, {78}},
                      {"ReduceMean", {2, 5, 8, 11}, {6.5f}},
                      {"ReduceMax", {3, 6, 9, 12}, {12}},
                      {"ReduceMin", {1, 4, 7, 10}, {1}},
                      {"ReduceProd", {6, 120, 504, 1320}, {479001600}},
                      {"ReduceL1", {6, 15, 24, 33}, {78}},
                      {"ReduceSumSquare", {14, 77, 194, 365}, {650}}};
  for (const Row& row : rows) {
    OpTester last(row.op), all(row.op), none(row.op);
    last.Input(Shape{2, 2, 3}, x).Input<int64_t>({1}, {-1}).Attr("keepdims", int64_t{0});
    EXPECT_EQ(last.Values<float>(), row.over_last) << row.op;
    EXPECT_EQ(all.Input(Shape{2, 2, 3}, x).Values<float>(), row.over_all) << row.op;
    none.Input<float>({2}, {2, 3}).Attr("noop_with_empty_axes", int64_t{1});
    EXPECT_EQ(none.Values<float>().size(), 2u) << row.op;
  }
  OpTester middle("ReduceSum", 11);
  middle.Input(Shape{2, 2, 3}, x).Attr("axes", Ints{0, 2});
  EXPECT_EQ(middle.Values<float>(), (Floats{30, 48}));
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  OpTester t("ReduceLogSumExp"), l2("ReduceL2");
  ExpectNear(t.Input<float>({2, 2}, {1000, 1000, -kInf, 3}).Input<int64_t>({1}, {1}).Values<float>(),
             {1000 + std::log(2.0), 3}, 1e-4);
  ExpectNear(l2.Input<float>({2}, {3, 4}).Values<float>(), {5});
}

TEST(Reduce, OverNothingGivesTheNeutralElement) {
  OpTester sum("ReduceSum"), largest("ReduceMax");
  sum.Input<float>({2, 0}, {}).Input<int64_t>({1}, {1});
  EXPECT_EQ(sum.Values<float>(), (Floats{0, 0}));
  largest.Input<float>({2, 0}, {}).Input<int64_t>({1}, {1});
  EXPECT_EQ(largest.Values<float>(), (Floats{-kInf, -kInf}));
}

}  // namespace
}  // namespace quern
