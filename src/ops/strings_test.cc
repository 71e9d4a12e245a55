// Operators on strings; expected values by hand, from the specification and from Unicode's tables.
#include <gmock/gmock.h>

#include <memory>

#include "ops/common/op_tester.h"
#include "ops/common/unicode.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using I = std::vector<int64_t>;
using F = std::vector<float>;
using S = std::vector<std::string>;

Value Strings(const Shape& shape, const S& values) { return StringTensor{shape, values}; }
Value List(const S& values) { return Strings(Shape{static_cast<int64_t>(values.size())}, values); }

std::vector<Value> Outputs(OpTester& t) {
  const Result<std::vector<Value>> outputs = t.Run();
  EXPECT_TRUE(outputs.ok()) << outputs.status().message();
  return outputs.ok() ? *outputs : std::vector<Value>(2, StringTensor{});
}
S StringsOf(OpTester& t) { return Outputs(t)[0].strings().values; }

TEST(StringConcat, Broadcasts) {
  OpTester same("StringConcat"), one("StringConcat"), outer("StringConcat");
  EXPECT_THAT(StringsOf(same.Input(List({"abc", ""})).Input(List({"", "ü"}))), ElementsAre("abc", "ü"));
  EXPECT_THAT(StringsOf(one.Input(List({"a", "b"})).Input(Strings({}, {"s"}))), ElementsAre("as", "bs"));
  EXPECT_THAT(StringsOf(outer.Input(Strings({2, 1}, {"a", "b"})).Input(List({"x", "y"}))),
              ElementsAre("ax", "ay", "bx", "by"));
  EXPECT_THAT(OpTester("StringConcat").Input(List({"a", "b"})).Input(List({"a", "b", "c"})).Error(),
              HasSubstr("do not broadcast"));
  EXPECT_THAT(OpTester("StringConcat").Input(List({"a"})).Input(Shape{1}, F{1}).Error(), HasSubstr("takes string"));
}

struct SplitResult {
  S parts;
  I counts;
  Shape shape;
};
SplitResult Split(const Value& x, const char* delimiter, int64_t maxsplit = -1) {
  OpTester t("StringSplit");
  t.Input(x).Outputs(2);
  if (delimiter != nullptr) t.Attr("delimiter", std::string(delimiter));
  if (maxsplit >= 0) t.Attr("maxsplit", maxsplit);
  const std::vector<Value> y = Outputs(t);
  const std::span<int64_t> counts = y[1].tensor().values<int64_t>();
  return {y[0].strings().values, {counts.begin(), counts.end()}, y[0].strings().shape};
}

TEST(StringSplit, AtADelimiter) {
  const SplitResult r = Split(List({"o-n--x-", "ab"}), "-");
  EXPECT_THAT(r.parts, ElementsAre("o", "n", "", "x", "", "ab", "", "", "", ""));
  EXPECT_EQ(r.counts, (I{5, 1}));
  EXPECT_EQ(r.shape, (Shape{2, 5}));
  EXPECT_THAT(Split(List({"a<>b<>c"}), "<>").parts, ElementsAre("a", "b", "c"));
  EXPECT_THAT(Split(List({"a-b-c-d"}), "-", 2).parts, ElementsAre("a", "b", "c-d"));
  EXPECT_THAT(Split(List({"a-b"}), "-", 0).parts, ElementsAre("a-b"));
  EXPECT_EQ(Split(List({""}), "-").counts, I{1});
}

TEST(StringSplit, AtWhiteSpace) {
  for (const char* delimiter : {static_cast<const char*>(nullptr), ""}) {
    const SplitResult r = Split(List({"hello world", " \t a  b\n", "   "}), delimiter);
    EXPECT_THAT(r.parts, ElementsAre("hello", "world", "a", "b", "", ""));
    EXPECT_EQ(r.counts, (I{2, 2, 0}));
  }
  EXPECT_THAT(Split(List({" the quick  brown fox "}), "", 2).parts, ElementsAre("the", "quick", "brown fox"));
  EXPECT_THAT(Split(List({" a b "}), "", 0).parts, ElementsAre("a b"));
  EXPECT_THAT(Split(List({"a\u00A0b\u3000c"}), "").parts, ElementsAre("a", "b", "c"));
  EXPECT_EQ(Split(List({"\xFF b"}), "").counts, I{2}) << "bytes that are no UTF-8 are no space";
  const SplitResult none = Split(Strings({0}, {}), nullptr);
  EXPECT_EQ(none.shape, (Shape{0, 0}));
  EXPECT_EQ(Split(Strings({2, 1}, {" ", ""}), nullptr).shape, (Shape{2, 1, 0}));
}

using TesterPtr = std::unique_ptr<OpTester>;

TesterPtr Normalizer(const Value& x, const std::string& action, int64_t sensitive, const S& stopwords = {}) {
  auto t = std::make_unique<OpTester>("StringNormalizer");
  t->Input(x).Attr("case_change_action", action).Attr("is_case_sensitive", sensitive);
  if (!stopwords.empty()) t->Attr("stopwords", stopwords);
  return t;
}
S Normalized(const Value& x, const std::string& action, int64_t sensitive, const S& stopwords = {}) {
  return StringsOf(*Normalizer(x, action, sensitive, stopwords));
}
Shape NormalizedShape(const Value& x, const std::string& action, int64_t sensitive, const S& stopwords = {}) {
  return Outputs(*Normalizer(x, action, sensitive, stopwords))[0].strings().shape;
}

TEST(StringNormalizer, DropsStopWordsAndChangesCase) {
  const Value days = List({"Monday", "tuesday", "MONDAY"});
  EXPECT_THAT(Normalized(days, "NONE", 1), ElementsAre("Monday", "tuesday", "MONDAY"));
  EXPECT_THAT(Normalized(days, "UPPER", 0, {"monday"}), ElementsAre("TUESDAY"));
  EXPECT_THAT(Normalized(days, "LOWER", 1, {"Monday"}), ElementsAre("tuesday", "monday"));
  EXPECT_THAT(Normalized(days, "NONE", 0, {"TUESDAY"}), ElementsAre("Monday", "MONDAY"));
}

TEST(StringNormalizer, Shapes) {
  EXPECT_EQ(NormalizedShape(List({"a", "a"}), "NONE", 1, {"a"}), (Shape{1}));
  EXPECT_THAT(Normalized(List({"a", "a"}), "NONE", 1, {"a"}), ElementsAre(""));
  EXPECT_EQ(NormalizedShape(Strings({1, 3}, {"a", "b", "a"}), "UPPER", 1, {"b"}), (Shape{1, 2}));
  EXPECT_EQ(NormalizedShape(Strings({0}, {}), "UPPER", 1), (Shape{0}));
  EXPECT_THAT(Normalizer(Strings({2, 1}, {"a", "b"}), "NONE", 1)->Error(),
              HasSubstr("[2,1], it must be [C] or [1, C]"));
  EXPECT_THAT(Normalizer(Strings({}, {"a"}), "NONE", 1)->Error(), HasSubstr("it must be [C] or [1, C]"));
  EXPECT_THAT(Normalizer(List({"a"}), "TITLE", 1)->Error(), HasSubstr("'TITLE', it must be LOWER, UPPER or NONE"));
  EXPECT_THAT(Normalizer(List({"\xC3"}), "UPPER", 1)->Error(), HasSubstr("no UTF-8"));
}

TEST(Unicode, Case) {
  const auto upper = [](const char* text) { return *MapCodePoints(text, ToUpper); };
  const auto lower = [](const char* text) { return *MapCodePoints(text, ToLower); };
  EXPECT_EQ(upper("az[`{éàçñüÿøþ÷ß"), "AZ[`{ÉÀÇÑÜŸØÞ÷ß");
  EXPECT_EQ(lower("AZ[@ÉÀÇÑÜŸØÞ×İẞ"), "az[@éàçñüÿøþ×iß");
  EXPECT_EQ(upper("őşčžłĳŋĸſıǆȩƀ"), "ŐŞČŽŁĲŊĸSIǄȨɃ");
  EXPECT_EQ(upper("αάέίόύώςσϊ"), "ΑΆΈΊΌΎΏΣΣΪ");
  EXPECT_EQ(lower("ΑΆΈΊΌΎΏΣΪϴ"), "αάέίόύώσϊθ");
  EXPECT_EQ(upper("привет, ёжик ѓќ ѩҟӏ"), "ПРИВЕТ, ЁЖИК ЃЌ ѨҞӀ");
  EXPECT_EQ(lower("ПРИВЕТ, ЁЖИК"), "привет, ёжик");
  EXPECT_EQ(upper("հայ"), "ՀԱՅ");
  EXPECT_EQ(upper("ạẹỳṡẕ"), "ẠẸỲṠẔ");
  EXPECT_EQ(lower("ἈΔῼ"), "ἀδῳ");
  EXPECT_EQ(upper("日本 ก 😀"), "日本 ก 😀");
  int pairs = 0;
  for (int32_t c = 0; c < kCaseEnd + 100; ++c) {
    EXPECT_EQ(ToLower(ToLower(c)), ToLower(c)) << c;
    EXPECT_EQ(ToUpper(ToUpper(c)), ToUpper(c)) << c;
    pairs += ToLower(c) != c && ToUpper(ToLower(c)) == c;
  }
  EXPECT_EQ(pairs, 680);
}

TEST(Unicode, Decoding) {
  const auto valid = [](std::string_view text) { return MapCodePoints(text, ToLower).has_value(); };
  for (const char* good : {"", "a", "\u007F", "\u0080", "\u07FF", "\u0800", "\uFFFD", "\U00010000", "\U0010FFFF"}) {
    EXPECT_EQ(*MapCodePoints(good, ToLower), good);
  }
  // Cut short, a lone trail byte, longer than needed, a surrogate, beyond the last code point.
  for (const char* bad :
       {"\xC3", "\xE2\x82", "\xF0\x9F\x98", "\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82("}) {
    EXPECT_FALSE(valid(bad)) << testing::PrintToString(bad);
  }
}

TesterPtr TfIdf(const Value& x, const std::string& mode, int64_t shortest, int64_t longest, int64_t skip) {
  auto t = std::make_unique<OpTester>("TfIdfVectorizer");
  t->Input(x)
      .Attr("mode", mode)
      .Attr("min_gram_length", shortest)
      .Attr("max_gram_length", longest)
      .Attr("max_skip_count", skip);
  return t;
}
TesterPtr TfIdfOfInts(const Value& x, int64_t shortest, int64_t longest, int64_t skip, const std::string& mode = "TF") {
  TesterPtr t = TfIdf(x, mode, shortest, longest, skip);
  t->Attr("ngram_counts", I{0, 4}).Attr("ngram_indexes", I{0, 1, 2, 3, 4, 5, 6});
  t->Attr("pool_int64s", I{2, 3, 5, 4, 5, 6, 7, 8, 6, 7});
  return t;
}

TEST(TfIdfVectorizer, CountsWithSkips) {
  const Value x = Tensor::FromValues<int64_t>(Shape{12}, I{1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});
  EXPECT_EQ(TfIdfOfInts(x, 2, 2, 0)->Values<float>(), (F{0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(TfIdfOfInts(x, 2, 2, 5)->Values<float>(), (F{0, 0, 0, 0, 1, 3, 1}));
  EXPECT_EQ(TfIdfOfInts(x, 1, 2, 5)->Values<float>(), (F{0, 3, 1, 0, 1, 3, 1}));
  EXPECT_EQ(TfIdfOfInts(x, 1, 1, 5)->Values<float>(), (F{0, 3, 1, 0, 0, 0, 0}));
  EXPECT_EQ(TfIdfOfInts(x, 1, 9, INT64_MAX)->Values<float>()[1], 3);
  const Value rows = Tensor::FromValues<int32_t>(Shape{2, 6}, std::vector<int32_t>{1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});
  EXPECT_EQ(TfIdfOfInts(rows, 1, 2, 5)->Values<float>(), (F{0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1}));
  const Value none = Tensor::FromValues<int64_t>(Shape{0}, I{});
  EXPECT_EQ(TfIdfOfInts(none, 1, 2, 5)->Values<float>(), F(7, 0.0f));
}

TEST(TfIdfVectorizer, WeighsStrings) {
  const Value x = List({"a", "b", "a", "b", "c"});
  const auto run = [&](const std::string& mode, const F& weights) {
    const TesterPtr t = TfIdf(x, mode, 1, 2, 0);
    t->Attr("ngram_counts", I{0, 2}).Attr("ngram_indexes", I{3, 0, 1});
    t->Attr("pool_strings", S{"a", "c", "a", "b"});
    if (!weights.empty()) t->Attr("weights", weights);
    return t->Values<float>();
  };
  EXPECT_EQ(run("TF", {10, 20, 30}), (F{1, 2, 0, 2}));
  EXPECT_EQ(run("IDF", {10, 20, 30}), (F{20, 30, 0, 10})) << "weights go with n-grams, not with columns";
  EXPECT_EQ(run("TFIDF", {10, 20, 30}), (F{20, 60, 0, 20}));
  EXPECT_EQ(run("IDF", {}), (F{1, 1, 0, 1}));
}

TEST(TfIdfVectorizer, Errors) {
  const Value x = Tensor::FromValues<int64_t>(Shape{1}, I{1});
  EXPECT_THAT(TfIdfOfInts(x, 2, 1, 0)->Error(), HasSubstr("min_gram_length is 2"));
  EXPECT_THAT(TfIdfOfInts(x, 0, 1, 0)->Error(), HasSubstr("min_gram_length is 0"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, -1)->Error(), HasSubstr("max_skip_count is -1"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0, "BM25")->Error(), HasSubstr("mode is 'BM25'"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("ngram_counts", I{0, 5}).Error(), HasSubstr("which does not fit"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("ngram_counts", I{4, 0}).Error(), HasSubstr("which does not fit"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("ngram_counts", I{0, 12}).Error(), HasSubstr("which does not fit"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("ngram_indexes", I{0}).Error(), HasSubstr("1 entries, the pool has 7"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("ngram_indexes", I{0, 1, 2, 3, 4, 5, -1}).Error(), HasSubstr("entry -1"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("weights", F{1}).Error(), HasSubstr("weights has 1 entries"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("pool_strings", S{"a"}).Error(), HasSubstr("needs one of"));
  EXPECT_THAT(TfIdfOfInts(List({"a"}), 1, 1, 0)->Error(), HasSubstr("the pool is of integers"));
  EXPECT_THAT(TfIdfOfInts(Tensor::Scalar<int64_t>(1), 1, 1, 0)->Error(), HasSubstr("it must be [C] or [N, C]"));
  EXPECT_THAT(TfIdfOfInts(x, 1, 1, 0)->Attr("ngram_indexes", I{0, 1, 2, 3, 4, 5, INT64_MAX - 1}).Error(),
              HasSubstr("node 'n' (TfIdfVectorizer)"));
}

TEST(ReverseSequence, EitherAxisFirst) {
  const F x = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  OpTester time("ReverseSequence"), batch("ReverseSequence");
  EXPECT_EQ(time.Input(Shape{3, 3}, x).Input(Shape{3}, I{3, 2, 0}).Values<float>(), (F{6, 4, 2, 3, 1, 5, 0, 7, 8}));
  batch.Input(Shape{3, 3}, x).Input(Shape{3}, I{1, 2, 3}).Attr("time_axis", int64_t{1}).Attr("batch_axis", int64_t{0});
  EXPECT_EQ(batch.Values<float>(), (F{0, 1, 2, 4, 3, 5, 8, 7, 6}));
  OpTester inner("ReverseSequence"), words("ReverseSequence", 28);
  EXPECT_EQ(inner.Input(Shape{2, 1, 2}, I{1, 2, 3, 4}).Input(Shape{1}, I{2}).Values<int64_t>(), (I{3, 4, 1, 2}));
  EXPECT_THAT(StringsOf(words.Input(Strings({2, 1}, {"a", "b"})).Input(Shape{1}, I{2})), ElementsAre("b", "a"));
}

TEST(ReverseSequence, Errors) {
  const auto error = [](const I& lengths, int64_t time = 0, int64_t batch = 1) {
    return OpTester("ReverseSequence")
        .Input(Shape{2, 2}, F{1, 2, 3, 4})
        .Input(Shape{static_cast<int64_t>(lengths.size())}, lengths)
        .Attr("time_axis", time)
        .Attr("batch_axis", batch)
        .Error();
  };
  EXPECT_THAT(error({1, 3}), HasSubstr("the length 3, the input has 2 steps"));
  EXPECT_THAT(error({1, -1}), HasSubstr("the length -1"));
  EXPECT_THAT(error({1}), HasSubstr("1 lengths for a batch of 2"));
  EXPECT_THAT(error({1, 1}, 1, 1), HasSubstr("one must be 0, the other 1"));
  EXPECT_THAT(error({1, 1}, 0, 2), HasSubstr("one must be 0, the other 1"));
  EXPECT_THAT(OpTester("ReverseSequence").Input(Shape{2}, F{1, 2}).Input(Shape{1}, I{1}).Error(),
              HasSubstr("rank 2 is needed"));
}

}  // namespace
}  // namespace quern
