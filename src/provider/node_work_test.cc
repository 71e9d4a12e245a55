// Operations and bytes of nodes, against sums counted by hand or by loops.
#include "provider/node_work.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quern {
namespace {

using Types = std::vector<OperandType>;

OperandType F32(const Shape& shape, bool constant = false) { return {DType::kF32, shape, constant}; }
OperandType U8(const Shape& shape, bool constant = false) { return {DType::kU8, shape, constant}; }

class Work : public testing::Test {
 protected:
  NodeWork Of(const std::string& op, const Types& in, const Types& out,
              std::map<std::string, Attribute, std::less<>> attributes = {}, const std::string& domain = {},
              size_t packed_bytes = 0) {
    const Node* node = graph_.AddNode({.domain = domain, .op_type = op, .attributes = std::move(attributes)});
    return WorkOf(*node, in, out, packed_bytes);
  }
  Graph graph_;
};

TEST_F(Work, AConvolutionMultipliesByItsGroupOfChannels) {
  const int64_t images = 2, groups = 3, in = 6, out = 9, height = 5, width = 4, kernel_h = 3, kernel_w = 2;
  int64_t products = 0;
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t at = 0; at < height * width; ++at) products += in / groups * kernel_h * kernel_w;
    }
  }
  const Shape w{out, in / groups, kernel_h, kernel_w};
  const NodeWork first = Of("Conv", {F32({images, in, 7, 5}), F32(w, true)}, {F32({images, out, height, width})});
  EXPECT_EQ(first.operations, 2.0 * products);
  EXPECT_EQ(first.bytes, 4.0 * (images * in * 7 * 5 + out * 2 * 3 * 2 + images * out * height * width));
  const NodeWork last = Of("Conv", {F32({images, 7, 5, in}), F32(w, true)}, {F32({images, height, width, out})}, {},
                           "quern.cpu", /*packed_bytes=*/1000);
  EXPECT_EQ(last.operations, 2.0 * products);
  EXPECT_EQ(last.bytes, 4.0 * (images * in * 7 * 5 + images * out * height * width) + 1000);
  const Types integers = {U8({images, in, 7, 5}), F32({}, true), U8({}, true), U8(w, true)};
  const OperandType offsets = F32({images, 2 * 3 * 3, height, width});
  EXPECT_EQ(Of("DeformConv", {F32({images, in, 7, 5}), F32(w, true), offsets}, {F32({images, out, height, width})})
                .operations,
            2.0 * products);
  EXPECT_EQ(Of("QLinearConv", integers, {U8({images, out, height, width})}).operations, 2.0 * products);
}

TEST_F(Work, AChainOfConvolutionsHasTheOperationsOfEach) {
  // [2, 8, 6, 4] by 1x1 to 12 channels, 3x3 with stride 2, 1x1 to 5 channels; [1] are biases.
  const Types before = {F32({2, 8, 6, 4}), F32({12, 4, 1, 1}, true), F32({1}, true), F32({12, 1, 3, 3}, true)};
  const double expand = 2.0 * 2 * 48 * 12 * 4, depthwise = 2.0 * 2 * 12 * 12 * 9, project = 2.0 * 2 * 12 * 5 * 12;
  EXPECT_EQ(Of("ConvChain", before, {F32({2, 4, 3, 12})}, {}, "quern.cpu").operations, expand + depthwise);
  const OperandType none;
  const Types after = {F32({2, 8, 6, 12}), none, none, F32({12, 1, 3, 3}, true), none, F32({5, 12, 1, 1}, true)};
  EXPECT_EQ(Of("ConvChain", after, {F32({2, 4, 3, 5})}, {}, "quern.cpu").operations, depthwise + project);
}

TEST_F(Work, ATransposedConvolutionSpreadsEachElement) {
  // x [1, 4, 3, 3], w [4, 5, 2, 2]: each of the 36 elements goes to 5 * 2 * 2 results.
  EXPECT_EQ(Of("ConvTranspose", {F32({1, 4, 3, 3}), F32({4, 5, 2, 2}, true)}, {F32({1, 5, 4, 4})}).operations,
            2.0 * 36 * 20);
}

TEST_F(Work, ProductsSumOverK) {
  const double operations = 2.0 * 6 * 7 * 11;
  EXPECT_EQ(Of("MatMul", {F32({2, 3, 11}), F32({11, 7})}, {F32({2, 3, 7})}).operations, operations);
  EXPECT_EQ(Of("MatMul", {F32({11}), F32({11})}, {F32({})}).operations, 22);
  EXPECT_EQ(Of("Gemm", {F32({6, 11}), F32({11, 7})}, {F32({6, 7})}).operations, operations);
  EXPECT_EQ(Of("Gemm", {F32({11, 6}), F32({11, 7})}, {F32({6, 7})}, {{"transA", int64_t{1}}}).operations, operations);
  EXPECT_EQ(Of("FusedMatMul", {F32({11, 6}), F32({11, 7})}, {F32({6, 7})}, {{"transA", int64_t{1}}}, "com.microsoft")
                .operations,
            operations);
  EXPECT_EQ(Of("QLinearMatMul", {U8({6, 11}), F32({}), U8({}), U8({11, 7})}, {U8({6, 7})}).operations, operations);
  EXPECT_EQ(Of("MatMulBnb4", {F32({6, 32}), U8({7 * 16}, true)}, {F32({6, 7})}).operations, 2.0 * 6 * 7 * 32);
  EXPECT_EQ(Of("MatMulNBits", {F32({6, 32}), U8({7, 1, 16}, true)}, {F32({6, 7})}).operations, 2.0 * 6 * 7 * 32);
}

TEST_F(Work, AttentionMultipliesQueriesByKeysAndWeightsByValues) {
  const int64_t batch = 2, heads = 3, kv_heads = 1, queries = 4, past = 5, rows = 6, size = 8, value_size = 7;
  const int64_t keys = past + rows;
  double products = 0;
  for (int64_t score = 0; score < batch * heads * queries * keys; ++score) products += size + value_size;
  const Types split = {F32({batch, heads, queries, size}),       F32({batch, kv_heads, rows, size}),
                       F32({batch, kv_heads, rows, value_size}), OperandType{},
                       F32({batch, kv_heads, past, size}),       F32({batch, kv_heads, past, value_size})};
  EXPECT_EQ(Of("Attention", split, {F32({batch, heads, queries, value_size})}).operations, 2 * products);
  const Types flat = {F32({batch, queries, heads * size}), F32({batch, keys, size}), F32({batch, keys, value_size})};
  EXPECT_EQ(Of("Attention", flat, {F32({batch, queries, heads * value_size})}).operations, 2 * products);

  products = 0;
  for (int64_t score = 0; score < batch * heads * queries * queries; ++score) products += 2 * size;
  const Types packed = {F32({batch, queries, heads, 3, size})};
  const Types result = {F32({batch, queries, heads * size})};
  EXPECT_EQ(Of("MultiHeadAttention", packed, result, {}, "com.microsoft").operations, 2 * products);
  EXPECT_EQ(Of("Attention", {F32({batch, queries, 3 * heads * size})}, result,
               {{"qkv_hidden_sizes", std::vector<int64_t>{heads * size, heads * size, heads * size}}}, "quern.cpu")
                .operations,
            2 * products);
  // com.microsoft's own has the projection too.
  const int64_t width = 10;
  const double projection = 2.0 * batch * queries * width * 3 * heads * size;
  EXPECT_EQ(
      Of("Attention", {F32({batch, queries, width}), F32({width, 3 * heads * size}, true)}, result, {}, "com.microsoft")
          .operations,
      2 * products + projection);
  // The keys of one head serve three.
  const Types grouped = {F32({batch, queries, heads * size}), F32({batch, queries, size}), F32({batch, queries, size})};
  EXPECT_EQ(Of("GroupQueryAttention", grouped, result, {}, "com.microsoft").operations, 2 * products);
}

TEST_F(Work, RecurrenceMultipliesInEachStep) {
  const int64_t steps = 5, batch = 2, input = 3, hidden = 4;
  const Types in = {F32({steps, batch, input}), F32({1, 4 * hidden, input}, true), F32({1, 4 * hidden, hidden}, true)};
  EXPECT_EQ(Of("LSTM", in, {F32({steps, 1, batch, hidden})}).operations,
            2.0 * steps * batch * 4 * hidden * (input + hidden));
}

TEST_F(Work, TokensMultiplyByTheirExperts) {
  const int64_t tokens = 3, experts = 24, hidden = 10, units = 7;
  Types in = {F32({1, tokens, hidden}),
              F32({tokens, experts}),
              F32({experts, 2 * units, hidden}, true),
              {},
              F32({experts, hidden, units}, true)};
  const std::map<std::string, Attribute, std::less<>> fused = {{"k", int64_t{4}}, {"swiglu_fusion", int64_t{1}}};
  EXPECT_EQ(Of("MoE", in, {F32({1, tokens, hidden})}, fused, "com.microsoft").operations,
            2.0 * tokens * 4 * 3 * units * hidden);
  // Of the packed weights, those of at most 12 experts are read.
  const NodeWork packed = Of("MoE", in, {F32({1, tokens, hidden})}, fused, "com.microsoft", /*packed_bytes=*/4000);
  EXPECT_EQ(packed.bytes, 4.0 * (2 * tokens * hidden + tokens * experts) + 2000);
  in[2] = F32({experts, units, hidden}, true);
  in.resize(7);
  in[6] = in[2];
  EXPECT_EQ(Of("MoE", in, {F32({1, tokens, hidden})}, {{"k", int64_t{2}}}, "com.microsoft").operations,
            2.0 * tokens * 2 * 3 * units * hidden);
}

TEST_F(Work, OthersMoveBytesOnly) {
  const NodeWork add = Of("Add", {F32({8, 4}), F32({4}, true)}, {F32({8, 4})});
  EXPECT_EQ(add.operations, 0);
  EXPECT_EQ(add.bytes, 4.0 * (32 + 4 + 32));
  // A table is read where it is gathered, not all of it; what is omitted or no tensor counts nothing.
  const NodeWork gather = Of("Gather", {F32({30000, 8}), {DType::kI64, {2}}, OperandType{}}, {F32({2, 8})});
  EXPECT_EQ(gather.bytes, 64.0 + 16 + 64);
  EXPECT_EQ(Of("Attention", {OperandType{}}, {OperandType{}}).operations, 0);
  EXPECT_EQ(Of("Conv", {F32({1, 1, 3, 3}), F32({0, 1, 1, 1})}, {F32({1, 0, 3, 3})}).operations, 0);
}

}  // namespace
}  // namespace quern
