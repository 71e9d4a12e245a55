#include "provider/cpu/common/attention_form.h"

#include <algorithm>
#include <cmath>

namespace quern::cpu {
namespace {

// [batch, length, heads * size] or [batch, heads, length, size].
HeadsOperand HeadsOf(const TensorSpec& s, int index, int64_t size) {
  if (s.shape.rank() == 4) {
    return {.index = index, .strides = {s.strides[0], s.strides[1], s.strides[2], s.strides[3]}};
  }
  return {.index = index, .strides = {s.strides[0], size * s.strides[2], s.strides[1], s.strides[2]}};
}
HeadsOperand InputHeads(const BindContext& c, int index, int64_t size) {
  return HeadsOf(c.inputs[static_cast<size_t>(index)], index, size);
}
// None where the output is not wanted.
HeadsOperand OutputHeads(const BindContext& c, int index, int64_t size) {
  if (!c.has_output(index)) return {};
  return HeadsOf(c.outputs[static_cast<size_t>(index)], index, size);
}
// Part `part` of [batch, length, heads, parts, size].
HeadsOperand PackedHeads(const BindContext& c, int index, int64_t part) {
  const Shape& s = c.inputs[static_cast<size_t>(index)].strides;
  return {.index = index, .offset = part * s[3], .strides = {s[0], s[2], s[1], s[4]}};
}

// Strides of batch, head and query within a mask or bias of up to four dimensions that broadcasts but along keys.
void ReadRowStrides(const Shape& given, int64_t (&strides)[3]) {
  Shape shape = Shape::Filled(4 - given.rank(), 1);
  for (const int64_t d : given) shape.push_back(d);
  const Shape dense = shape.ContiguousStrides();
  for (int d = 0; d < 3; ++d) strides[d] = shape[d] == 1 ? 0 : dense[d];
}

// Keys and values before the new ones, and with them: inputs at `key` and `value`, outputs 1 and 2.
void ReadCaches(const BindContext& c, int key, int value, AttentionForm& f) {
  if (c.has_input(key)) {
    f.past_rows = c.inputs[static_cast<size_t>(key)].shape[2];
    f.past_k = InputHeads(c, key, f.size);
    f.past_v = InputHeads(c, value, f.value_size);
  }
  f.present_k = OutputHeads(c, 1, f.size);
  f.present_v = OutputHeads(c, 2, f.value_size);
}

float ScaleOr(float given, int64_t size) {
  return given != 0 ? given : static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
}

// What the operators of com.microsoft share: an int32 mask and a tensor of biases.
void ReadMasks(const Node& node, const BindContext& c, int mask, int added, AttentionForm& f) {
  f.filter = node.GetFloat("mask_filter_value", -10000.0f);
  if (c.has_input(added)) {
    f.added = added;
    ReadRowStrides(c.inputs[added].shape, f.added_strides);
  }
  if (!c.has_input(mask)) return;
  const Shape& s = c.inputs[mask].shape;
  f.mask_input = mask;
  f.mask_columns = s.back();
  switch (s.rank()) {
    case 1:
      f.mask = s[0] == 2 * f.batch ? AttentionForm::Mask::kRanges : AttentionForm::Mask::kEnds;
      break;
    case 2:
      // A column that is repeated over all keys changes no probability.
      f.mask = s[1] == 1 ? AttentionForm::Mask::kNone : AttentionForm::Mask::kWords;
      break;
    case 3:
      f.mask = AttentionForm::Mask::kPairs;
      break;
    default:
      f.mask = AttentionForm::Mask::kPositions;
  }
}

}  // namespace

Result<AttentionForm> ReadAttention(const Node& node, const BindContext& c) {
  enum Input { kQ, kK, kV, kMask, kPastKey, kPastValue, kValidLengths };
  AttentionForm f;
  const Shape &q = c.inputs[kQ].shape, &k = c.inputs[kK].shape, &v = c.inputs[kV].shape;
  const bool flat = q.rank() == 3;
  f.batch = q[0];
  f.heads = flat ? node.GetInt("q_num_heads", 1) : q[1];
  f.kv_heads = flat ? node.GetInt("kv_num_heads", 1) : k[1];
  f.queries = flat ? q[1] : q[2];
  f.new_keys = flat ? k[1] : k[2];
  f.size = flat ? q[2] / f.heads : q[3];
  f.value_size = flat ? v[2] / f.kv_heads : v[3];
  f.q = InputHeads(c, kQ, f.size);
  f.k = InputHeads(c, kK, f.size);
  f.v = InputHeads(c, kV, f.value_size);
  f.y = OutputHeads(c, 0, f.value_size);
  ReadCaches(c, kPastKey, kPastValue, f);
  f.rows = f.keys = f.past_rows + f.new_keys;
  const float* scale = node.FindAttribute<float>("scale");
  f.scale = scale ? *scale : ScaleOr(0, f.size);
  f.softcap = node.GetFloat("softcap", 0.0f);
  f.causal = node.GetInt("is_causal", 0) != 0;
  // No key is further away than all keys and queries together.
  f.left = std::min(node.GetInt("left_window_size", -1), f.keys + f.queries);
  f.right = std::min(node.GetInt("right_window_size", -1), f.keys + f.queries);
  if (c.has_input(kMask)) {
    const TensorSpec& mask = c.inputs[kMask];
    f.mask = mask.dtype == DType::kBool ? AttentionForm::Mask::kSeen : AttentionForm::Mask::kAdded;
    f.mask_input = kMask;
    f.mask_columns = mask.shape.back();
    ReadRowStrides(mask.shape, f.mask_strides);
  }
  if (c.has_input(kValidLengths)) {
    f.lengths = AttentionForm::Lengths::kValid;
    f.lengths_input = kValidLengths;
  }
  return f;
}

Result<AttentionForm> ReadPackedAttention(const Node& node, const BindContext& c) {
  enum Input { kHeads, kMask, kPast, kAdded };
  AttentionForm f;
  const TensorSpec& x = c.inputs[kHeads];
  const std::vector<int64_t> widths = node.GetInts("qkv_hidden_sizes");
  f.batch = x.shape[0];
  f.heads = f.kv_heads = node.GetInt("num_heads", 1);
  f.queries = f.new_keys = x.shape[1];
  f.size = widths[0] / f.heads;
  f.value_size = widths[2] / f.heads;
  f.q = InputHeads(c, kHeads, f.size);
  f.k = f.q;
  f.k.offset = widths[0] * x.strides[2];
  f.v = InputHeads(c, kHeads, f.value_size);
  f.v.offset = (widths[0] + widths[1]) * x.strides[2];
  f.y = OutputHeads(c, 0, f.value_size);
  // [2, batch, heads, rows, size]
  const auto half = [](const TensorSpec& s, int index, int64_t part) {
    return HeadsOperand{.index = index,
                        .offset = part * s.strides[0],
                        .strides = {s.strides[1], s.strides[2], s.strides[3], s.strides[4]}};
  };
  if (c.has_input(kPast)) {
    f.past_rows = c.inputs[kPast].shape[3];
    f.past_k = half(c.inputs[kPast], kPast, 0);
    f.past_v = half(c.inputs[kPast], kPast, 1);
  }
  if (c.has_output(1)) {
    f.present_k = half(c.outputs[1], 1, 0);
    f.present_v = half(c.outputs[1], 1, 1);
  }
  f.rows = f.keys = f.past_rows + f.new_keys;
  f.scale = ScaleOr(node.GetFloat("scale", 0.0f), f.size);
  f.causal = f.last_sees_all = node.GetInt("unidirectional", 0) != 0;
  ReadMasks(node, c, kMask, kAdded, f);
  return f;
}

Result<AttentionForm> ReadMultiHeadAttention(const Node& node, const BindContext& c) {
  enum Input { kQuery, kKey, kValue, kBias, kMask, kAdded, kPastKey, kPastValue };
  AttentionForm f;
  const Shape& q = c.inputs[kQuery].shape;
  f.heads = f.kv_heads = node.GetInt("num_heads", 1);
  f.batch = q[0];
  f.queries = q[1];
  f.value_size = c.outputs[0].shape[2] / f.heads;
  int64_t widths = 0;  // of queries, and of keys
  if (q.rank() == 5) {
    f.size = q[4];
    f.new_keys = q[1];
    f.q = PackedHeads(c, kQuery, 0);
    f.k = PackedHeads(c, kQuery, 1);
    f.v = PackedHeads(c, kQuery, 2);
    widths = f.heads * f.size;
  } else {
    const Shape& k = c.inputs[kKey].shape;
    f.size = q[2] / f.heads;
    f.new_keys = k[k.rank() == 4 ? 2 : 1];
    f.q = InputHeads(c, kQuery, f.size);
    f.k = k.rank() == 5 ? PackedHeads(c, kKey, 0) : InputHeads(c, kKey, f.size);
    f.v = k.rank() == 5 ? PackedHeads(c, kKey, 1) : InputHeads(c, kValue, f.value_size);
    widths = k.rank() == 4 ? -1 : f.heads * f.size;
  }
  if (c.has_input(kBias)) {
    f.bias = kBias;
    f.k.bias_offset = widths;  // keys and values that are a past have none
    f.v.bias_offset = widths < 0 ? widths : 2 * widths;
  }
  f.y = OutputHeads(c, 0, f.value_size);
  ReadCaches(c, kPastKey, kPastValue, f);
  f.rows = f.keys = f.past_rows + f.new_keys;
  f.scale = ScaleOr(node.GetFloat("scale", 0.0f), f.size);
  f.causal = f.last_sees_all = node.GetInt("unidirectional", 0) != 0;
  ReadMasks(node, c, kMask, kAdded, f);
  return f;
}

Result<AttentionForm> ReadGroupQueryAttention(const Node& node, const BindContext& c) {
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
    kAdded,
    kSink
  };
  AttentionForm f;
  const TensorSpec& q = c.inputs[kQuery];
  f.batch = q.shape[0];
  f.queries = f.new_keys = q.shape[1];
  f.heads = node.GetInt("num_heads", 1);
  f.kv_heads = node.GetInt("kv_num_heads", 1);
  const bool packed = !c.has_input(kKey);
  f.size = f.value_size = q.shape[2] / (packed ? f.heads + 2 * f.kv_heads : f.heads);
  f.q = InputHeads(c, kQuery, f.size);
  if (packed) {
    f.k = f.v = f.q;
    f.k.offset = f.heads * f.q.strides.head;
    f.v.offset = (f.heads + f.kv_heads) * f.q.strides.head;
  } else {
    f.k = InputHeads(c, kKey, f.size);
    f.v = InputHeads(c, kValue, f.size);
  }
  f.y = OutputHeads(c, 0, f.size);
  ReadCaches(c, kPastKey, kPastValue, f);
  const Tensor* total = c.inputs[kTotal].constant;
  if (!total || total->num_elements() != 1 || total->dtype() != DType::kI32) {
    return Unsupported("total_sequence_length is not known while planning");
  }
  f.keys = *total->data<int32_t>();
  if (f.keys < f.queries) {
    return InvalidArgument("total_sequence_length is " + std::to_string(f.keys) + " but there are " +
                           std::to_string(f.queries) + " new keys");
  }
  f.rows = std::max(f.keys, f.past_rows);
  f.lengths = AttentionForm::Lengths::kLast;
  f.lengths_input = kLengths;
  f.scale = ScaleOr(node.GetFloat("scale", 0.0f), f.size);
  f.softcap = node.GetFloat("softcap", 0.0f);
  f.causal = node.GetInt("causal", 1) != 0;
  const int64_t window = node.GetInt("local_window_size", -1);
  f.left = window > 0 ? window - 1 : -1;
  if (node.GetInt("do_rotary", 0) != 0) {
    f.cosines = kCosines;
    f.sines = kSines;
    f.positions = c.has_input(kPositions) ? kPositions : -1;
    f.angle_rows = c.inputs[kCosines].shape[0];
    f.rotated_half = c.inputs[kCosines].shape[1];
    f.interleaved = node.GetInt("rotary_interleaved", 0) != 0;
  }
  if (c.has_input(kAdded)) {
    f.added = kAdded;
    ReadRowStrides(c.inputs[kAdded].shape, f.added_strides);
  }
  if (c.has_input(kSink)) f.sinks = kSink;
  f.smooth = node.GetInt("smooth_softmax", -1) == 1;
  return f;
}

}  // namespace quern::cpu
