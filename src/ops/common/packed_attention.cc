#include "ops/common/packed_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

// Columns of the weights that make queries, keys and values.
Result<std::array<Dim, 3>> ReadWidths(const InferContext& c, int64_t heads) {
  const std::optional<Dims> weights = c.input_shape(1);
  if (weights && weights->size() != 2) return c.Error("the weights have shape " + DimsToString(*weights));
  const Dim columns = weights ? (*weights)[1] : Dim::Unknown();
  std::array<Dim, 3> widths;
  const auto* given = c.node().FindAttribute<std::vector<int64_t>>("qkv_hidden_sizes");
  if (given && !given->empty()) {
    const auto text = [&] {
      std::string list;
      for (const int64_t size : *given) list += (list.empty() ? "" : ", ") + std::to_string(size);
      return "attribute 'qkv_hidden_sizes' is [" + list + "]";
    };
    if (given->size() != 3 || (*given)[0] != (*given)[1]) {
      return c.Error(text() + "; three sizes are needed, the first two alike");
    }
    for (const int64_t size : *given) {
      if (size < 1 || size > (int64_t{1} << 31) || size % heads != 0) {
        return c.Error(text() + "; positive multiples of the " + std::to_string(heads) + " heads are needed");
      }
    }
    std::copy(given->begin(), given->end(), widths.begin());
    if (Differ(columns, widths[0] + widths[1] + widths[2])) {
      return c.Error(text() + " but the weights have " + columns.ToString() + " columns");
    }
    return widths;
  }
  if (columns.is_constant() && (columns.value() == 0 || columns.value() % (3 * heads) != 0)) {
    return c.Error("the weights have " + columns.ToString() + " columns; a multiple of 3 * " + std::to_string(heads) +
                   " heads is needed");
  }
  widths.fill(Dim::FloorDiv(columns, 3));
  return widths;
}

// Rotates queries and keys by the angles of rotary embedding with base 10000.
void RotateByPosition(std::vector<float>& heads, int64_t rows, int64_t size, int64_t rotated, int64_t first_position) {
  const int64_t half = rotated / 2;
  std::vector<float> cosines(static_cast<size_t>(half)), sines(cosines.size());
  for (int64_t s = 0; s < rows; ++s) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first_position + s) /
                           std::pow(10000.0, static_cast<double>(2 * i) / static_cast<double>(rotated));
      cosines[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(std::sin(angle));
    }
    for (size_t at = s * size; at < heads.size(); at += rows * size) {
      RotateHead(heads.data() + at, half, cosines.data(), sines.data(), false);
    }
  }
}

}  // namespace

Status InferPackedAttention(InferContext& c, const PackedAttentionInputs& in, DType dtype) {
  QUERN_ASSIGN_OR_RETURN(const int64_t heads, ReadHeadCount(c, "num_heads"));
  QUERN_ASSIGN_OR_RETURN(const auto widths, ReadWidths(c, heads));
  const std::optional<Dims> x = c.input_shape(0);
  if (x && x->size() != 3) return c.Error("the input has shape " + DimsToString(*x) + "; 3 dimensions are needed");
  const Dim batch = x ? (*x)[0] : Dim::Unknown(), length = x ? (*x)[1] : Dim::Unknown();
  const Dim width = x ? (*x)[2] : Dim::Unknown();
  const Dim columns = widths[0] + widths[1] + widths[2], size = Dim::FloorDiv(widths[0], heads);
  QUERN_RETURN_IF_ERROR(CheckInputShape(c, 1, {width, columns}));
  if (in.bias >= 0) QUERN_RETURN_IF_ERROR(CheckInputShape(c, in.bias, {columns}));
  const int64_t rotated = c.node().GetInt("rotary_embedding_dim", 0);
  if (c.node().GetInt("do_rotary", 0) != 0 &&
      (rotated < 0 || rotated % 2 != 0 || (size.is_constant() && (rotated > size.value() || size.value() % 2 != 0)))) {
    return c.Error("attribute 'rotary_embedding_dim' = " + std::to_string(rotated) + " does not fit heads of " +
                   size.ToString() + " elements; an even part is rotated");
  }
  const bool has_past = c.HasInput(in.past), shares = has_past && c.node().GetInt("past_present_share_buffer", 0) != 0;
  Dim past = 0, rows = length;
  if (has_past || c.node().output(1) != nullptr) {
    if (Differ(widths[0], widths[2])) return c.Error("a cache needs keys and values of one size");
  }
  if (has_past) {
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, in.past, {2, batch, heads, Dim::Unknown(), size}));
    const std::optional<Dims> shape = c.input_shape(in.past);
    past = shape ? (*shape)[3] : Dim::Unknown();
    rows = past + length;
    if (shares) {
      if (in.past_length < 0 || !c.HasInput(in.past_length)) {
        return c.Error("'past_present_share_buffer' = 1 needs the input past_sequence_length");
      }
      QUERN_RETURN_IF_ERROR(CheckOneElement(c, in.past_length));
      rows = past;
      const std::optional<Dims> used = c.input_data(in.past_length);
      past = used && used->size() == 1 ? (*used)[0] : Dim::Unknown();
    }
  }
  const Dim keys = past + length;
  QUERN_RETURN_IF_ERROR(CheckAttentionMask(c, in.mask, batch, length, length, keys));
  if (in.attention_bias >= 0) {
    QUERN_RETURN_IF_ERROR(CheckAttentionBias(c, in.attention_bias, batch, heads, length, keys));
  }
  c.SetOutputType(0, ValueType::Tensor(dtype, Dims{batch, length, widths[2]}));
  c.SetOutputType(1, ValueType::Tensor(dtype, Dims{2, batch, heads, rows, size}));
  return OkStatus();
}

Status EvaluatePackedAttention(EvalContext& c, Status (*infer)(InferContext&), const PackedAttentionInputs& in,
                               const ProjectRow& project) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  const Node& node = c.node();
  const int64_t batch = c.input(0).dim(0), length = c.input(0).dim(1), columns = c.input(1).dim(1);
  const int64_t heads = node.GetInt("num_heads", 1), value_width = outputs.shape(0)[2];
  const int64_t width = (columns - value_width) / 2, size = width / heads, value_size = value_width / heads;
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> bias, ReadFloats<float>(c, in.bias));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> cache, ReadFloats<float>(c, in.past));
  int64_t past = cache ? cache.shape()[3] : 0;
  const bool shares = cache && node.GetInt("past_present_share_buffer", 0) != 0;
  const int64_t past_rows = past;
  if (shares) {
    QUERN_ASSIGN_OR_RETURN(past, ReadOneInt(c, in.past_length));
    if (past < 0 || past > past_rows - length) {
      return c.Error("past_sequence_length is " + std::to_string(past) + " but the cache has " +
                     std::to_string(past_rows) + " rows for it and " + std::to_string(length) + " new ones");
    }
  }
  const int64_t keys = past + length;

  QUERN_RETURN_IF_ERROR(CheckScratch(c, {batch, length, columns}));
  std::vector<float> projected(static_cast<size_t>(batch * length * columns));
  std::vector<double> sums(static_cast<size_t>(columns));
  for (int64_t r = 0; r < batch * length; ++r) {
    project(r, sums.data());
    for (int64_t j = 0; j < columns; ++j) {
      projected[r * columns + j] = static_cast<float>(bias ? sums[j] + bias[j] : sums[j]);
    }
  }
  std::vector<float> q = TakeHeads({projected.data(), columns, size}, batch, heads, length, size);
  std::vector<float> k = TakeHeads({projected.data() + width, columns, size}, batch, heads, length, size);
  std::vector<float> v =
      TakeHeads({projected.data() + 2 * width, columns, value_size}, batch, heads, length, value_size);
  if (node.GetInt("do_rotary", 0) != 0) {
    const int64_t given = node.GetInt("rotary_embedding_dim", 0);
    for (std::vector<float>* rows : {&q, &k}) RotateByPosition(*rows, length, size, given > 0 ? given : size, past);
  }
  int64_t rows = length;
  if (cache || c.HasOutput(1)) {
    rows = shares ? past_rows : keys;
    CacheJoin join{.batch = batch,
                   .heads = heads,
                   .size = size,
                   .past_rows = past_rows,
                   .new_rows = length,
                   .rows = rows,
                   .keeps_rest = shares,
                   .used = [past](int64_t) { return past; }};
    k = JoinCache(join, cache ? cache.data() : nullptr, k.data());
    v = JoinCache(join, cache ? cache.data() + cache.num_elements() / 2 : nullptr, v.data());
  }
  if (c.HasOutput(1)) {
    QUERN_ASSIGN_OR_RETURN(FloatOutput<float> present, WriteFloats<float>(c, outputs, 1));
    std::copy(v.begin(), v.end(), std::copy(k.begin(), k.end(), present.data()));
    present.Finish();
  }
  QUERN_ASSIGN_OR_RETURN(const ScoreBias score_bias,
                         ScoreBias::Make(c, {.mask_input = in.mask,
                                             .bias_input = in.attention_bias,
                                             .batch = batch,
                                             .heads = heads,
                                             .queries = length,
                                             .past = past,
                                             .new_keys = length,
                                             .filter = node.GetFloat("mask_filter_value", -10000.0f),
                                             .causal = node.GetInt("unidirectional", 0) != 0}));
  const double scale = node.GetFloat("scale", 0.0f);
  HeadAttention attention{.batch = batch,
                          .heads = heads,
                          .kv_heads = heads,
                          .queries = length,
                          .keys = keys,
                          .kv_rows = rows,
                          .size = size,
                          .value_size = value_size,
                          .scale = scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(size))};
  attention.bias = [&](int64_t b, int64_t h, int64_t i, std::span<double> scores) { score_bias.Add(b, h, i, scores); };
  QUERN_RETURN_IF_ERROR(Attend(c, attention, q.data(), k.data(), v.data(), y.data()));
  y.Finish();
  return OkStatus();
}

}  // namespace quern
