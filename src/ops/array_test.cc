// Operators that choose, count and combine entries of arrays: Unique, Compress, TensorScatter, EyeLike, Det, CumProd.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using F = std::vector<float>;
using I = std::vector<int64_t>;
using S = std::vector<std::string>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor Bools(const Shape& shape, const std::vector<int>& values) {
  const Tensor t = Tensor::Allocate(DType::kBool, shape).value();
  for (size_t i = 0; i < values.size(); ++i) t.data<bool>()[i] = values[i] != 0;
  return t;
}

I Numbers(const Value& v) {
  const auto values = v.tensor().values<int64_t>();
  return {values.begin(), values.end()};
}

struct Distinct {
  Shape shape;
  F values;
  I first, inverse, counts;
};
Distinct RunUnique(const Shape& shape, const F& x, std::optional<int64_t> axis, int64_t sorted) {
  OpTester t("Unique", 11);
  t.Input(shape, x).Attr("sorted", sorted).Outputs(4);
  if (axis) t.Attr("axis", *axis);
  const auto result = t.Run();
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok()) return {};
  const auto values = (*result)[0].tensor().values<float>();
  return {(*result)[0].tensor().shape(), F(values.begin(), values.end()), Numbers((*result)[1]), Numbers((*result)[2]),
          Numbers((*result)[3])};
}

TEST(Unique, FindsElements) {
  const Distinct sorted = RunUnique({2, 3}, {2, 1, 1, 3, 4, 3}, std::nullopt, 1);
  EXPECT_THAT(sorted.values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(sorted.first, ElementsAre(1, 0, 3, 4));
  EXPECT_THAT(sorted.inverse, ElementsAre(1, 0, 0, 2, 3, 2));
  EXPECT_THAT(sorted.counts, ElementsAre(2, 1, 2, 1));
  const Distinct placed = RunUnique({2, 3}, {2, 1, 1, 3, 4, 3}, std::nullopt, 0);
  EXPECT_THAT(placed.values, ElementsAre(2, 1, 3, 4));
  EXPECT_THAT(placed.first, ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(placed.inverse, ElementsAre(0, 1, 1, 2, 3, 2));
  EXPECT_THAT(placed.counts, ElementsAre(1, 2, 2, 1));
}

TEST(Unique, FindsManyElements) {
  F x;
  for (int i = 0; i < 500; ++i) x.push_back(i % 50 == 7 ? kNan : i % 50 == 9 ? -0.0f : static_cast<float>(i % 25 - 12));
  const Distinct sorted = RunUnique({500}, x, std::nullopt, 1);
  ASSERT_EQ(sorted.values.size(), 26u);  // -12 to 12 and NaN
  for (size_t g = 0; g < 26; ++g) {
    const float value = sorted.values[g];
    if (g < 25) {
      EXPECT_EQ(value, static_cast<float>(g) - 12.0f);
    } else {
      EXPECT_NE(value, value);
    }
    int64_t first = -1, count = 0;
    for (int64_t i = 0; i < 500; ++i) {
      const float v = x[static_cast<size_t>(i)];
      if (v != value && (v == v || value == value)) continue;
      if (count++ == 0) first = i;
      EXPECT_EQ(sorted.inverse[static_cast<size_t>(i)], static_cast<int64_t>(g));
    }
    EXPECT_EQ(sorted.first[g], first);
    EXPECT_EQ(sorted.counts[g], count);
  }
}

TEST(Unique, FindsSlices) {
  const Distinct rows = RunUnique({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4}, 0, 1);
  EXPECT_EQ(rows.shape, (Shape{2, 3}));
  EXPECT_THAT(rows.values, ElementsAre(1, 0, 0, 2, 3, 4));
  EXPECT_THAT(rows.first, ElementsAre(0, 2));
  EXPECT_THAT(rows.inverse, ElementsAre(0, 0, 1));
  EXPECT_THAT(rows.counts, ElementsAre(2, 1));
  const Distinct middle = RunUnique({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1}, -2, 1);
  EXPECT_EQ(middle.shape, (Shape{2, 3, 2}));
  EXPECT_THAT(middle.values, ElementsAre(0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1));
  EXPECT_THAT(middle.first, ElementsAre(1, 0, 2));
  EXPECT_THAT(middle.inverse, ElementsAre(1, 0, 2, 0));
  EXPECT_THAT(middle.counts, ElementsAre(2, 1, 1));
  const Distinct columns = RunUnique({2, 3}, {5, 1, 5, 7, 1, 7}, 1, 0);
  EXPECT_THAT(columns.values, ElementsAre(5, 1, 7, 1));
  EXPECT_THAT(columns.inverse, ElementsAre(0, 1, 0));
}

TEST(Unique, OrdersNanLastAndTakesItForOneValue) {
  const Distinct d = RunUnique({5}, {kNan, 2, kNan, -0.0f, 0}, std::nullopt, 1);
  ASSERT_EQ(d.values.size(), 3u);
  EXPECT_TRUE(std::isnan(d.values[2]));
  EXPECT_THAT(d.first, ElementsAre(3, 1, 0));
  EXPECT_THAT(d.counts, ElementsAre(2, 1, 2));
}

TEST(Unique, TakesEveryType) {
  OpTester words("Unique", 11), bits("Unique", 11), half("Unique", 28), complex("Unique", 11);
  const auto result = words.Input(StringTensor{{4}, {"b", "a", "", "b"}}).Outputs(2).Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ((*result)[0].strings().values, (S{"", "a", "b"}));
  EXPECT_THAT(Numbers((*result)[1]), ElementsAre(2, 1, 0));
  EXPECT_THAT(bits.Input(Bools({3}, {1, 0, 1})).Values<bool>(), ElementsAre(false, true));
  const std::vector<BFloat16> x = {BFloat16(2.0f), BFloat16(-1.0f), BFloat16(2.0f)};
  EXPECT_EQ(half.Input(Shape{3}, x).Values<BFloat16>().size(), 2u);
  const Tensor pairs = Tensor::Allocate(DType::kC64, {3}).value();
  const F parts = {1, 5, 1, -5, 1, 5};
  std::copy(parts.begin(), parts.end(), static_cast<float*>(pairs.raw_data()));
  const auto sorted = complex.Input(pairs).Outputs(4).Run();
  ASSERT_TRUE(sorted.ok()) << sorted.status().message();
  EXPECT_THAT(Numbers((*sorted)[1]), ElementsAre(1, 0));
  EXPECT_THAT(Numbers((*sorted)[3]), ElementsAre(1, 2));
}

TEST(Unique, OfNothingIsNothing) {
  EXPECT_EQ(RunUnique({0}, {}, std::nullopt, 1).shape, Shape{0});
  EXPECT_EQ(RunUnique({0, 3}, {}, 0, 0).shape, (Shape{0, 3}));
  OpTester slices("Unique", 11), axis("Unique", 11);
  EXPECT_THAT(slices.Input(Shape{3, 0}, F{}).Attr("axis", int64_t{0}).Error(), HasSubstr("no elements"));
  EXPECT_THAT(axis.Input(Shape{3}, F{1, 2, 3}).Attr("axis", int64_t{1}).Error(), HasSubstr("axis 1 is outside"));
}

TEST(Compress, ChoosesSlicesOrElements) {
  const F x = {1, 2, 3, 4, 5, 6};
  OpTester rows("Compress", 9), columns("Compress", 11), elements("Compress", 11);
  rows.Input(Shape{3, 2}, x).Input(Bools({3}, {0, 1, 1})).Attr("axis", int64_t{0});
  EXPECT_THAT(rows.Values<float>(), ElementsAre(3, 4, 5, 6));
  columns.Input(Shape{3, 2}, x).Input(Bools({2}, {0, 1})).Attr("axis", int64_t{-1});
  EXPECT_THAT(columns.Values<float>(), ElementsAre(2, 4, 6));
  EXPECT_THAT(elements.Input(Shape{3, 2}, x).Input(Bools({5}, {0, 1, 0, 0, 1})).Values<float>(), ElementsAre(2, 5));
  OpTester beyond("Compress", 11), matrix("Compress", 11), spare("Compress", 11);
  EXPECT_THAT(beyond.Input(Shape{2}, F{1, 2}).Input(Bools({3}, {0, 0, 1})).Error(), HasSubstr("true at 2"));
  EXPECT_THAT(matrix.Input(Shape{2}, F{1, 2}).Input(Bools({1, 2}, {0, 0})).Error(), HasSubstr("one dimension"));
  EXPECT_THAT(spare.Input(Shape{2}, F{1, 2}).Input(Bools({3}, {1, 0, 0})).Values<float>(), ElementsAre(1));
}

TEST(Compress, InfersTheCountOfAConstantCondition) {
  Graph g;
  g.opset_imports[""] = 28;
  const Dim n = Dim::Symbol("n");
  GraphValue* x = g.AddInput("x", ValueType::Tensor(DType::kBF16, Dims{n, 3}));
  GraphValue* condition = g.AddConstant("c", Bools({3}, {1, 0, 1}));
  Node* node = g.AddNode({.op_type = "Compress",
                          .inputs = {x, condition},
                          .outputs = {"y"},
                          .attributes = {{"axis", Attribute(int64_t{1})}}});
  g.AddOutput(node->output(0));
  ASSERT_TRUE(InferShapes(g).ok());
  EXPECT_EQ(*node->output(0)->type().shape, (Dims{n, 2}));
}

TEST(TensorScatter, WritesFromEachIndexOn) {
  const F cache = {1, 2, 3, 4, 5, 6, 7, 8}, update = {10, 20, 30, 40};  // [2, 4, 1] and [2, 2, 1]
  OpTester first("TensorScatter", 24), linear("TensorScatter", 24), circular("TensorScatter", 24);
  first.Input(Shape{2, 4, 1}, cache).Input(Shape{2, 2, 1}, update);
  EXPECT_THAT(first.Values<float>(), ElementsAre(10, 20, 3, 4, 30, 40, 7, 8));
  linear.Input(Shape{2, 4, 1}, cache).Input(Shape{2, 2, 1}, update).Input(Shape{2}, I{1, 2});
  EXPECT_THAT(linear.Values<float>(), ElementsAre(1, 10, 20, 4, 5, 6, 30, 40));
  circular.Input(Shape{2, 4, 1}, cache).Input(Shape{2, 2, 1}, update).Input(Shape{2}, I{3, 6});
  circular.Attr("mode", std::string("circular"));
  EXPECT_THAT(circular.Values<float>(), ElementsAre(20, 2, 3, 10, 5, 6, 30, 40));
  OpTester last("TensorScatter", 24);  // along the last axis, below a dimension between
  last.Input(Shape{1, 2, 3}, F{1, 2, 3, 4, 5, 6}).Input(Shape{1, 2, 1}, F{9, 8}).Input(Shape{1}, I{2});
  EXPECT_THAT(last.Attr("axis", int64_t{-1}).Values<float>(), ElementsAre(1, 2, 9, 4, 5, 8));
}

TEST(TensorScatter, NamesWhatDoesNotFit) {
  const auto run = [](const Shape& update, I indices, int64_t axis, const std::string& mode) {
    OpTester t("TensorScatter", 24);
    t.Input(Shape{2, 3}, TestFloats(6)).Input(update, TestFloats(update.num_elements()));
    t.Input(Shape{static_cast<int64_t>(indices.size())}, indices).Attr("axis", axis).Attr("mode", mode);
    return t.Error();
  };
  EXPECT_THAT(run({2, 2}, {0, 2}, 1, "linear"), HasSubstr("write index 2"));
  EXPECT_THAT(run({2, 2}, {0, -1}, 1, "circular"), HasSubstr("write index -1"));
  EXPECT_THAT(run({2, 4}, {0, 0}, 1, "circular"), HasSubstr("does not fit"));
  EXPECT_THAT(run({1, 2}, {0, 0}, 1, "linear"), HasSubstr("does not fit"));
  EXPECT_THAT(run({2, 2}, {0}, 1, "linear"), HasSubstr("2 indices are needed"));
  EXPECT_THAT(run({2, 2}, {0, 0}, 0, "linear"), HasSubstr("which is the batch"));
  EXPECT_THAT(run({2, 2}, {0, 0}, 1, "ring"), HasSubstr("mode 'ring'"));
}

TEST(EyeLike, PutsOnesOnADiagonal) {
  const auto run = [](const Shape& shape, int64_t k) {
    OpTester t("EyeLike", 9);
    t.Input(shape, std::vector<int32_t>(static_cast<size_t>(shape.num_elements()), 7)).Attr("k", k);
    return t.Values<int32_t>();
  };
  EXPECT_THAT(run({2, 3}, 0), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THAT(run({2, 3}, 2), ElementsAre(0, 0, 1, 0, 0, 0));
  EXPECT_THAT(run({3, 2}, -1), ElementsAre(0, 0, 1, 0, 0, 1));
  EXPECT_THAT(run({1, 2}, std::numeric_limits<int64_t>::max()), ElementsAre(0, 0));
  EXPECT_THAT(run({2, 1}, std::numeric_limits<int64_t>::min()), ElementsAre(0, 0));
  OpTester typed("EyeLike", 22), text("EyeLike", 9), line("EyeLike", 9);
  const std::vector<BFloat16> y = typed.Input(Shape{1, 1}, F{0}).Attr("dtype", int64_t{16}).Values<BFloat16>();
  EXPECT_EQ(static_cast<float>(y.at(0)), 1.0f);
  EXPECT_THAT(text.Input(Shape{1, 1}, F{0}).Attr("dtype", int64_t{8}).Error(), HasSubstr("'dtype' is 8"));
  EXPECT_THAT(line.Input(Shape{2}, F{0, 0}).Error(), HasSubstr("a matrix is needed"));
}

TEST(Det, EliminatesWithPivots) {
  OpTester one("Det", 11), batch("Det", 22), none("Det", 11), empty("Det", 11);
  EXPECT_THAT(one.Input(Shape{2, 2}, F{0, 1, 2, 3}).Values<float>(), ElementsAre(-2));
  batch.Input(Shape{3, 3, 3}, F{0, 2, 1, 1, 0, 3, 2, 1, 0, 1, 2, 3, 2, 4, 6, 1, 0, 5, 2, 0, 0, 0, 3, 0, 0, 0, 4});
  ExpectNear(batch.Values<float>(), {13, 0, 24});
  EXPECT_THAT(none.Input(Shape{2, 0, 0}, F{}).Values<float>(), ElementsAre(1, 1));
  EXPECT_THAT(empty.Input(Shape{2, 3}, TestFloats(6)).Error(), HasSubstr("square"));
  // Against the sum over permutations.
  const F x = TestFloats(25);
  std::vector<int> order = {0, 1, 2, 3, 4};
  double want = 0;
  do {
    double product = 1;
    for (int i = 0; i < 5; ++i) {
      product *= x[static_cast<size_t>(5 * i + order[static_cast<size_t>(i)])];
      for (int j = 0; j < i; ++j) {
        if (order[static_cast<size_t>(j)] > order[static_cast<size_t>(i)]) product = -product;
      }
    }
    want += product;
  } while (std::next_permutation(order.begin(), order.end()));
  OpTester large("Det", 22);
  ExpectNear(large.Input(Shape{5, 5}, x).Values<float>(), {want});
}

TEST(CumProd, MultipliesUpToEachElement) {
  const auto run = [](int64_t exclusive, int64_t reverse) {
    OpTester t("CumProd", 26);
    t.Input(Shape{2, 3}, F{1, 2, 3, 4, 5, 6}).Input(Shape{}, I{-1});
    return t.Attr("exclusive", exclusive).Attr("reverse", reverse).Values<float>();
  };
  EXPECT_THAT(run(0, 0), ElementsAre(1, 2, 6, 4, 20, 120));
  EXPECT_THAT(run(1, 0), ElementsAre(1, 1, 2, 1, 4, 20));
  EXPECT_THAT(run(0, 1), ElementsAre(6, 6, 3, 120, 30, 6));
  EXPECT_THAT(run(1, 1), ElementsAre(6, 3, 1, 30, 6, 1));
  OpTester wraps("CumProd", 26), empty("CumProd", 26), outside("CumProd", 26);
  wraps.Input<int32_t>({3}, {65536, 65536, -1}).Input<int32_t>({}, {0});
  EXPECT_THAT(wraps.Values<int32_t>(), ElementsAre(65536, 0, 0));
  EXPECT_THAT(empty.Input(Shape{2, 0}, F{}).Input(Shape{}, I{1}).Values<float>(), ElementsAre());
  EXPECT_THAT(outside.Input(Shape{2}, F{1, 2}).Input(Shape{}, I{1}).Error(), HasSubstr("axis 1 is outside"));
}

}  // namespace
}  // namespace quern
