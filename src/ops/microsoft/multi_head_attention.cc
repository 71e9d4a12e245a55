// com.microsoft.MultiHeadAttention: attention of projected queries, keys and values, packed or apart, with masks and a
// cache.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"
#include "ops/common/infer_common.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kQuery, kKey, kValue, kBias, kMask, kAttentionBias, kPastKey, kPastValue, kPastLength, kCacheIndirection };

struct Sizes {
  Dim batch, queries, new_keys, past, rows;  // rows: of the cache that is returned
  Dim size, value_size;                      // of a head
};

// Columns of a 3-D input as heads.
Result<Dim> HeadSize(const InferContext& c, int i, int64_t heads) {
  const Dim columns = c.input_shape(i)->back();
  if (columns.is_constant() && columns.value() % heads != 0) {
    return c.Error("input '" + c.node().input(i)->name() + "' has " + columns.ToString() + " columns, which the " +
                   std::to_string(heads) + " heads do not divide");
  }
  return Dim::FloorDiv(columns, heads);
}

Status RankError(const InferContext& c, int i, const char* wanted) {
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*c.input_shape(i)) + "; " +
                 wanted + " is needed");
}

// Sizes of the new queries, keys and values, by the form that they come in; all input shapes are known.
Status ReadForm(const InferContext& c, int64_t heads, Sizes& s) {
  const Dims q = *c.input_shape(kQuery);
  const bool has_key = c.HasInput(kKey), has_value = c.HasInput(kValue);
  if (q.size() != 3 && q.size() != 5) return RankError(c, kQuery, "[batch, length, hidden] or a packed form of rank 5");
  s.batch = q[0];
  s.queries = q[1];
  if (q.size() == 5) {
    if (has_key || has_value) return c.Error("a packed query takes neither key nor value");
    s.size = s.value_size = q[4];
    s.new_keys = q[1];
    return CheckInputShape(c, kQuery, {s.batch, s.queries, heads, 3, s.size});
  }
  if (!has_key) return c.Error("a query of rank 3 needs the input 'key'");
  QUERN_ASSIGN_OR_RETURN(s.size, HeadSize(c, kQuery, heads));
  const Dims k = *c.input_shape(kKey);
  if (k.size() == 5) {
    if (has_value) return c.Error("a packed key takes no value");
    s.value_size = s.size;
    s.new_keys = k[1];
    return CheckInputShape(c, kKey, {s.batch, s.new_keys, heads, 2, s.size});
  }
  if (k.size() != 3 && k.size() != 4) return RankError(c, kKey, "a rank of 3, 4 or 5");
  if (!has_value) return c.Error("a key of rank 3 or 4 needs the input 'value'");
  const Dims v = *c.input_shape(kValue);
  if (v.size() != k.size()) return RankError(c, kValue, "the rank of the key");
  if (k.size() == 4) {
    if (c.HasInput(kPastKey)) return c.Error("a key of rank 4 is a past itself and excludes past_key");
    s.new_keys = k[2];
    s.value_size = v[3];
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kKey, {s.batch, heads, s.new_keys, s.size}));
    return CheckInputShape(c, kValue, {s.batch, heads, s.new_keys, s.value_size});
  }
  s.new_keys = k[1];
  QUERN_ASSIGN_OR_RETURN(s.value_size, HeadSize(c, kValue, heads));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kKey, {s.batch, s.new_keys, q[2]}));
  return CheckInputShape(c, kValue, {s.batch, s.new_keys, v[2]});
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const int64_t heads, ReadHeadCount(c, "num_heads"));
  if (c.HasInput(kCacheIndirection)) {
    return Unsupported(c.node().Describe() + ": cache_indirection (beams that share a cache) is not supported");
  }
  const bool has_past = c.HasInput(kPastKey);
  if (has_past != c.HasInput(kPastValue)) return c.Error("past_key and past_value must be given together");
  const DType dtype = c.input_dtype(kQuery);
  for (const int i : {kQuery, kKey, kValue}) {
    if (!c.HasInput(i) || c.input_shape(i)) continue;
    for (int o = 0; o < 4; ++o) c.SetOutputType(o, ValueType::Tensor(dtype));
    return OkStatus();
  }
  Sizes s;
  QUERN_RETURN_IF_ERROR(ReadForm(c, heads, s));
  if (s.size.is_constant(0)) return c.Error("the heads of the query have no elements");
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kBias, {(s.size * 2 + s.value_size) * heads}));
  s.past = 0;
  s.rows = s.new_keys;
  if (has_past) {
    const std::optional<Dims> past = c.input_shape(kPastKey);
    s.past = past && past->size() == 4 ? (*past)[2] : Dim::Unknown();
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kPastKey, {s.batch, heads, s.past, s.size}));
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kPastValue, {s.batch, heads, s.past, s.value_size}));
    s.rows = s.past + s.new_keys;
    if (c.HasInput(kPastLength)) {  // the past is a buffer that the present takes over
      QUERN_RETURN_IF_ERROR(CheckOneElement(c, kPastLength));
      s.rows = s.past;
      const std::optional<Dims> used = c.input_data(kPastLength);
      s.past = used && used->size() == 1 ? (*used)[0] : Dim::Unknown();
    }
  }
  const Dim keys = s.past + s.new_keys;
  QUERN_RETURN_IF_ERROR(CheckAttentionMask(c, kMask, s.batch, s.queries, s.new_keys, keys));
  QUERN_RETURN_IF_ERROR(CheckAttentionBias(c, kAttentionBias, s.batch, heads, s.queries, keys));
  c.SetOutputType(0, ValueType::Tensor(dtype, Dims{s.batch, s.queries, s.value_size * heads}));
  c.SetOutputType(1, ValueType::Tensor(dtype, Dims{s.batch, heads, s.rows, s.size}));
  c.SetOutputType(2, ValueType::Tensor(dtype, Dims{s.batch, heads, s.rows, s.value_size}));
  c.SetOutputType(3, ValueType::Tensor(dtype, Dims{s.batch, heads, s.queries, keys}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Node& node = c.node();
  const int64_t heads = node.GetInt("num_heads", 1), batch = outputs.shape(0)[0], queries = outputs.shape(0)[1];
  const int64_t value_size = outputs.shape(0)[2] / heads;
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> query, ReadFloats<float>(c, kQuery));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> key, ReadFloats<float>(c, kKey));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> value, ReadFloats<float>(c, kValue));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> bias, ReadFloats<float>(c, kBias));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past_key, ReadFloats<float>(c, kPastKey));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past_value, ReadFloats<float>(c, kPastValue));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  const bool packed_query = query.shape().rank() == 5, packed_key = key && key.shape().rank() == 5;
  const bool transposed = key && key.shape().rank() == 4;
  const int64_t size = packed_query ? query.shape()[4] : query.shape()[2] / heads;
  const int64_t new_keys = packed_query ? queries : key.shape()[transposed ? 2 : 1];

  // Each of the three as rows of heads; packed ones lie side by side within a head.
  const float* biases = bias ? bias.data() : nullptr;
  const auto bias_at = [&](int64_t offset) { return biases ? biases + offset : nullptr; };
  const int64_t width = heads * size, in_query = packed_query ? 3 : 1;
  const auto rows_of = [&](const float* data, int64_t parts, int64_t head, int64_t bias_offset) {
    return HeadRows{data, heads * parts * head, parts * head, bias_at(bias_offset)};
  };
  const std::vector<float> q = TakeHeads(rows_of(query.data(), in_query, size, 0), batch, heads, queries, size);
  std::vector<float> k, v;
  if (transposed) {
    k.assign(key.data(), key.data() + key.num_elements());
    v.assign(value.data(), value.data() + value.num_elements());
  } else {
    const HeadRows keys = packed_query ? rows_of(query.data() + size, 3, size, width)
                                       : rows_of(key.data(), packed_key ? 2 : 1, size, width);
    const HeadRows values = packed_query ? rows_of(query.data() + 2 * size, 3, size, 2 * width)
                            : packed_key ? rows_of(key.data() + size, 2, size, 2 * width)
                                         : rows_of(value.data(), 1, value_size, 2 * width);
    k = TakeHeads(keys, batch, heads, new_keys, size);
    v = TakeHeads(values, batch, heads, new_keys, value_size);
  }

  int64_t past = 0, rows = new_keys;
  if (past_key) {
    const int64_t past_rows = past_key.shape()[2];
    const bool shares = c.HasInput(kPastLength);
    past = past_rows;
    rows = past_rows + new_keys;
    if (shares) {
      QUERN_ASSIGN_OR_RETURN(past, ReadOneInt(c, kPastLength));
      rows = past_rows;
      if (past < 0 || past > past_rows - new_keys) {
        return c.Error("past_sequence_length is " + std::to_string(past) + " but the cache has " +
                       std::to_string(past_rows) + " rows for it and " + std::to_string(new_keys) + " new ones");
      }
    }
    CacheJoin join{.batch = batch,
                   .heads = heads,
                   .size = size,
                   .past_rows = past_rows,
                   .new_rows = new_keys,
                   .rows = rows,
                   .keeps_rest = shares,
                   .used = [past](int64_t) { return past; }};
    k = JoinCache(join, past_key.data(), k.data());
    join.size = value_size;
    v = JoinCache(join, past_value.data(), v.data());
  }
  for (const int i : {1, 2}) {
    if (!c.HasOutput(i)) continue;
    QUERN_ASSIGN_OR_RETURN(FloatOutput<float> present, WriteFloats<float>(c, outputs, i));
    const std::vector<float>& from = i == 1 ? k : v;
    std::copy(from.begin(), from.end(), present.data());
    present.Finish();
  }
  QUERN_ASSIGN_OR_RETURN(const ScoreBias score_bias,
                         ScoreBias::Make(c, {.mask_input = kMask,
                                             .bias_input = kAttentionBias,
                                             .batch = batch,
                                             .heads = heads,
                                             .queries = queries,
                                             .past = past,
                                             .new_keys = new_keys,
                                             .filter = node.GetFloat("mask_filter_value", -10000.0f),
                                             .causal = node.GetInt("unidirectional", 0) != 0}));
  const double scale = node.GetFloat("scale", 0.0f);
  HeadAttention attention{.batch = batch,
                          .heads = heads,
                          .kv_heads = heads,
                          .queries = queries,
                          .keys = past + new_keys,
                          .kv_rows = rows,
                          .size = size,
                          .value_size = value_size,
                          .scale = scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(size))};
  attention.bias = [&](int64_t b, int64_t h, int64_t i, std::span<double> scores) { score_bias.Add(b, h, i, scores); };
  FloatOutput<float> qk;
  if (c.HasOutput(3)) {
    QUERN_ASSIGN_OR_RETURN(qk, WriteFloats<float>(c, outputs, 3));
    constexpr double kLowest = std::numeric_limits<float>::lowest();  // instead of the infinity of a hidden key
    attention.see_scores = [&](int64_t b, int64_t h, int64_t i, std::span<const double> scores) {
      float* out = qk.data() + ((b * heads + h) * queries + i) * attention.keys;
      for (const double s : scores) *out++ = static_cast<float>(std::max(s, kLowest));
    };
  }
  QUERN_RETURN_IF_ERROR(Attend(c, attention, q.data(), k.data(), v.data(), y.data()));
  y.Finish();
  if (c.HasOutput(3)) qk.Finish();
  return OkStatus();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"query", "T", kTypes},
                             {"key", "T", kTypes, Arity::kOptional},
                             {"value", "T", kTypes, Arity::kOptional},
                             {"bias", "T", kTypes, Arity::kOptional},
                             {"key_padding_mask", "M", kI32Type, Arity::kOptional},
                             {"attention_bias", "T", kTypes, Arity::kOptional},
                             {"past_key", "T", kTypes, Arity::kOptional},
                             {"past_value", "T", kTypes, Arity::kOptional},
                             {"past_sequence_length", "M", kI32Type, Arity::kOptional},
                             {"cache_indirection", "M", kI32Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes},
                              {"present_key", "T", kTypes, Arity::kOptional},
                              {"present_value", "T", kTypes, Arity::kOptional},
                              {"qk", "QK", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"mask_filter_value", AttrType::kFloat, false, "-10000"},
                                    {"num_heads", AttrType::kInt, true},
                                    {"scale", AttrType::kFloat},
                                    {"unidirectional", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftMultiHeadAttention = {"com.microsoft", "MultiHeadAttention", kVersions};

}  // namespace quern
