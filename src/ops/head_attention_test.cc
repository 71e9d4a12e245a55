// The attention operators of com.microsoft against plain sums in double.
#include <gmock/gmock.h>

#include <cmath>

#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

constexpr char kDomain[] = "com.microsoft";

// Attention of one sample and one head: rows of q, k and v are `size` wide; bias(i, j) is added to the scores.
template <typename Bias>
std::vector<double> Plain(const Floats& q, const Floats& k, const Floats& v, int size, Bias bias,
                          double virtual_score = -INFINITY) {
  const int queries = static_cast<int>(q.size()) / size, keys = static_cast<int>(k.size()) / size;
  const int width = static_cast<int>(v.size()) / keys;
  std::vector<double> y;
  for (int i = 0; i < queries; ++i) {
    std::vector<double> weights;
    double sum = std::exp(virtual_score);
    for (int j = 0; j < keys; ++j) {
      double score = 0;
      for (int p = 0; p < size; ++p) score += double{q[i * size + p]} * k[j * size + p];
      weights.push_back(std::exp(score / std::sqrt(size) + bias(i, j)));
      sum += weights.back();
    }
    for (int p = 0; p < width; ++p) {
      double mixed = 0;
      for (int j = 0; j < keys; ++j) mixed += weights[j] * v[j * width + p] / sum;
      y.push_back(mixed);
    }
  }
  return y;
}
double NoBias(int, int) { return 0; }

// Attention whose weights pass the input on as query, key and value, one head.
struct Self : OpTester {
  Self(const Floats& x, int size) : OpTester("Attention", 1, kDomain) {
    Floats weights(static_cast<size_t>(size) * 3 * size);
    for (int i = 0; i < size; ++i)
      for (int part = 0; part < 3; ++part) weights[i * 3 * size + part * size + i] = 1;
    Input(Shape{1, static_cast<int64_t>(x.size()) / size, size}, x).Input(Shape{size, 3 * size}, weights).Omit();
    Attr("num_heads", int64_t{1});
  }
};

TEST(PackedAttention, HidesWhatItsMaskHides) {
  const Floats x = TestFloats(4 * 3);
  const auto expect = [&](OpTester& t, auto seen) {
    t.Attr("mask_filter_value", -3.0f);
    ExpectNear(t.Values<float>(), Plain(x, x, x, 3, [&](int i, int j) { return seen(i, j) ? 0 : -3.0; }));
  };
  ExpectNear(Self(x, 3).Values<float>(), Plain(x, x, x, 3, NoBias));
  expect(Self(x, 3).Input<int32_t>({1}, {3}), [](int, int j) { return j < 3; });
  expect(Self(x, 3).Input<int32_t>({2}, {3, 1}), [](int, int j) { return j >= 1 && j < 3; });
  expect(Self(x, 3).Input<int32_t>({5}, {2, 0, 4, 0, 4}), [](int, int j) { return j < 2; });
  expect(Self(x, 3).Input<int32_t>({1, 4}, {1, 0, 0, 1}), [](int, int j) { return j == 0 || j == 3; });
  expect(Self(x, 3).Input<int32_t>({1, 1}, {0}), [](int, int) { return true; });
  Ints rows, square;
  for (int i = 0; i < 16; ++i) rows.push_back(i % 3 == 0);
  for (int i = 0; i < 25; ++i) square.push_back(i % 2);
  expect(Self(x, 3).Input({1, 4, 4}, rows), [](int i, int j) { return (i * 4 + j) % 3 == 0; });
  expect(Self(x, 3).Input({1, 1, 5, 5}, square), [](int i, int j) { return (i * 5 + j) % 2 == 1; });
}

TEST(PackedAttention, GoesOnFromAPast) {
  const Floats x = TestFloats(2 * 2), past = TestFloats(2 * 3 * 2, 7);
  Floats k(past.begin(), past.begin() + 6), v(past.begin() + 6, past.end());
  k.insert(k.end(), x.begin(), x.end());
  v.insert(v.end(), x.begin(), x.end());
  const auto causal = [](int i, int j) { return j > 3 + i ? -INFINITY : 0; };
  Self grows(x, 2);
  grows.Omit().Input({2, 1, 1, 3, 2}, past).Attr("unidirectional", int64_t{1}).Outputs(2);
  const auto grown = grows.Run();
  ASSERT_TRUE(grown.ok()) << grown.status().message();
  const auto y = (*grown)[0].tensor().values<float>(), present = (*grown)[1].tensor().values<float>();
  ExpectNear({y.begin(), y.end()}, Plain(x, k, v, 2, causal));
  Floats joined = k;
  joined.insert(joined.end(), v.begin(), v.end());
  EXPECT_EQ(Floats(present.begin(), present.end()), joined);

  // The same three rows inside a cache of six.
  Floats fixed(2 * 6 * 2, 9.0f);
  std::copy_n(past.begin(), 6, fixed.begin());
  std::copy_n(past.begin() + 6, 6, fixed.begin() + 12);
  Self shares(x, 2);
  shares.Omit().Input({2, 1, 1, 6, 2}, fixed).Omit().Input<int32_t>({1}, {3}).Outputs(2);
  shares.Attr("unidirectional", int64_t{1}).Attr("past_present_share_buffer", int64_t{1});
  const auto shared = shares.Run();
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  const auto same = (*shared)[0].tensor().values<float>(), buffer = (*shared)[1].tensor().values<float>();
  EXPECT_EQ(Floats(same.begin(), same.end()), Floats(y.begin(), y.end()));
  EXPECT_EQ(Floats(buffer.begin(), buffer.begin() + 10), k);
  EXPECT_EQ(Floats(buffer.begin() + 10, buffer.begin() + 12), (Floats{9, 9}));
}

TEST(PackedAttention, RotatesByPosition) {
  const Floats x = TestFloats(3 * 4);
  Floats turned = x;
  for (int s = 0; s < 3; ++s) {
    for (int i = 0; i < 2; ++i) {
      const double angle = s / std::pow(10000.0, i / 2.0), a = x[s * 4 + i], b = x[s * 4 + 2 + i];
      turned[s * 4 + i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
      turned[s * 4 + 2 + i] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
    }
  }
  ExpectNear(Self(x, 4).Attr("do_rotary", int64_t{1}).Values<float>(), Plain(turned, turned, x, 4, NoBias));
}

TEST(PackedAttention, RefusesWhatDoesNotFit) {
  const Floats x = TestFloats(4 * 3);
  EXPECT_THAT(Self(x, 3).Input<int32_t>({4}, {1, 1, 1, 1}).Error(), HasSubstr("the mask 'x3' has shape [4]"));
  EXPECT_THAT(Self(x, 3).Attr("num_heads", int64_t{2}).Error(), HasSubstr("9 columns"));
  EXPECT_THAT(Self(x, 3).Attr("num_heads", int64_t{0}).Error(), HasSubstr("positive number of heads"));
  EXPECT_THAT(Self(x, 3).Attr("qkv_hidden_sizes", std::vector<int64_t>{3, 3, 4}).Error(), HasSubstr("[3, 3, 4]"));
  EXPECT_THAT(Self(x, 3).Attr("do_rotary", int64_t{1}).Error(), HasSubstr("heads of 3 elements"));
  Self shares(x, 3);
  shares.Omit().Input({2, 1, 1, 5, 3}, TestFloats(30)).Omit().Input<int32_t>({1}, {2});
  shares.Attr("past_present_share_buffer", int64_t{1});
  EXPECT_THAT(shares.Error(), HasSubstr("past_sequence_length is 2 but the cache has 5 rows"));
  Self past(x, 3);
  EXPECT_THAT(past.Omit().Input({2, 1, 1, 2, 2}, TestFloats(8)).Error(), HasSubstr("[2,1,1,"));
}

TEST(QAttention, DequantizesItsProjection) {
  // x = (q - 2) / 2, weights (w - 1) * scale per column: each column passes one element on.
  const std::vector<uint8_t> q = {4, 1, 3, 7};
  const std::vector<int8_t> w = {3, 1, 2, 1, 1, 1, 1, 3, 1, 2, 1, 1};
  const Floats scale = {0.5f, 0.5f, 1, 1, 1, 1}, bias = {0, 0, 0, 0, 0.25f, 0.5f};
  const Floats x = {1, -0.5f, 0.5f, 2.5f};
  const Floats v = {0.25f, 0.5f, 0.25f, 0.5f};
  OpTester t("QAttention", 1, kDomain);
  t.Input({1, 2, 2}, q).Input({2, 6}, w).Input({6}, bias).Input<float>({}, {0.5f}).Input({6}, scale).Omit();
  t.Input<uint8_t>({}, {2}).Input<int8_t>({1}, {1}).Attr("num_heads", int64_t{1});
  ExpectNear(t.Values<float>(), Plain(x, x, v, 2, NoBias));
}

TEST(MultiHeadAttention, TakesPackedInputs) {
  const Floats q = TestFloats(3 * 2), k = TestFloats(4 * 2, 3), v = TestFloats(4 * 2, 5);
  Floats kv, qkv;
  for (int s = 0; s < 4; ++s) {
    kv.insert(kv.end(), k.begin() + 2 * s, k.begin() + 2 * s + 2);
    kv.insert(kv.end(), v.begin() + 2 * s, v.begin() + 2 * s + 2);
  }
  struct Tester : OpTester {
    Tester() : OpTester("MultiHeadAttention", 1, kDomain) { Attr("num_heads", int64_t{1}); }
  };
  const std::vector<double> want = Plain(q, k, v, 2, NoBias);
  ExpectNear(Tester().Input({1, 3, 2}, q).Input({1, 4, 2}, k).Input({1, 4, 2}, v).Values<float>(), want);
  ExpectNear(Tester().Input({1, 3, 2}, q).Input({1, 1, 4, 2}, k).Input({1, 1, 4, 2}, v).Values<float>(), want);
  ExpectNear(Tester().Input({1, 3, 2}, q).Input({1, 4, 1, 2, 2}, kv).Values<float>(), want);
  for (int s = 0; s < 4; ++s)
    for (const Floats* part : {&k, &v, &k}) qkv.insert(qkv.end(), part->begin() + 2 * s, part->begin() + 2 * s + 2);
  ExpectNear(Tester().Input({1, 4, 1, 3, 2}, qkv).Values<float>(), Plain(k, v, k, 2, NoBias));
  EXPECT_THAT(Tester().Input({1, 4, 1, 3, 2}, qkv).Input({1, 4, 2}, k).Error(), HasSubstr("neither key nor value"));
  EXPECT_THAT(Tester().Input({1, 3, 2}, q).Error(), HasSubstr("needs the input 'key'"));
  EXPECT_THAT(Tester().Input({1, 3, 2}, q).Input({1, 4, 2}, k).Input({1, 3, 2}, q).Error(), HasSubstr("'x2'"));
}

TEST(MultiHeadAttention, UsesACacheOfFixedSize) {
  const Floats q = TestFloats(2), cache = TestFloats(4 * 2, 9);
  OpTester t("MultiHeadAttention", 1, kDomain);
  t.Input({1, 1, 2}, q).Input({1, 1, 2}, q).Input({1, 1, 2}, q).Omit().Omit().Omit();
  t.Input({1, 1, 4, 2}, cache).Input({1, 1, 4, 2}, cache).Input<int32_t>({1}, {2}).Outputs(2);
  t.Attr("num_heads", int64_t{1});
  const auto result = t.Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  Floats rows(cache.begin(), cache.begin() + 4);
  rows.insert(rows.end(), q.begin(), q.end());
  const auto y = (*result)[0].tensor().values<float>(), present = (*result)[1].tensor().values<float>();
  ExpectNear({y.begin(), y.end()}, Plain(q, rows, rows, 2, NoBias));
  rows.insert(rows.end(), cache.end() - 2, cache.end());
  EXPECT_EQ(Floats(present.begin(), present.end()), rows);
}

// A step of one token after three, heads of two elements, two query heads to one of keys.
struct Step : OpTester {
  Step(const Floats& q, const Floats& k, const Floats& past, int32_t length, int32_t total)
      : OpTester("GroupQueryAttention", 1, kDomain) {
    const Shape cache = {1, 1, static_cast<int64_t>(past.size()) / 2, 2};
    Input({1, 1, 4}, q).Input({1, 1, 2}, k).Input({1, 1, 2}, k).Input(cache, past).Input(cache, past);
    Input<int32_t>({1}, {length - 1}).Input<int32_t>({1}, {total});
    Attr("num_heads", int64_t{2}).Attr("kv_num_heads", int64_t{1});
  }
};

TEST(GroupQueryAttention, SharesKeysBetweenHeads) {
  const Floats q = TestFloats(4), k = TestFloats(2, 3), past = TestFloats(5 * 2, 5);
  Floats rows(past.begin(), past.begin() + 6);
  rows.insert(rows.end(), k.begin(), k.end());
  const auto both = [&](auto bias, double virtual_score = -INFINITY) {
    std::vector<double> y;
    for (int h = 0; h < 2; ++h) {
      const Floats head(q.begin() + 2 * h, q.begin() + 2 * h + 2);
      const std::vector<double> part = Plain(head, rows, rows, 2, bias, virtual_score);
      y.insert(y.end(), part.begin(), part.end());
    }
    return y;
  };
  ExpectNear(Step(q, k, past, 4, 4).Values<float>(), both(NoBias));
  ExpectNear(Step(q, k, past, 4, 4).Attr("local_window_size", int64_t{2}).Values<float>(),
             both([](int, int j) { return j < 2 ? -INFINITY : 0; }));
  ExpectNear(Step(q, k, past, 4, 4).Attr("smooth_softmax", int64_t{1}).Values<float>(), both(NoBias, 0));
  Step sink(q, k, past, 4, 4);
  sink.Omit().Omit().Omit().Omit().Input<float>({2}, {0.5f, 0.5f});
  ExpectNear(sink.Values<float>(), both(NoBias, 0.5));
  Step cache(q, k, past, 4, 4);
  const auto result = cache.Outputs(2).Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  rows.insert(rows.end(), {0, 0});
  const auto present = (*result)[1].tensor().values<float>();
  EXPECT_EQ(Floats(present.begin(), present.end()), rows);
}

TEST(GroupQueryAttention, SlidesItsCache) {
  // A cache of three rows and a window of two: the fourth token makes it drop two at once.
  const Floats q = TestFloats(4), k = TestFloats(2, 3), past = TestFloats(3 * 2, 5);
  Step t(q, k, past, 4, 4);
  t.Attr("local_window_size", int64_t{2}).Attr("sliding_window_cache", int64_t{1});
  const auto result = t.Outputs(3).Run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  Floats rows(past.begin() + 4, past.end());
  rows.insert(rows.end(), k.begin(), k.end());
  std::vector<double> want;
  for (int h = 0; h < 2; ++h) {
    const std::vector<double> part = Plain({q.begin() + 2 * h, q.begin() + 2 * h + 2}, rows, rows, 2, NoBias);
    want.insert(want.end(), part.begin(), part.end());
  }
  rows.insert(rows.end(), {0, 0});
  const auto y = (*result)[0].tensor().values<float>(), present = (*result)[2].tensor().values<float>();
  ExpectNear({y.begin(), y.end()}, want);
  EXPECT_EQ(Floats(present.begin(), present.end()), rows);

  Step narrow(q, k, past, 4, 4);
  narrow.Attr("local_window_size", int64_t{4}).Attr("sliding_window_cache", int64_t{1});
  EXPECT_THAT(narrow.Error(), HasSubstr("3 rows, fewer than 'local_window_size' = 4"));
}

TEST(GroupQueryAttention, RefusesWhatDoesNotFit) {
  const Floats q = TestFloats(4), k = TestFloats(2, 3), past = TestFloats(5 * 2, 5);
  EXPECT_THAT(Step(q, k, past, 9, 4).Error(), HasSubstr("seqlens_k has the entry 8"));
  EXPECT_THAT(Step(q, k, past, 0, 4).Error(), HasSubstr("seqlens_k has the entry -1"));
  EXPECT_THAT(Step(q, k, past, 7, 9).Error(), HasSubstr("a cache of 5 rows"));
  EXPECT_THAT(Step(q, k, past, 1, 0).Error(), HasSubstr("total_sequence_length is 0"));
  EXPECT_THAT(Step(q, k, past, 1 << 30, 1 << 30).Error(), HasSubstr("seqlens_k"));
  EXPECT_THAT(Step(q, k, past, 4, 4).Attr("kv_num_heads", int64_t{3}).Error(), HasSubstr("does not divide"));
  EXPECT_THAT(Step(q, k, past, 4, 4).Attr("local_window_size", int64_t{0}).Error(), HasSubstr("local_window_size"));
  EXPECT_THAT(Step(q, k, past, 4, 4).Attr("do_rotary", int64_t{1}).Error(), HasSubstr("cos_cache"));
  EXPECT_THAT(Step(q, k, past, 4, 4).Attr("k_quant_type", std::string("PER_TENSOR")).Error(), HasSubstr("quantized"));
  Step t(q, k, past, 4, 4);
  t.Input<float>({3, 1}, {1, 1, 1}).Input<float>({3, 1}, {0, 0, 0}).Attr("do_rotary", int64_t{1});
  EXPECT_THAT(t.Error(), HasSubstr("position 3 is outside"));
}

TEST(GroupQueryAttention, NormalizesQueriesAndKeys) {
  const Floats q = TestFloats(4), k = TestFloats(2, 3), past = TestFloats(3 * 2, 5), weight = {0.5f, 2};
  const auto normalized = [&](Floats x) {
    const double mean = (double{x[0]} * x[0] + double{x[1]} * x[1]) / 2;
    for (int p = 0; p < 2; ++p) x[p] = static_cast<float>(x[p] / std::sqrt(mean + 1e-6) * weight[p]);
    return x;
  };
  Floats keys = past, values = past;
  const Floats key = normalized(k);
  keys.insert(keys.end(), key.begin(), key.end());
  values.insert(values.end(), k.begin(), k.end());
  std::vector<double> want;
  for (int h = 0; h < 2; ++h) {
    const auto part = Plain(normalized({q.begin() + 2 * h, q.begin() + 2 * h + 2}), keys, values, 2, NoBias);
    want.insert(want.end(), part.begin(), part.end());
  }
  Step t(q, k, past, 4, 4);
  t.Omit().Omit().Omit().Omit().Omit().Omit().Omit().Input({2}, weight).Input({2}, weight);
  ExpectNear(t.Values<float>(), want);
}

TEST(MicrosoftRotaryEmbedding, TurnsPairs) {
  struct Tester : OpTester {
    Tester(const Shape& shape, const Floats& x, const std::vector<int64_t>& positions, const Shape& positions_shape)
        : OpTester("RotaryEmbedding", 1, kDomain) {
      Input(shape, x).Input(positions_shape, positions);
      Input<float>({3, 1}, {1, 0.6f, 0}).Input<float>({3, 1}, {0, 0.8f, 1});
    }
  };
  // Heads of two elements, as wide as the caches tell.
  ExpectNear(Tester({1, 2, 4}, {1, 0, 0, 1, 1, 0, 0, 1}, {1}, {1}).Values<float>(), {0.6, 0.8, -0.8, 0.6, 0, 1, -1, 0});
  ExpectNear(Tester({1, 2, 2, 2}, {1, 0, 0, 1, 1, 0, 0, 1}, {2, 0}, {1, 2}).Values<float>(), {0, 1, 0, 1, 0, 1, 0, 1});
  // Half of a head, side by side.
  Tester part({1, 1, 4}, {1, 2, 3, 4}, {2}, {1});
  part.Attr("rotary_embedding_dim", int64_t{2}).Attr("num_heads", int64_t{1}).Attr("interleaved", int64_t{1});
  ExpectNear(part.Values<float>(), {-2, 1, 3, 4});
  EXPECT_THAT(Tester({1, 2, 4}, TestFloats(8), {2}, {1}).Error(), HasSubstr("position 2 + 1 is outside"));
  EXPECT_THAT(Tester({1, 1, 4}, TestFloats(4), {-1}, {1}).Error(), HasSubstr("position -1 is outside"));
  EXPECT_THAT(Tester({1, 1, 3}, TestFloats(3), {0}, {1}).Error(), HasSubstr("not made of heads"));
  EXPECT_THAT(Tester({1, 1, 4}, TestFloats(4), {0, 0}, {2}).Error(), HasSubstr("position_ids has shape [2]"));
}

TEST(PackedAttention, ComputesSmallFloatsInFloat) {
  const Floats x = TestFloats(4 * 3), weights = TestFloats(3 * 9, 5);
  std::vector<BFloat16> small_x, small_weights;
  Floats wide_x, wide_weights;
  for (const float v : x) small_x.emplace_back(v), wide_x.push_back(static_cast<float>(small_x.back()));
  for (const float v : weights) small_weights.emplace_back(v), wide_weights.push_back(float(small_weights.back()));
  OpTester small("Attention", 1, kDomain), wide("Attention", 1, kDomain);
  small.Input({1, 4, 3}, small_x).Input({3, 9}, small_weights).Attr("num_heads", int64_t{3});
  wide.Input({1, 4, 3}, wide_x).Input({3, 9}, wide_weights).Attr("num_heads", int64_t{3});
  const std::vector<BFloat16> got = small.Values<BFloat16>();
  const Floats want = wide.Values<float>();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(float(got[i]), float(BFloat16(want[i])));
}

// The types of a node's outputs for inputs of given types; one without a type is left out.
std::vector<std::string> Infer(const std::string& op, std::map<std::string, Attribute, std::less<>> attributes,
                               const std::vector<ValueType>& inputs, int outputs) {
  Graph graph;
  graph.opset_imports = {{"", 21}, {kDomain, 1}};
  NodeSpec spec;
  spec.op_type = op;
  spec.domain = kDomain;
  spec.name = "n";
  spec.attributes = std::move(attributes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool given = inputs[i].dtype != DType::kUndefined;
    spec.inputs.push_back(given ? graph.AddInput("x" + std::to_string(i), inputs[i]) : nullptr);
  }
  for (int i = 0; i < outputs; ++i) spec.outputs.push_back("y" + std::to_string(i));
  if (op == "GroupQueryAttention") {  // the total length is that of a mask
    NodeSpec shape;
    shape.op_type = "Shape";
    shape.name = "shape";
    shape.attributes = {{"start", int64_t{1}}};
    shape.inputs = {graph.AddInput("mask", ValueType::Tensor(DType::kI64, Dims{1, Dim::Symbol("total")}))};
    shape.outputs = {"long"};
    NodeSpec cast;
    cast.op_type = "Cast";
    cast.name = "cast";
    cast.attributes = {{"to", int64_t{6}}};
    cast.inputs = {graph.AddNode(shape)->output(0)};
    cast.outputs = {"int"};
    spec.inputs[6] = graph.AddNode(cast)->output(0);
  }
  Node* node = graph.AddNode(spec);
  for (int i = 0; i < outputs; ++i) graph.AddOutput(node->output(i));
  const Status status = InferShapes(graph);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::string> types;
  for (int i = 0; i < outputs; ++i) types.push_back(TypeToString(node->output(i)->type()));
  return types;
}

TEST(HeadAttention, InfersSymbols) {
  const auto f32 = [](Dims dims) { return ValueType::Tensor(DType::kF32, std::move(dims)); };
  const auto i32 = [](Dims dims) { return ValueType::Tensor(DType::kI32, std::move(dims)); };
  const Dim b = Dim::Symbol("b"), s = Dim::Symbol("s"), p = Dim::Symbol("p");
  EXPECT_THAT(Infer("Attention", {{"num_heads", int64_t{2}}},
                    {f32({b, s, 8}), f32({8, 24}), {}, i32({b, s + p}), f32({2, b, 2, p, 4})}, 2),
              testing::ElementsAre("f32[b,s,8]", "f32[2,b,2,p + s,4]"));
  EXPECT_THAT(
      Infer("MultiHeadAttention", {{"num_heads", int64_t{2}}},
            {f32({b, s, 8}), f32({b, s, 8}), f32({b, s, 6}), {}, {}, {}, f32({b, 2, p, 4}), f32({b, 2, p, 3})}, 4),
      testing::ElementsAre("f32[b,s,6]", "f32[b,2,p + s,4]", "f32[b,2,p + s,3]", "f32[b,2,s,p + s]"));
  EXPECT_THAT(Infer("GroupQueryAttention", {{"num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}},
                    {f32({b, s, 32}), {}, {}, f32({b, 2, p, 4}), f32({b, 2, p, 4}), i32({b}), {}}, 2),
              testing::ElementsAre("f32[b,s,16]", "f32[b,2,max(p, total),4]"));
}

}  // namespace
}  // namespace quern
