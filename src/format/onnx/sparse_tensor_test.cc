// Sparse initializers and sparse constants come dense; what does not fit is refused.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/onnx/proto_builder.h"
#include "format/onnx/reader.h"

namespace quern {
namespace {

using namespace onnx_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using GraphResult = Result<std::unique_ptr<Graph>>;

Message Indices(std::initializer_list<int64_t> dims, std::initializer_list<int64_t> values) {
  return RawTensor("", 7, dims, Raw<int64_t>(values));
}
Message Sparse(const Message& values, const Message& indices, std::initializer_list<int64_t> dims) {
  Message m;
  m.Sub(1, values).Sub(2, indices);
  for (int64_t d : dims) m.Number(3, d);
  return m;
}
Message ModelWith(const Message& sparse) {
  return ModelOf(GraphOf({.nodes = {NodeOf("Neg", {"w"}, {"y"})}, .outputs = {FloatInfo("y", {})}}).Sub(15, sparse));
}
GraphResult Read(const Message& sparse, const OnnxReadOptions& options = {}) {
  return ReadOnnx(AsBytes(ModelWith(sparse).bytes()), nullptr, options);
}
void ExpectError(const GraphResult& r, StatusCode code, const std::string& text) {
  ASSERT_FALSE(r.ok()) << "expected: " << text;
  EXPECT_EQ(r.status().code(), code) << r.status().message();
  EXPECT_THAT(r.status().message(), HasSubstr(text));
}
const Value& Weight(const GraphResult& r) { return *(*r)->FindValue("w")->constant(); }

TEST(OnnxSparse, BothFormsOfIndices) {
  const Message values = FloatTensor("w", {3}, {1, 2, 3});
  for (const Message& indices : {Indices({3}, {0, 4, 5}), Indices({3, 2}, {0, 0, 1, 1, 1, 2})}) {
    const GraphResult r = Read(Sparse(values, indices, {2, 3}));
    ASSERT_TRUE(r.ok()) << r.status().message();
    const Tensor& t = Weight(r).tensor();
    EXPECT_EQ(t.shape(), (Shape{2, 3}));
    EXPECT_THAT(t.values<float>(), ElementsAre(1, 0, 0, 0, 2, 3));
  }
}

TEST(OnnxSparse, EveryElementSize) {
  const auto dense = [](int type, const std::string& values, std::initializer_list<int64_t> places, int64_t count) {
    const Message sparse = Sparse(RawTensor("w", type, {static_cast<int64_t>(places.size())}, values),
                                  Indices({static_cast<int64_t>(places.size())}, places), {count});
    const GraphResult r = Read(sparse);
    if (!r.ok()) return r.status().message();
    const Tensor& t = Weight(r).tensor();
    return std::string(static_cast<const char*>(t.raw_data()), t.bytes());
  };
  EXPECT_EQ(dense(2, "\x07\x09", {1, 3}, 4), std::string("\0\x07\0\x09", 4));                          // u8
  EXPECT_EQ(dense(10, "\x12\x34", {1}, 2), std::string("\0\0\x12\x34", 4));                            // f16
  EXPECT_EQ(dense(22, "\xa3\x05", {0, 3, 4}, 5), std::string("\x03\xa0\x05", 3));                      // i4
  EXPECT_EQ(dense(25, "\x39", {0, 2, 5}, 6), std::string("\x21\x0c", 2));                              // u2: 1, 2, 3
  EXPECT_EQ(dense(27, std::string("\xc8\x1f\0", 3), {0, 1, 4}, 5), std::string("\xc8\x0f\0\x01", 4));  // f6: 8, 3f, 1
  EXPECT_EQ(dense(15, std::string(16, 'z'), {1}, 2), std::string(16, '\0') + std::string(16, 'z'));    // c128
  EXPECT_EQ(dense(9, "\x01", {2}, 3), std::string("\0\0\x01", 3));                                     // bool
}

TEST(OnnxSparse, StringsAndNothingAtAll) {
  Message words;
  words.Number(1, 1).Number(2, 8).Text(8, "w").Text(6, "here");
  GraphResult r = Read(Sparse(words, Indices({1, 2}, {1, 0}), {2, 2}));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(Weight(r).strings().values, ElementsAre("", "", "here", ""));
  r = Read(Message().Sub(1, FloatTensor("w", {0}, {})).Number(3, 2).Number(3, 2));  // without indices
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_THAT(Weight(r).tensor().values<float>(), ElementsAre(0, 0, 0, 0));
  r = Read(Sparse(FloatTensor("w", {0}, {}), Indices({0, 2}, {}), {0, 2}));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(Weight(r).tensor().shape(), (Shape{0, 2}));
}

TEST(OnnxSparse, ConstantsAndInputs) {
  const Message sparse = Sparse(FloatTensor("", {1}, {5}), Indices({1}, {1}), {3});
  const auto constant = [&](const Message& more) {
    return ReadOnnx(AsBytes(ModelOf(GraphOf({.nodes = {NodeOf("Constant", {}, {"c"})
                                                           .Sub(5, Attr("sparse_value", 11).Sub(22, sparse))
                                                           .Sub(5, more)},
                                             .outputs = {FloatInfo("c", {"3"})}}))
                                .bytes()),
                    nullptr);
  };
  const GraphResult r = constant(Attr("other", 2).Number(3, 1));
  ASSERT_TRUE(r.ok()) << r.status().message();
  const Value* value = (*r)->first_node()->FindAttribute<Value>("value");
  ASSERT_NE(value, nullptr);
  EXPECT_THAT(value->tensor().values<float>(), ElementsAre(0, 5, 0));
  ExpectError(constant(Attr("value", 4).Sub(5, FloatTensor("", {1}, {1}))), StatusCode::kInvalidArgument, "'value'");
  // A default value of an input.
  const Message named = Sparse(FloatTensor("w", {1}, {5}), Indices({1}, {1}), {3});
  const GraphResult input = ReadOnnx(
      AsBytes(
          ModelOf(GraphOf({.nodes = {NodeOf("Neg", {"w"}, {"y"})}, .inputs = {FloatInfo("w", {"3"})}}).Sub(15, named))
              .bytes()),
      nullptr);
  ASSERT_TRUE(input.ok()) << input.status().message();
  EXPECT_THAT(Weight(input).tensor().values<float>(), ElementsAre(0, 5, 0));
  EXPECT_EQ((*input)->overridable.size(), 1u);
  // A list, as an operator of another domain may have.
  const GraphResult list = ReadOnnx(
      AsBytes(
          ModelOf(GraphOf({.nodes = {NodeOf("Op", {}, {"y"}).Sub(5, Attr("l", 12).Sub(23, sparse).Sub(23, sparse))}}))
              .bytes()),
      nullptr);
  ASSERT_TRUE(list.ok()) << list.status().message();
  EXPECT_EQ((*list)->first_node()->FindAttribute<std::vector<Value>>("l")->size(), 2u);
  ExpectError(
      ReadOnnx(AsBytes(ModelOf(GraphOf({.nodes = {NodeOf("Op", {}, {"y"}).Sub(5, Attr("s", 11))}})).bytes()), nullptr),
      StatusCode::kCorrupt, "has type SPARSE_TENSOR but no sparse tensor");
}

TEST(OnnxSparse, WhatDoesNotFitIsRefused) {
  const Message values = FloatTensor("w", {2}, {1, 2});
  const auto with = [&](const Message& indices, std::initializer_list<int64_t> dims = {2, 3}) {
    return Read(Sparse(values, indices, dims));
  };
  constexpr StatusCode kCorrupt = StatusCode::kCorrupt;
  ExpectError(with(Indices({2}, {1, 6})), kCorrupt, "initializer[0] 'w': indices[1] is 6, the tensor has 6 elements");
  ExpectError(with(Indices({2}, {-1, 1})), kCorrupt, "indices[0] is -1");
  ExpectError(with(Indices({2, 2}, {0, 0, 0, 3})), kCorrupt, "indices[1] is 3 in dimension 1, whose extent is 3");
  ExpectError(with(Indices({2, 2}, {0, -1, 0, 1})), kCorrupt, "indices[0] is -1 in dimension 1");
  ExpectError(with(Indices({2}, {2, 1})), kCorrupt, "indices[1] does not come after");
  ExpectError(with(Indices({2}, {1, 1})), kCorrupt, "each once");
  ExpectError(with(Indices({2, 2}, {1, 0, 0, 2})), kCorrupt, "indices[1] does not come after");
  ExpectError(with(Indices({3}, {0, 1, 2})), kCorrupt, "indices of shape [3]");
  ExpectError(with(Indices({2, 3}, {0, 0, 0, 0, 0, 0})), kCorrupt, "need [2] or [2,2]");
  ExpectError(with(Indices({}, {1})), kCorrupt, "indices of shape []");
  ExpectError(with(RawTensor("", 6, {2}, Raw<int32_t>({0, 1}))), kCorrupt, "indices of type i32");
  ExpectError(with(Message().Number(1, 1).Number(2, 8).Text(6, "a")), kCorrupt, "indices of type string");
  ExpectError(with(Indices({2}, {0, 1}), {-2, 3}), kCorrupt, "dimension -2 is negative");
  ExpectError(with(Indices({2}, {0, 1}), {int64_t{1} << 40, int64_t{1} << 40}), kCorrupt, "too large");
  ExpectError(Read(Sparse(FloatTensor("w", {1, 2}, {1, 2}), Indices({2}, {0, 1}), {6})), kCorrupt, "are no list");
  ExpectError(Read(Message().Sub(1, values).Number(3, 6)), kCorrupt, "2 values without indices");
  ExpectError(Read(Message().Sub(2, Indices({2}, {0, 1})).Number(3, 6)), kCorrupt, "without");
  ExpectError(Read(Sparse(RawTensor("w", 1, {2}, "abc"), Indices({2}, {0, 1}), {6})), kCorrupt, "values: has 3 bytes");
  ExpectError(Read(Sparse(values, RawTensor("", 7, {2}, "abc"), {6})), kCorrupt, "indices: has 3 bytes");
}

// A few bytes that say large.
TEST(OnnxSparse, TheDenseFormCountsAgainstTheLimits) {
  const Message large = Sparse(FloatTensor("w", {1}, {1}), Indices({1}, {0}), {1 << 20, 1 << 10});
  OnnxReadOptions options;
  options.limits.memory_bytes = int64_t{1} << 30;
  ExpectError(Read(large, options), StatusCode::kResourceExhausted, "more than the limit of 1073741824");
  options.limits.tensor_bytes = int64_t{1} << 30;
  ExpectError(Read(large, options), StatusCode::kResourceExhausted,
              "the dense form, f32[1048576,1024], has 4294967296");
  Message word;
  word.Number(1, 1).Number(2, 8).Text(8, "w").Text(6, "a");
  ExpectError(Read(Sparse(word, Indices({1}, {0}), {1 << 30}), options), StatusCode::kResourceExhausted, "dense form");
  ExpectError(Read(Sparse(word, Indices({1}, {0}), {int64_t{1} << 60}), options), StatusCode::kCorrupt, "too large");
  options.limits.rank = 2;
  ExpectError(Read(Sparse(FloatTensor("w", {1}, {1}), Indices({1}, {0}), {1, 1, 1}), options),
              StatusCode::kResourceExhausted, "more than 2 dimensions");
}

TEST(OnnxSparse, SurvivesDamage) {
  const std::string model =
      ModelWith(Sparse(FloatTensor("w", {3}, {1, 2, 3}), Indices({3, 2}, {0, 0, 1, 1, 1, 2}), {2, 3})).bytes();
  OnnxReadOptions options;
  options.limits.memory_bytes = 16 << 20;
  for (size_t n = 0; n < model.size(); ++n) {
    const std::string cut = model.substr(0, n);
    EXPECT_FALSE(ReadOnnx(AsBytes(cut), nullptr, options).ok()) << n;
  }
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    const std::string damaged = Damaged(model, random);
    const GraphResult r = ReadOnnx(AsBytes(damaged), nullptr, options);
    if (!r.ok()) {
      EXPECT_FALSE(r.status().message().empty());
    }
  }
}

}  // namespace
}  // namespace quern
