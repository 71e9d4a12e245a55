// Operators of ai.onnx.ml that prepare features and labels; expected values by hand from the specification.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

#include "graph/type.h"
#include "ops/common/op_tester.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using F = std::vector<float>;
using D = std::vector<double>;
using I = std::vector<int64_t>;
using S = std::vector<std::string>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

OpTester Ml(const std::string& op, int version = 1) { return OpTester(op, version, "ai.onnx.ml"); }
StringTensor Strings(const Shape& shape, const S& values) { return {shape, values}; }
S StringsOf(OpTester& t, int i = 0) {
  const Result<std::vector<Value>> outputs = t.Run();
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? (*outputs)[i].strings().values : S();
}
Shape ShapeOfFirst(OpTester& t) {
  const Result<std::vector<Value>> outputs = t.Run();
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? (*outputs)[0].tensor().shape() : Shape();
}
// The type that inference gives for input types written as text.
std::string Inferred(const std::string& op, int version, const ValueType& input,
                     std::map<std::string, Attribute, std::less<>> attributes = {}) {
  Graph graph;
  graph.opset_imports["ai.onnx.ml"] = version;
  NodeSpec spec{.name = "n", .domain = "ai.onnx.ml", .op_type = op};
  spec.inputs = {graph.AddInput("x", input)};
  spec.outputs = {"y"};
  spec.attributes = std::move(attributes);
  Node* node = graph.AddNode(std::move(spec));
  const Status status = InferShapes(graph);
  return status.ok() ? TypeToString(node->output(0)->type()) : status.message();
}
ValueType Rows(DType dtype) { return ValueType::Tensor(dtype, Dims{Dim::Symbol("n"), Dim(3)}); }

template <typename Key>
Value MapOf(std::map<Key, Value> entries) {
  return Value::Map(ValueMap{std::move(entries)});
}
Value Text(const std::string& text) { return StringTensor{Shape{}, {text}}; }

TEST(ArrayFeatureExtractor, TakesColumns) {
  OpTester t = Ml("ArrayFeatureExtractor");
  t.Input(Shape{2, 3}, F{1, 2, 3, 4, 5, 6}).Input(Shape{2}, I{2, 0});
  EXPECT_EQ(t.Values<float>(), (F{3, 1, 6, 4}));
  OpTester vector = Ml("ArrayFeatureExtractor");
  vector.Input(Shape{3}, I{7, 8, 9}).Input(Shape{1, 2}, I{1, 1});
  EXPECT_EQ(ShapeOfFirst(vector), (Shape{1, 2}));
  OpTester words = Ml("ArrayFeatureExtractor");
  words.Input(Strings({1, 2}, {"a", "b"})).Input(Shape{1}, I{1});
  EXPECT_EQ(StringsOf(words), S{"b"});
  EXPECT_THAT(Ml("ArrayFeatureExtractor").Input(Shape{2}, F{1, 2}).Input(Shape{1}, I{2}).Error(),
              HasSubstr("index 2 is outside [0, 1]"));
  EXPECT_THAT(Ml("ArrayFeatureExtractor").Input(Shape{2}, F{1, 2}).Input(Shape{1}, I{-1}).Error(),
              HasSubstr("index -1 is outside"));
  EXPECT_THAT(Ml("ArrayFeatureExtractor").Input(Shape{}, F{1}).Input(Shape{1}, I{0}).Error(), HasSubstr("scalar"));
}

TEST(Binarizer, AboveTheThreshold) {
  OpTester t = Ml("Binarizer");
  EXPECT_EQ(t.Input(Shape{2, 2}, F{1, 1.5, -2, kNan}).Attr("threshold", 1.0f).Values<float>(), (F{0, 1, 0, 0}));
  OpTester ints = Ml("Binarizer");
  EXPECT_EQ(ints.Input(Shape{3}, I{-1, 0, 5}).Values<int64_t>(), (I{0, 0, 1}));
}

TEST(FeatureVectorizer, PadsAndCuts) {
  OpTester t = Ml("FeatureVectorizer");
  t.Input(Shape{2, 2}, I{1, 2, 3, 4}).Input(Shape{2, 3}, I{5, 6, 7, 8, 9, 10}).Attr("inputdimensions", I{3, 1});
  EXPECT_EQ(t.Values<float>(), (F{1, 2, 0, 5, 3, 4, 0, 8}));
  OpTester open = Ml("FeatureVectorizer");
  EXPECT_EQ(open.Input(Shape{2}, D{1, 2}).Input(Shape{1, 1}, D{3}).Values<float>(), (F{1, 2, 3}));
  EXPECT_THAT(Ml("FeatureVectorizer").Input(Shape{2, 1}, F{1, 2}).Input(Shape{3, 1}, F{1, 2, 3}).Error(),
              HasSubstr("input 1 has 3 rows, those before it 2"));
  EXPECT_THAT(Ml("FeatureVectorizer").Input(Shape{1}, F{1}).Attr("inputdimensions", I{1, 1}).Error(),
              HasSubstr("2 numbers for 1 inputs"));
  EXPECT_THAT(Ml("FeatureVectorizer").Input(Shape{1}, F{1}).Attr("inputdimensions", I{-1}).Error(), HasSubstr("-1"));
  EXPECT_EQ(Inferred("FeatureVectorizer", 1, Rows(DType::kI32)), "f32[n,3]");
}

TEST(Imputer, ReplacesMissing) {
  OpTester t = Ml("Imputer");
  t.Input(Shape{2, 2}, F{kNan, 1, 2, kNan}).Attr("imputed_value_floats", F{5, 6}).Attr("replaced_value_float", kNan);
  EXPECT_EQ(t.Values<float>(), (F{5, 1, 2, 6}));
  OpTester zeros = Ml("Imputer");
  EXPECT_EQ(zeros.Input(Shape{3}, D{0, 1, -0.0}).Attr("imputed_value_floats", F{9}).Values<double>(), (D{9, 1, 9}));
  OpTester ints = Ml("Imputer");
  ints.Input(Shape{2}, std::vector<int32_t>{-1, 4}).Attr("imputed_value_int64s", I{3});
  EXPECT_EQ(ints.Attr("replaced_value_int64", int64_t{-1}).Values<int32_t>(), (std::vector<int32_t>{3, 4}));
  EXPECT_THAT(Ml("Imputer").Input(Shape{2}, F{1, 2}).Attr("imputed_value_int64s", I{1}).Error(),
              HasSubstr("imputed_value_floats"));
  EXPECT_THAT(Ml("Imputer").Input(Shape{1, 2}, F{1, 2}).Attr("imputed_value_floats", F{1, 2, 3}).Error(),
              HasSubstr("has 3 values; 1 or 2"));
  EXPECT_THAT(
      Ml("Imputer").Input(Shape{1}, std::vector<int32_t>{0}).Attr("imputed_value_int64s", I{int64_t{1} << 40}).Error(),
      HasSubstr("does not fit"));
}

TEST(Normalizer, ByMaximumSumAndLength) {
  const F x = {3, -4, 0, 0};
  const auto norm = [&](const char* kind) {
    return Ml("Normalizer").Input(Shape{2, 2}, x).Attr("norm", std::string(kind)).Values<float>();
  };
  EXPECT_THAT(norm("L1"), ElementsAre(3 / 7.0f, -4 / 7.0f, 0, 0));
  EXPECT_THAT(norm("L2"), ElementsAre(0.6f, -0.8f, 0, 0));
  EXPECT_THAT(Ml("Normalizer").Input(Shape{4}, I{1, 4, 2, 0}).Values<float>(), ElementsAre(0.25f, 1, 0.5f, 0));
  EXPECT_THAT(Ml("Normalizer").Input(Shape{1}, F{1}).Attr("norm", std::string("L3")).Error(), HasSubstr("'L3'"));
  EXPECT_THAT(Ml("Normalizer").Input(Shape{1, 1, 1}, F{1}).Error(), HasSubstr("[N,F] or [F] is needed"));
}

TEST(Scaler, OffsetThenScale) {
  OpTester t = Ml("Scaler");
  t.Input(Shape{2, 2}, I{1, 2, 3, 4}).Attr("offset", F{1, 2}).Attr("scale", F{10, 100});
  EXPECT_EQ(t.Values<float>(), (F{0, 0, 20, 200}));
  EXPECT_EQ(Ml("Scaler").Input(Shape{2}, F{1, 2}).Attr("scale", F{3}).Values<float>(), (F{3, 6}));
  EXPECT_THAT(Ml("Scaler").Input(Shape{2}, F{1, 2}).Attr("scale", F{1, 2, 3}).Error(), HasSubstr("has 3 values"));
}

TEST(LabelEncoder, StringsAndNumbers) {
  OpTester old = Ml("LabelEncoder", 1);
  old.Input(Strings({3}, {"b", "x", "a"})).Attr("classes_strings", S{"a", "b"}).Attr("default_int64", int64_t{7});
  EXPECT_EQ(old.Values<int64_t>(), (I{1, 7, 0}));
  OpTester back = Ml("LabelEncoder", 1);
  EXPECT_EQ(StringsOf(back.Input(Shape{3}, I{1, 2, -1}).Attr("classes_strings", S{"a", "b"})),
            (S{"b", "_Unused", "_Unused"}));
  OpTester floats = Ml("LabelEncoder", 2);
  floats.Input(Shape{2, 2}, F{1.5, 2, kNan, 0}).Attr("keys_floats", F{1.5, 2}).Attr("values_strings", S{"x", "y"});
  EXPECT_EQ(StringsOf(floats.Attr("default_string", std::string("?"))), (S{"x", "y", "?", "?"}));
  OpTester same = Ml("LabelEncoder", 2);
  same.Input(Shape{2}, I{5, 6}).Attr("keys_int64s", I{5}).Attr("values_int64s", I{50});
  EXPECT_EQ(same.Values<int64_t>(), (I{50, -1}));
}

TEST(LabelEncoder, TensorsOfEveryType) {
  OpTester t = Ml("LabelEncoder", 4);
  const auto i16 = [](std::vector<int16_t> v) {
    return Value(Tensor::FromValues<int16_t>(Shape{static_cast<int64_t>(v.size())}, v));
  };
  const D keys = {std::nan("1"), 0, 4};
  t.Input(Shape{4}, D{-std::nan("2"), -0.0, 4, 5});
  t.Attr("keys_tensor", Value(Tensor::FromValues<double>(Shape{3}, keys))).Attr("values_tensor", i16({1, 2, 3}));
  EXPECT_EQ(t.Values<int16_t>(), (std::vector<int16_t>{1, 2, 3, -1}));
  OpTester with_default = Ml("LabelEncoder", 4);
  with_default.Input(Shape{2}, std::vector<int32_t>{8, 9}).Attr("default_tensor", i16({42}));
  const std::vector<int32_t> int_keys = {9, 9};
  with_default.Attr("keys_tensor", Value(Tensor::FromValues<int32_t>(Shape{2}, int_keys)));
  EXPECT_EQ(with_default.Attr("values_tensor", i16({1, 2})).Values<int16_t>(), (std::vector<int16_t>{42, 2}));
}

TEST(LabelEncoder, Errors) {
  const auto error = [](I keys, I values, F more_keys) {
    OpTester t = Ml("LabelEncoder", 2);
    t.Input(Shape{1}, I{1}).Attr("keys_int64s", std::move(keys)).Attr("values_int64s", std::move(values));
    return t.Attr("keys_floats", std::move(more_keys)).Error();
  };
  EXPECT_THAT(error({1, 2}, {1}, {}), HasSubstr("2 keys and 1 values"));
  EXPECT_THAT(error({1}, {}, {}), HasSubstr("0 of the attributes values_*"));
  EXPECT_THAT(error({1}, {1}, {1}), HasSubstr("2 of the attributes keys_*"));
  OpTester strings = Ml("LabelEncoder", 2);
  EXPECT_THAT(strings.Input(Shape{1}, I{1}).Attr("keys_strings", S{"a"}).Attr("values_int64s", I{1}).Error(),
              HasSubstr("the input has element type i64, the keys have string"));
  OpTester wrong = Ml("LabelEncoder", 4);
  wrong.Input(Shape{1}, I{1}).Attr("keys_int64s", I{1}).Attr("values_int64s", I{1});
  EXPECT_THAT(wrong.Attr("default_tensor", Value(Tensor::Scalar<float>(1))).Error(), HasSubstr("the default must be"));
  EXPECT_EQ(Inferred("LabelEncoder", 2, Rows(DType::kI64), {{"keys_int64s", I{1}}, {"values_strings", S{"a"}}}),
            "string[n,3]");
}

TEST(CategoryMapper, BothWays) {
  OpTester t = Ml("CategoryMapper");
  t.Input(Strings({2}, {"b", "c"})).Attr("cats_int64s", I{10, 20}).Attr("cats_strings", S{"a", "b"});
  EXPECT_EQ(t.Values<int64_t>(), (I{20, -1}));
  OpTester back = Ml("CategoryMapper");
  back.Input(Shape{2}, I{10, 0}).Attr("cats_int64s", I{10}).Attr("cats_strings", S{"a"});
  EXPECT_EQ(StringsOf(back), (S{"a", "_Unused"}));
  EXPECT_THAT(Ml("CategoryMapper").Input(Shape{1}, I{1}).Attr("cats_int64s", I{1}).Error(), HasSubstr("1 keys and 0"));
  EXPECT_EQ(Inferred("CategoryMapper", 1, Rows(DType::kString)), "i64[n,3]");
}

TEST(OneHotEncoder, RowsWithAOne) {
  OpTester t = Ml("OneHotEncoder");
  EXPECT_EQ(t.Input(Shape{3}, F{2.7f, 5, kNan}).Attr("cats_int64s", I{5, 2}).Values<float>(), (F{0, 1, 1, 0, 0, 0}));
  OpTester words = Ml("OneHotEncoder");
  words.Input(Strings({1, 2}, {"a", "z"})).Attr("cats_strings", S{"z", "a"});
  EXPECT_EQ(words.Values<float>(), (F{0, 1, 1, 0}));
  EXPECT_THAT(Ml("OneHotEncoder").Input(Shape{1}, I{9}).Attr("cats_int64s", I{1}).Attr("zeros", int64_t{0}).Error(),
              HasSubstr("element 0 is no category"));
  EXPECT_THAT(Ml("OneHotEncoder").Input(Shape{1}, I{9}).Attr("cats_strings", S{"a"}).Error(), HasSubstr("i64"));
  EXPECT_THAT(Ml("OneHotEncoder").Input(Shape{1}, I{9}).Error(), HasSubstr("is needed"));
  EXPECT_EQ(Inferred("OneHotEncoder", 1, Rows(DType::kF64), {{"cats_int64s", I{1, 2}}}), "f32[n,3,2]");
}

TEST(DictVectorizer, ByTheVocabulary) {
  OpTester t = Ml("DictVectorizer");
  t.Input(MapOf<std::string>({{"a", Tensor::Scalar<int64_t>(4)}, {"c", Tensor::Scalar<int64_t>(8)}}));
  EXPECT_EQ(t.Attr("string_vocabulary", S{"a", "c", "b", "z"}).Values<int64_t>(), (I{4, 8, 0, 0}));
  OpTester words = Ml("DictVectorizer");
  words.Input(MapOf<int64_t>({{3, Text("x")}})).Attr("int64_vocabulary", I{1, 3});
  EXPECT_EQ(StringsOf(words), (S{"", "x"}));
  OpTester doubles = Ml("DictVectorizer");
  doubles.Input(MapOf<int64_t>({{3, Tensor::Scalar<double>(0.5)}})).Attr("int64_vocabulary", I{3, 3});
  EXPECT_EQ(doubles.Values<double>(), (D{0.5, 0.5}));
  OpTester empty = Ml("DictVectorizer");
  EXPECT_EQ(empty.Input(MapOf<int64_t>({})).Attr("string_vocabulary", S{"a"}).Values<float>(), F{0});
}

TEST(DictVectorizer, Errors) {
  const Value one = Tensor::Scalar<float>(1);
  EXPECT_THAT(Ml("DictVectorizer").Input(MapOf<int64_t>({{1, one}})).Attr("string_vocabulary", S{"a"}).Error(),
              HasSubstr("keys of type i64, string is needed"));
  EXPECT_THAT(Ml("DictVectorizer").Input(MapOf<int64_t>({{1, one}})).Error(), HasSubstr("is needed"));
  EXPECT_THAT(Ml("DictVectorizer").Input(Shape{1}, F{1}).Attr("int64_vocabulary", I{1}).Error(),
              HasSubstr("is a tensor, a map is needed"));
  EXPECT_THAT(Ml("DictVectorizer")
                  .Input(MapOf<int64_t>({{1, Tensor::FromValues<float>(Shape{2}, F{1, 2})}}))
                  .Attr("int64_vocabulary", I{1})
                  .Error(),
              HasSubstr("one element is needed"));
  EXPECT_THAT(Ml("DictVectorizer")
                  .Input(MapOf<int64_t>({{1, one}, {2, Tensor::Scalar<double>(1)}}))
                  .Attr("int64_vocabulary", I{1})
                  .Error(),
              HasSubstr("values of type f64 and f32"));
}

TEST(CastMap, DenseAndSparse) {
  const Value map = MapOf<int64_t>({{2, Tensor::Scalar<float>(2.75f)}, {0, Tensor::Scalar<float>(-1)}});
  EXPECT_EQ(Ml("CastMap").Input(map).Values<float>(), (F{-1, 2.75f}));
  OpTester ints = Ml("CastMap");
  ints.Input(map).Attr("cast_to", std::string("TO_INT64")).Attr("map_form", std::string("SPARSE"));
  EXPECT_EQ(ints.Attr("max_map", int64_t{4}).Values<int64_t>(), (I{-1, 0, 2, 0}));
  OpTester texts = Ml("CastMap");
  EXPECT_EQ(StringsOf(texts.Input(map).Attr("cast_to", std::string("TO_STRING"))), (S{"-1.000000", "2.750000"}));
  OpTester parsed = Ml("CastMap");
  EXPECT_EQ(parsed.Input(MapOf<int64_t>({{7, Text("1.5")}})).Values<float>(), F{1.5f});
  OpTester parsed_ints = Ml("CastMap");
  parsed_ints.Input(MapOf<int64_t>({{7, Text("9007199254740993")}, {8, Text("-3.9")}}));
  EXPECT_EQ(parsed_ints.Attr("cast_to", std::string("TO_INT64")).Values<int64_t>(), (I{9007199254740993, -3}));
}

TEST(CastMap, Errors) {
  const Value map = MapOf<int64_t>({{5, Tensor::Scalar<float>(1)}});
  OpTester far = Ml("CastMap");
  far.Input(map).Attr("map_form", std::string("SPARSE")).Attr("max_map", int64_t{5});
  EXPECT_THAT(far.Error(), HasSubstr("key 5 of the map is outside [0, 4]"));
  EXPECT_THAT(Ml("CastMap").Input(map).Attr("cast_to", std::string("TO_BOOL")).Error(), HasSubstr("'TO_BOOL'"));
  EXPECT_THAT(Ml("CastMap").Input(map).Attr("map_form", std::string("LOOSE")).Error(), HasSubstr("'LOOSE'"));
  EXPECT_THAT(Ml("CastMap").Input(MapOf<int64_t>({{1, Text("x1")}})).Error(), HasSubstr("'x1'"));
  EXPECT_THAT(Ml("CastMap").Input(MapOf<std::string>({{"a", Tensor::Scalar<float>(1)}})).Error(),
              HasSubstr("keys of type string, i64 is needed"));
  OpTester huge = Ml("CastMap");
  huge.Input(map).Attr("map_form", std::string("SPARSE")).Attr("max_map", std::numeric_limits<int64_t>::max());
  EXPECT_THAT(huge.Error(), HasSubstr("output 0"));
}

TEST(ZipMap, RowsAsMaps) {
  OpTester t = Ml("ZipMap");
  t.Input(Shape{2, 2}, F{1, 2, 3, 4}).Attr("classlabels_int64s", I{7, 5});
  const Result<std::vector<Value>> outputs = t.Run();
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(TypeToString(TypeOf((*outputs)[0])), "seq<map<i64,f32[]>>");
  const ValueSequence& maps = (*outputs)[0].sequence();
  ASSERT_EQ(maps.size(), 2u);
  const auto& second = std::get<0>(maps[1].map().entries);
  EXPECT_EQ(*second.at(7).tensor().data<float>(), 3);
  EXPECT_EQ(*second.at(5).tensor().data<float>(), 4);
  OpTester words = Ml("ZipMap");
  const Result<std::vector<Value>> named = words.Input(Shape{1}, F{9}).Attr("classlabels_strings", S{"a"}).Run();
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(*std::get<1>((*named)[0].sequence()[0].map().entries).at("a").tensor().data<float>(), 9);
  EXPECT_THAT(Ml("ZipMap").Input(Shape{1, 2}, F{1, 2}).Attr("classlabels_int64s", I{1}).Error(),
              HasSubstr("2 columns for 1 class labels"));
  EXPECT_THAT(Ml("ZipMap").Input(Shape{1, 1}, F{1}).Error(), HasSubstr("is needed"));
  OpTester both = Ml("ZipMap");
  both.Input(Shape{1, 1}, F{1}).Attr("classlabels_int64s", I{1}).Attr("classlabels_strings", S{"a"});
  EXPECT_THAT(both.Error(), HasSubstr("both given"));
}

}  // namespace
}  // namespace quern
