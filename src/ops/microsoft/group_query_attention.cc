// com.microsoft.GroupQueryAttention: causal attention over a cache, groups of query heads sharing a head of keys.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/common/elements.h"
#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"
#include "ops/common/infer_common.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCosines,
  kSines,
  kPositions,
  kAttentionBias,
  kHeadSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm
};

// Forms of the operator that the specification leaves to providers.
Status RefuseForms(const InferContext& c) {
  const Node& node = c.node();
  const auto refuse = [&](const std::string& what) {
    return Unsupported(node.Describe() + ": " + what + " is not supported");
  };
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (node.GetString(name, "NONE") != "NONE") return refuse("a quantized cache ('" + std::string(name) + "')");
  }
  if (c.HasInput(kKeyScale) || c.HasInput(kValueScale)) return refuse("a quantized cache (k_scale, v_scale)");
  return OkStatus();
}

Status CheckAttributes(const InferContext& c, int64_t heads, int64_t kv_heads) {
  const Node& node = c.node();
  if (heads % kv_heads != 0) {
    return c.Error("'kv_num_heads' = " + std::to_string(kv_heads) +
                   " does not divide 'num_heads' = " + std::to_string(heads));
  }
  const int64_t window = node.GetInt("local_window_size", -1), causal = node.GetInt("causal", 1);
  if (window < -1 || window == 0) {
    return c.Error("'local_window_size' is " + std::to_string(window) + "; -1 or a positive number is needed");
  }
  if (causal != 0 && causal != 1) return c.Error("'causal' is " + std::to_string(causal) + "; 0 or 1 is needed");
  if (causal == 0 && window != -1) return c.Error("'local_window_size' needs 'causal' = 1");
  if (node.GetInt("sliding_window_cache", 0) != 0 && (window < 1 || !c.HasInput(kPastKey))) {
    return c.Error("'sliding_window_cache' = 1 needs a 'local_window_size' and past_key");
  }
  const int64_t qk = node.GetInt("qk_output", 0);
  if (qk < 0 || qk > 2) return c.Error("'qk_output' is " + std::to_string(qk) + "; 0, 1 or 2 is needed");
  if (c.node().output(3) != nullptr && qk == 0) return c.Error("the output output_qk needs 'qk_output' = 1 or 2");
  if (c.HasInput(kKey) != c.HasInput(kValue)) return c.Error("key and value must be given together");
  if (c.HasInput(kPastKey) != c.HasInput(kPastValue)) return c.Error("past_key and past_value must be given together");
  if (c.HasInput(kQueryNorm) != c.HasInput(kKeyNorm)) {
    return c.Error("q_norm_weight and k_norm_weight must be given together");
  }
  if (node.GetInt("do_rotary", 0) != 0 && !(c.HasInput(kCosines) && c.HasInput(kSines))) {
    return c.Error("'do_rotary' = 1 needs the inputs cos_cache and sin_cache");
  }
  return OkStatus();
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(RefuseForms(c));
  QUERN_ASSIGN_OR_RETURN(const int64_t heads, ReadHeadCount(c, "num_heads"));
  QUERN_ASSIGN_OR_RETURN(const int64_t kv_heads, ReadHeadCount(c, "kv_num_heads"));
  QUERN_RETURN_IF_ERROR(CheckAttributes(c, heads, kv_heads));
  const DType dtype = c.input_dtype(kQuery);
  const DType cache_dtype = c.HasInput(kPastKey) ? c.input_dtype(kPastKey) : dtype;
  const std::optional<Dims> q = c.input_shape(kQuery);
  if (!q) {
    for (const int o : {0, 3}) c.SetOutputType(o, ValueType::Tensor(dtype));
    for (const int o : {1, 2}) c.SetOutputType(o, ValueType::Tensor(cache_dtype));
    return OkStatus();
  }
  if (q->size() != 3) return c.Error("the query has shape " + DimsToString(*q) + "; 3 dimensions are needed");
  const Dim &batch = (*q)[0], &length = (*q)[1], &columns = (*q)[2];
  const int64_t in_query = c.HasInput(kKey) ? heads : heads + 2 * kv_heads;
  if (columns.is_constant() && (columns.value() % in_query != 0 || columns.value() == 0)) {
    return c.Error("the query has " + columns.ToString() + " columns, which are not those of " +
                   std::to_string(in_query) + " heads");
  }
  const Dim size = Dim::FloorDiv(columns, in_query);
  for (const int i : {kKey, kValue}) QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {batch, length, size * kv_heads}));
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kHeadSink, {heads}));
  for (const int i : {kQueryNorm, kKeyNorm}) QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {size}));
  if (const std::optional<Dims> lengths = c.input_shape(kLengths)) {
    if (Differ(Product(*lengths), batch)) {
      return c.Error("seqlens_k has shape " + DimsToString(*lengths) + "; one entry per sample is needed");
    }
  }
  if (const std::optional<Dims> cosines = c.input_shape(kCosines); cosines && c.HasInput(kSines)) {
    if (cosines->size() != 2 || (cosines->back().is_constant() && size.is_constant() &&
                                 (cosines->back().value() < 1 || cosines->back().value() > size.value() / 2))) {
      return c.Error("cos_cache has shape " + DimsToString(*cosines) + ", which does not fit heads of " +
                     size.ToString() + " elements");
    }
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, kSines, *cosines));
  }
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, kPositions, {batch, length}));
  QUERN_RETURN_IF_ERROR(CheckOneElement(c, kTotal));
  const std::optional<Dims> given = c.input_data(kTotal);
  const Dim total = given && given->size() == 1 ? (*given)[0] : Dim::Unknown();
  Dim rows = total;
  if (c.HasInput(kPastKey)) {
    const std::optional<Dims> past = c.input_shape(kPastKey);
    const Dim past_rows = past && past->size() == 4 ? (*past)[2] : Dim::Unknown();
    for (const int i : {kPastKey, kPastValue}) {
      QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {batch, kv_heads, past_rows, size}));
    }
    rows = Dim::Max(total, past_rows);
    if (c.node().GetInt("sliding_window_cache", 0) != 0) {
      rows = past_rows;
      const int64_t window = c.node().GetInt("local_window_size", -1);
      if (rows.is_constant() && rows.value() < window) {
        return c.Error("past_key has " + rows.ToString() +
                       " rows, fewer than 'local_window_size' = " + std::to_string(window));
      }
    }
  }
  QUERN_RETURN_IF_ERROR(CheckAttentionBias(c, kAttentionBias, batch, heads, length, total));
  c.SetOutputType(0, ValueType::Tensor(dtype, Dims{batch, length, size * heads}));
  for (const int o : {1, 2}) {
    c.SetOutputType(o, ValueType::Tensor(cache_dtype, Dims{batch, kv_heads, rows, size}));
  }
  c.SetOutputType(3, ValueType::Tensor(dtype, Dims{batch, heads, length, total}));
  return OkStatus();
}

// The rows that attention works on are those of the cache that is returned. With a sliding cache they are the rows in
// use of the one given, then the new ones.
struct Sizes {
  int64_t batch, length, heads, kv_heads, size;
  int64_t total;            // keys of the longest sample since its beginning, the new ones included
  int64_t past_rows, rows;  // of the cache given, and those worked on
  int64_t window;           // of a sliding cache, else 0
  // Per sample: rows that count, rows before the new ones, and the position of row 0.
  std::vector<int64_t> keys, past, first;

  bool is_prompt() const { return total == length; }
  // Rows of a sliding cache in use after `keys` in all: once full it drops as many at once as it has above its window.
  int64_t Resident(int64_t keys_in_all) const {
    if (window == 0 || keys_in_all <= past_rows) return keys_in_all;
    const int64_t step = past_rows - window + 1;
    return keys_in_all - (keys_in_all - past_rows + step - 1) / step * step;
  }
};

Result<Sizes> ReadSizes(EvalContext& c) {
  const Shape& q = c.input(kQuery).shape();
  Sizes s{.batch = q[0],
          .length = q[1],
          .heads = c.node().GetInt("num_heads", 1),
          .kv_heads = c.node().GetInt("kv_num_heads", 1),
          .size = 0,
          .total = 0,
          .past_rows = 0,
          .rows = 0,
          .window = 0,
          .keys = {},
          .past = {},
          .first = {}};
  s.size = q[2] / (c.HasInput(kKey) ? s.heads : s.heads + 2 * s.kv_heads);
  QUERN_ASSIGN_OR_RETURN(s.total, ReadOneInt(c, kTotal));
  if (s.total < s.length) {
    return c.Error("total_sequence_length is " + std::to_string(s.total) + " but there are " +
                   std::to_string(s.length) + " new keys");
  }
  if (c.HasInput(kPastKey)) s.past_rows = c.input(kPastKey).dim(2);
  if (c.node().GetInt("sliding_window_cache", 0) != 0) s.window = c.node().GetInt("local_window_size", -1);
  s.rows = s.window > 0 ? s.past_rows + s.length : std::max(s.total, s.past_rows);
  QUERN_ASSIGN_OR_RETURN(s.keys, ReadInts(c, kLengths));
  for (int64_t& keys : s.keys) {
    const int64_t entry = keys++;
    // A prompt starts at row 0 and may be padded on the right; later steps come right after the rows in use.
    const int64_t before = s.is_prompt() ? 0 : keys - s.length, past = s.Resident(before);
    if (keys < 0 || keys > s.total || before < 0 || past > s.past_rows) {
      return c.Error("seqlens_k has the entry " + std::to_string(entry) + ", which does not fit " +
                     std::to_string(s.length) + " new keys of total_sequence_length " + std::to_string(s.total) +
                     " and a cache of " + std::to_string(s.past_rows) + " rows");
    }
    s.past.push_back(past);
    s.first.push_back(before - past);
    keys -= before - past;
  }
  return s;
}

// Normalizes every head by its root mean square.
void NormalizeHeads(std::vector<float>& heads, const FloatInput<float>& weight, double epsilon) {
  const int64_t size = weight.num_elements();
  for (size_t at = 0; at < heads.size(); at += size) {
    double squares = 0;
    for (int64_t p = 0; p < size; ++p) squares += static_cast<double>(heads[at + p]) * heads[at + p];
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(size) + epsilon);
    for (int64_t p = 0; p < size; ++p) heads[at + p] = static_cast<float>(heads[at + p] * inverse * weight[p]);
  }
}

// Rotates new queries and keys by the angles of their positions.
Status Rotate(EvalContext& c, const Sizes& s, std::vector<float>& q, std::vector<float>& k) {
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> cosines, ReadFloats<float>(c, kCosines));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> sines, ReadFloats<float>(c, kSines));
  std::vector<int64_t> given;
  if (c.HasInput(kPositions)) {
    QUERN_ASSIGN_OR_RETURN(given, ReadInts(c, kPositions));
  }
  const bool interleaved = c.node().GetInt("rotary_interleaved", 0) != 0;
  const int64_t half = cosines.shape()[1], rows = cosines.shape()[0];
  const bool is_prompt = s.is_prompt();
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.length; ++i) {
      // Of a first prompt only the first position counts, for all samples.
      const int64_t start = given.empty() ? s.first[b] + s.past[b] : given[is_prompt ? 0 : b * s.length + i];
      const int64_t step = given.empty() || is_prompt ? i : 0;
      if (start < 0 || start >= rows - step) {
        return c.Error("position " + std::to_string(start) + (step > 0 ? " + " + std::to_string(step) : "") +
                       " is outside of cos_cache and sin_cache of " + std::to_string(rows) + " rows");
      }
      const int64_t position = start + step;
      const float *cosine = cosines.data() + position * half, *sine = sines.data() + position * half;
      for (int64_t h = 0; h < s.heads; ++h) {
        RotateHead(q.data() + ((b * s.heads + h) * s.length + i) * s.size, half, cosine, sine, interleaved);
      }
      for (int64_t h = 0; h < s.kv_heads; ++h) {
        RotateHead(k.data() + ((b * s.kv_heads + h) * s.length + i) * s.size, half, cosine, sine, interleaved);
      }
    }
  }
  return OkStatus();
}

// Writes the cache that the working rows leave; a sliding one keeps the last of them.
void StorePresent(const Sizes& s, const std::vector<float>& rows, FloatOutput<float>& present) {
  if (s.window == 0) {
    std::copy(rows.begin(), rows.end(), present.data());
    return;
  }
  std::fill_n(present.data(), present.num_elements(), 0.0f);
  for (int64_t head = 0; head < s.batch * s.kv_heads; ++head) {
    const int64_t b = head / s.kv_heads, kept = s.Resident(s.first[b] + s.keys[b]);
    const float* from = rows.data() + (head * s.rows + s.keys[b] - kept) * s.size;
    std::copy_n(from, kept * s.size, present.data() + head * s.past_rows * s.size);
  }
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(c));
  const Node& node = c.node();
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> query, ReadFloats<float>(c, kQuery));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> key, ReadFloats<float>(c, kKey));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> value, ReadFloats<float>(c, kValue));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past_key, ReadFloats<float>(c, kPastKey));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past_value, ReadFloats<float>(c, kPastValue));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> head_sink, ReadFloats<float>(c, kHeadSink));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  QUERN_RETURN_IF_ERROR(CheckScratch(c, {2, s.batch, s.kv_heads, s.rows, s.size}));

  const int64_t columns = query.shape()[2], width = s.heads * s.size, kv_width = s.kv_heads * s.size;
  std::vector<float> q = TakeHeads({query.data(), columns, s.size}, s.batch, s.heads, s.length, s.size);
  const HeadRows keys = key ? HeadRows{key.data(), kv_width, s.size} : HeadRows{query.data() + width, columns, s.size};
  const HeadRows values =
      value ? HeadRows{value.data(), kv_width, s.size} : HeadRows{query.data() + width + kv_width, columns, s.size};
  std::vector<float> k = TakeHeads(keys, s.batch, s.kv_heads, s.length, s.size);
  std::vector<float> v = TakeHeads(values, s.batch, s.kv_heads, s.length, s.size);
  if (c.HasInput(kQueryNorm)) {
    const double epsilon = node.GetFloat("qk_norm_epsilon", 1e-6f);
    for (const auto& [heads, weight] : {std::pair(&q, kQueryNorm), std::pair(&k, kKeyNorm)}) {
      QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scale, ReadFloats<float>(c, weight));
      NormalizeHeads(*heads, scale, epsilon);
    }
  }
  if (node.GetInt("do_rotary", 0) != 0) QUERN_RETURN_IF_ERROR(Rotate(c, s, q, k));
  const CacheJoin join{.batch = s.batch,
                       .heads = s.kv_heads,
                       .size = s.size,
                       .past_rows = s.past_rows,
                       .new_rows = s.length,
                       .rows = s.rows,
                       .used = [&](int64_t b) { return s.past[b]; }};
  k = JoinCache(join, past_key ? past_key.data() : nullptr, k.data());
  v = JoinCache(join, past_value ? past_value.data() : nullptr, v.data());
  for (const int i : {1, 2}) {
    if (!c.HasOutput(i)) continue;
    QUERN_ASSIGN_OR_RETURN(FloatOutput<float> present, WriteFloats<float>(c, outputs, i));
    StorePresent(s, i == 1 ? k : v, present);
    present.Finish();
  }

  QUERN_ASSIGN_OR_RETURN(const ScoreBias score_bias, ScoreBias::Make(c, {.mask_input = -1,
                                                                         .bias_input = kAttentionBias,
                                                                         .batch = s.batch,
                                                                         .heads = s.heads,
                                                                         .queries = s.length,
                                                                         .past = 0,
                                                                         .new_keys = s.total}));
  const double scale = node.GetFloat("scale", 0.0f);
  const bool causal = node.GetInt("causal", 1) != 0;
  const int64_t window = node.GetInt("local_window_size", -1);
  HeadAttention attention{.batch = s.batch,
                          .heads = s.heads,
                          .kv_heads = s.kv_heads,
                          .queries = s.length,
                          .keys = s.window > 0 ? s.rows : s.total,
                          .kv_rows = s.rows,
                          .size = s.size,
                          .value_size = s.size,
                          .scale = scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(s.size)),
                          .softcap = node.GetFloat("softcap", 0.0f)};
  // Of the rows worked on, those whose position is one of `total`.
  const auto in_all = [&](int64_t b) { return static_cast<size_t>(std::min(attention.keys, s.total - s.first[b])); };
  attention.bias = [&](int64_t b, int64_t h, int64_t i, std::span<double> scores) {
    score_bias.Add(b, h, i, scores.first(in_all(b)), s.first[b]);
    const int64_t position = s.past[b] + i;
    for (int64_t j = 0; j < attention.keys; ++j) {
      const bool outside = j >= s.keys[b] || (causal && j > position) || (window > 0 && position - j >= window);
      if (outside) scores[j] = -std::numeric_limits<double>::infinity();
    }
  };
  if (head_sink) {
    attention.sink = [&](int64_t h) { return static_cast<double>(head_sink[h]); };
  } else if (node.GetInt("smooth_softmax", -1) == 1) {
    attention.sink = [](int64_t) { return 0.0; };
  }
  FloatOutput<float> qk;
  if (c.HasOutput(3)) {
    QUERN_ASSIGN_OR_RETURN(qk, WriteFloats<float>(c, outputs, 3));
    std::fill_n(qk.data(), qk.num_elements(), 0.0f);
    (node.GetInt("qk_output", 0) == 1 ? attention.see_scores : attention.see_probabilities) =
        [&](int64_t b, int64_t h, int64_t i, std::span<const double> scores) {
          float* out = qk.data() + ((b * s.heads + h) * s.length + i) * s.total + s.first[b];
          for (size_t j = 0; j < in_all(b); ++j) {
            if (!std::isinf(scores[j])) out[j] = static_cast<float>(scores[j]);  // hidden ones stay 0
          }
        };
  }
  QUERN_RETURN_IF_ERROR(Attend(c, attention, q.data(), k.data(), v.data(), y.data()));
  y.Finish();
  if (c.HasOutput(3)) qk.Finish();
  return OkStatus();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr TypeSet kCacheTypes = kTypes | TypeSet{DType::kU8, DType::kI8, DType::kF8E4M3FN};
constexpr Param kInputs[] = {{"query", "T", kTypes},
                             {"key", "T", kTypes, Arity::kOptional},
                             {"value", "T", kTypes, Arity::kOptional},
                             {"past_key", "T_CACHE", kCacheTypes, Arity::kOptional},
                             {"past_value", "T_CACHE", kCacheTypes, Arity::kOptional},
                             {"seqlens_k", "M", kI32Type},
                             {"total_sequence_length", "M", kI32Type},
                             {"cos_cache", "T", kTypes, Arity::kOptional},
                             {"sin_cache", "T", kTypes, Arity::kOptional},
                             {"position_ids", "", kI64Type, Arity::kOptional},
                             {"attention_bias", "T", kTypes, Arity::kOptional},
                             {"head_sink", "T", kTypes, Arity::kOptional},
                             {"k_scale", "T_KV_SCALE", kF32Type, Arity::kOptional},
                             {"v_scale", "T_KV_SCALE", kF32Type, Arity::kOptional},
                             {"q_norm_weight", "T", kTypes, Arity::kOptional},
                             {"k_norm_weight", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes},
                              {"present_key", "T_CACHE", kCacheTypes, Arity::kOptional},
                              {"present_value", "T_CACHE", kCacheTypes, Arity::kOptional},
                              {"output_qk", "T", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"causal", AttrType::kInt, false, "1"},
                                    {"do_rotary", AttrType::kInt, false, "0"},
                                    {"k_quant_type", AttrType::kString, false, "NONE"},
                                    {"kv_cache_bit_width", AttrType::kInt, false, "0"},
                                    {"kv_num_heads", AttrType::kInt, true},
                                    {"local_window_size", AttrType::kInt, false, "-1"},
                                    {"num_heads", AttrType::kInt, true},
                                    {"qk_norm_epsilon", AttrType::kFloat, false, "1e-06"},
                                    {"qk_output", AttrType::kInt, false, "0"},
                                    {"rotary_interleaved", AttrType::kInt, false, "0"},
                                    {"scale", AttrType::kFloat},
                                    {"sliding_window_cache", AttrType::kInt, false, "0"},
                                    {"smooth_softmax", AttrType::kInt, false, "-1"},
                                    {"softcap", AttrType::kFloat, false, "0"},
                                    {"v_quant_type", AttrType::kString, false, "NONE"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftGroupQueryAttention = {"com.microsoft", "GroupQueryAttention",
                                                                       kVersions};

}  // namespace quern
