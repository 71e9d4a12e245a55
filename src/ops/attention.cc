// Attention: scaled dot-product attention over heads, with masks, a key/value cache and shared key heads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "ops/common/dispatch.h"
#include "ops/common/float_io.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kQ, kK, kV, kMask, kPastKey, kPastValue, kValidLengths };
enum QkMode { kRaw, kSoftcapped, kBiased, kProbabilities };

bool Differ(const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && a.value() != b.value(); }

// Q, K or V as [batch, heads, length, size]; 3-D ones hold the heads in their last dimension.
Result<Dims> AsHeads(const InferContext& c, int i, const char* heads_attribute) {
  const Dims shape = *c.input_shape(i);
  if (shape.size() == 4) return shape;
  const std::string name = "'" + c.node().input(i)->name() + "'";
  if (shape.size() != 3)
    return c.Error("input " + name + " has shape " + DimsToString(shape) + "; 3 or 4 dimensions are needed");
  const int64_t heads = c.node().GetInt(heads_attribute, 0);
  if (heads < 1) return c.Error(std::string("3-D inputs need the attribute '") + heads_attribute + "'");
  if (shape[2].is_constant() && shape[2].value() % heads != 0) {
    return c.Error("input " + name + " has " + shape[2].ToString() + " columns, which '" + heads_attribute +
                   "' = " + std::to_string(heads) + " does not divide");
  }
  return Dims{shape[0], heads, shape[1], Dim::FloorDiv(shape[2], heads)};
}

Status Infer(InferContext& c) {
  const DType dtype = c.input_dtype(kQ);
  for (const char* name : {"left_window_size", "right_window_size"}) {
    if (c.node().GetInt(name, -1) < -1) return c.Error(std::string("attribute '") + name + "' must be at least -1");
  }
  const bool has_past = c.HasInput(kPastKey);
  if (has_past != c.HasInput(kPastValue)) return c.Error("past_key and past_value must be given together");
  if (has_past && c.HasInput(kValidLengths)) return c.Error("past_key excludes nonpad_kv_seqlen");
  if (!c.input_shape(kQ) || !c.input_shape(kK) || !c.input_shape(kV)) {
    c.SetOutputType(0, ValueType::Tensor(dtype));
    c.SetOutputType(1, ValueType::Tensor(dtype));
    c.SetOutputType(2, ValueType::Tensor(c.input_dtype(kV)));
    c.SetOutputType(3, ValueType::Tensor(dtype));
    return OkStatus();
  }
  if (c.input_shape(kQ)->size() != c.input_shape(kK)->size() ||
      c.input_shape(kQ)->size() != c.input_shape(kV)->size()) {
    return c.Error("Q, K and V must have as many dimensions as each other");
  }
  QUERN_ASSIGN_OR_RETURN(const Dims q, AsHeads(c, kQ, "q_num_heads"));
  QUERN_ASSIGN_OR_RETURN(const Dims k, AsHeads(c, kK, "kv_num_heads"));
  QUERN_ASSIGN_OR_RETURN(const Dims v, AsHeads(c, kV, "kv_num_heads"));
  const auto shapes = [&] {
    return "Q " + DimsToString(*c.input_shape(kQ)) + ", K " + DimsToString(*c.input_shape(kK)) + ", V " +
           DimsToString(*c.input_shape(kV));
  };
  if (Differ(q[0], k[0]) || Differ(q[0], v[0])) return c.Error("the batches differ: " + shapes());
  if (Differ(q[3], k[3])) {
    return c.Error("the heads of Q have " + q[3].ToString() + " elements but those of K " + k[3].ToString());
  }
  if (Differ(k[1], v[1]) || Differ(k[2], v[2])) return c.Error("K and V differ in heads or length: " + shapes());
  if (q[1].is_constant() && k[1].is_constant() && (k[1].value() == 0 || q[1].value() % k[1].value() != 0)) {
    return c.Error("the " + k[1].ToString() + " heads of K do not divide the " + q[1].ToString() + " of Q");
  }
  Dim total = k[2];
  if (has_past) {
    const std::optional<Dims> past_key = c.input_shape(kPastKey), past_value = c.input_shape(kPastValue);
    for (const auto& [past, now] : {std::pair(past_key, k), std::pair(past_value, v)}) {
      if (past && (past->size() != 4 || Differ((*past)[0], now[0]) || Differ((*past)[1], now[1]) ||
                   Differ((*past)[3], now[3]))) {
        return c.Error("a past state has shape " + DimsToString(*past) + ", which does not continue " +
                       DimsToString(now));
      }
    }
    if (past_key && past_value && Differ((*past_key)[2], (*past_value)[2])) {
      return c.Error("past_key and past_value differ in length");
    }
    total = past_key ? (*past_key)[2] + k[2] : Dim::Unknown();
  }
  const Dims scores = {q[0], q[1], q[2], total};
  if (const std::optional<Dims> mask = c.input_shape(kMask)) {
    bool fits = !mask->empty() && mask->size() <= 4;
    for (size_t d = 0; fits && d + 1 < mask->size(); ++d) {
      const Dim& to = scores[4 - mask->size() + d];
      fits = (*mask)[d].is_constant(1) || !Differ((*mask)[d], to);
    }
    if (fits && mask->back().is_constant() && total.is_constant()) fits = mask->back().value() <= total.value();
    if (!fits)
      return c.Error("attn_mask has shape " + DimsToString(*mask) + "; the scores have " + DimsToString(scores));
  }
  if (const std::optional<Dims> lengths = c.input_shape(kValidLengths)) {
    if (lengths->size() != 1 || Differ((*lengths)[0], q[0])) {
      return c.Error("nonpad_kv_seqlen has shape " + DimsToString(*lengths) + "; one entry per sample is needed");
    }
  }
  const bool flat = c.input_shape(kQ)->size() == 3;
  c.SetOutputType(0, ValueType::Tensor(dtype, flat ? Dims{q[0], q[2], q[1] * v[3]} : Dims{q[0], q[1], q[2], v[3]}));
  c.SetOutputType(1, ValueType::Tensor(dtype, Dims{k[0], k[1], total, k[3]}));
  c.SetOutputType(2, ValueType::Tensor(c.input_dtype(kV), Dims{v[0], v[1], total, v[3]}));
  c.SetOutputType(3, ValueType::Tensor(dtype, scores));
  return OkStatus();
}

// How one of Q, K, V, Y lies in memory: the offset of element (b, h, s, 0).
struct HeadLayout {
  int64_t heads, length, size;
  bool flat;  // [batch, length, heads * size], else [batch, heads, length, size]
  int64_t At(int64_t b, int64_t h, int64_t s) const {
    return flat ? ((b * length + s) * heads + h) * size : ((b * heads + h) * length + s) * size;
  }
};
HeadLayout LayoutOf(const Shape& s, int64_t heads) {
  if (s.rank() == 4) return {s[1], s[2], s[3], false};
  return {heads, s[1], s[2] / heads, true};
}

// Past (may be empty) and new rows of K or V joined as [batch, heads, total, size].
template <typename T>
std::vector<T> JoinPast(const FloatInput<T>& past, const FloatInput<T>& now, const HeadLayout& l, int64_t batch) {
  const int64_t before = past ? past.shape()[2] : 0;
  std::vector<T> joined;
  joined.reserve(static_cast<size_t>(batch * l.heads * (before + l.length) * l.size));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < l.heads; ++h) {
      if (past) {
        const T* from = past.data() + (b * l.heads + h) * before * l.size;
        joined.insert(joined.end(), from, from + before * l.size);
      }
      for (int64_t s = 0; s < l.length; ++s) {
        const T* from = now.data() + l.At(b, h, s);
        joined.insert(joined.end(), from, from + l.size);
      }
    }
  }
  return joined;
}

// What is added to the scores: -infinity where a key is not seen.
class Bias {
 public:
  static Result<Bias> Make(EvalContext& c, int64_t queries, int64_t keys) {
    Bias bias;
    const Node& node = c.node();
    bias.causal_ = node.GetInt("is_causal", 0) != 0;
    bias.left_ = node.GetInt("left_window_size", -1);
    bias.right_ = node.GetInt("right_window_size", -1);
    if (c.HasInput(kPastKey)) bias.offset_ = c.input(kPastKey).dim(2);
    if (c.HasInput(kValidLengths)) {
      const std::span<const int64_t> lengths = c.input(kValidLengths).values<int64_t>();
      bias.lengths_.assign(lengths.begin(), lengths.end());
      for (const int64_t length : lengths) {
        if (length < 0 || length > keys) {
          return c.Error("nonpad_kv_seqlen has the entry " + std::to_string(length) + " but there are " +
                         std::to_string(keys) + " keys");
        }
      }
    }
    bias.queries_ = queries;
    if (!c.HasInput(kMask)) return bias;
    const Tensor& mask = c.input(kMask);
    bias.mask_.resize(static_cast<size_t>(mask.num_elements()));
    bias.columns_ = mask.shape().back();
    Shape shape = Shape::Filled(4 - mask.rank(), 1);
    for (const int64_t d : mask.shape()) shape.push_back(d);
    const Shape strides = shape.ContiguousStrides();
    for (int d = 0; d < 3; ++d) bias.strides_[d] = shape[d] == 1 ? 0 : strides[d];
    if (mask.dtype() == DType::kBool) {
      const bool* seen = mask.data<bool>();
      for (size_t i = 0; i < bias.mask_.size(); ++i) bias.mask_[i] = seen[i] ? 0.0 : -kInfinity;
      return bias;
    }
    QUERN_RETURN_IF_ERROR(DispatchNumeric(mask.dtype(), [&]<typename T>() {
      const T* from = mask.data<T>();
      for (size_t i = 0; i < bias.mask_.size(); ++i) bias.mask_[i] = static_cast<double>(ComputeType<T>(from[i]));
      return OkStatus();
    }));
    return bias;
  }

  // The bias of query i of head h of sample b for all keys.
  void Row(int64_t b, int64_t h, int64_t i, std::span<double> row) const {
    const int64_t position = i + (lengths_.empty() ? offset_ : lengths_[b] - queries_);
    for (int64_t j = 0; j < static_cast<int64_t>(row.size()); ++j) {
      const bool hidden = (causal_ && j > position) || (left_ >= 0 && position - j > left_) ||
                          (right_ >= 0 && j - position > right_) || (!lengths_.empty() && j >= lengths_[b]) ||
                          (!mask_.empty() && j >= columns_);
      row[j] = hidden ? -kInfinity : 0.0;
      if (!hidden && !mask_.empty()) row[j] = mask_[b * strides_[0] + h * strides_[1] + i * strides_[2] + j];
    }
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

 private:
  bool causal_ = false;
  int64_t left_ = -1, right_ = -1, offset_ = 0, queries_ = 0, columns_ = 0;
  std::vector<int64_t> lengths_;
  std::vector<double> mask_;
  int64_t strides_[3] = {0, 0, 0};
};

// Turns biased scores into probabilities, in place; all 0 where every key is hidden.
void SoftmaxRow(std::span<double> row) {
  double largest = -Bias::kInfinity, sum = 0;
  bool seen = false;  // also a score that is no number
  for (const double s : row) {
    largest = std::max(largest, s);
    seen |= s != -Bias::kInfinity;
  }
  if (!seen) return std::fill(row.begin(), row.end(), 0.0);
  for (double& s : row) sum += s = std::exp(s - largest);
  for (double& s : row) s /= sum;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Node& node = c.node();
  const int64_t batch = c.input(kQ).dim(0);
  const HeadLayout ql = LayoutOf(c.input(kQ).shape(), node.GetInt("q_num_heads", 1));
  const HeadLayout kl = LayoutOf(c.input(kK).shape(), node.GetInt("kv_num_heads", 1));
  const HeadLayout vl = LayoutOf(c.input(kV).shape(), node.GetInt("kv_num_heads", 1));
  const HeadLayout yl{ql.heads, ql.length, vl.size, ql.flat};
  const int64_t total = kl.length + (c.HasInput(kPastKey) ? c.input(kPastKey).dim(2) : 0);
  const float* given_scale = node.FindAttribute<float>("scale");
  const double scale = given_scale ? *given_scale : 1.0 / std::sqrt(static_cast<double>(ql.size));
  const double softcap = node.GetFloat("softcap", 0.0f);
  const int64_t mode = node.GetInt("qk_matmul_output_mode", kRaw);
  QUERN_ASSIGN_OR_RETURN(const Bias bias, Bias::Make(c, ql.length, total));
  return WithComputeType(c, c.input(kQ).dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> q, ReadFloats<T>(c, kQ));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> k, ReadFloats<T>(c, kK));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> v, ReadFloats<T>(c, kV));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> past_key, ReadFloats<T>(c, kPastKey));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> past_value, ReadFloats<T>(c, kPastValue));
    const std::vector<T> keys = JoinPast(past_key, k, kl, batch), values = JoinPast(past_value, v, vl, batch);
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int i : {1, 2}) {
      if (!c.HasOutput(i)) continue;
      QUERN_ASSIGN_OR_RETURN(FloatOutput<T> present, WriteFloats<T>(c, outputs, i));
      const std::vector<T>& from = i == 1 ? keys : values;
      std::copy(from.begin(), from.end(), present.data());
      present.Finish();
    }
    FloatOutput<T> qk;
    if (c.HasOutput(3)) {
      QUERN_ASSIGN_OR_RETURN(qk, WriteFloats<T>(c, outputs, 3));
    }
    std::vector<double> scores(static_cast<size_t>(total)), hidden(scores.size()), sums(static_cast<size_t>(vl.size));
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < ql.heads; ++h) {
        const int64_t kv_head = b * kl.heads + h / (ql.heads / kl.heads);
        const T* head_keys = keys.data() + kv_head * total * kl.size;
        const T* head_values = values.data() + kv_head * total * vl.size;
        for (int64_t i = 0; i < ql.length; ++i) {
          const T* query = q.data() + ql.At(b, h, i);
          const auto expose = [&](QkMode stage) {
            if (mode != stage || !c.HasOutput(3)) return;
            T* out = qk.data() + ((b * ql.heads + h) * ql.length + i) * total;
            for (int64_t j = 0; j < total; ++j) out[j] = static_cast<T>(scores[j]);
          };
          for (int64_t j = 0; j < total; ++j) {
            double sum = 0;
            for (int64_t p = 0; p < ql.size; ++p) sum += static_cast<double>(query[p]) * head_keys[j * kl.size + p];
            scores[j] = sum * scale;
          }
          expose(kRaw);
          if (softcap > 0) {
            for (double& s : scores) s = softcap * std::tanh(s / softcap);
          }
          expose(kSoftcapped);
          bias.Row(b, h, i, hidden);
          for (int64_t j = 0; j < total; ++j) {
            scores[j] = hidden[j] == -Bias::kInfinity ? hidden[j] : scores[j] + hidden[j];
          }
          expose(kBiased);
          SoftmaxRow(scores);
          expose(kProbabilities);
          std::fill(sums.begin(), sums.end(), 0.0);
          for (int64_t j = 0; j < total; ++j) {
            if (scores[j] == 0) continue;  // so that hidden values cannot spoil the row
            for (int64_t p = 0; p < vl.size; ++p) sums[p] += scores[j] * head_values[j * vl.size + p];
          }
          T* out = y.data() + yl.At(b, h, i);
          for (int64_t p = 0; p < vl.size; ++p) out[p] = static_cast<T>(sums[p]);
        }
      }
    }
    y.Finish();
    if (c.HasOutput(3)) qk.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs23[] = {{"Q", "T1", kFloatTypes},
                               {"K", "T1", kFloatTypes},
                               {"V", "T2", kFloatTypes},
                               {"attn_mask", "U", kNumericTypes | TypeSet{DType::kBool}, Arity::kOptional},
                               {"past_key", "T1", kFloatTypes, Arity::kOptional},
                               {"past_value", "T2", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T1", kFloatTypes},
                              {"present_key", "T1", kFloatTypes, Arity::kOptional},
                              {"present_value", "T2", kFloatTypes, Arity::kOptional},
                              {"qk_matmul_output", "T1", kFloatTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes23[] = {{"is_causal", AttrType::kInt, false, "0"},
                                      {"kv_num_heads", AttrType::kInt},
                                      {"q_num_heads", AttrType::kInt},
                                      {"qk_matmul_output_mode", AttrType::kInt, false, "0"},
                                      {"scale", AttrType::kFloat},
                                      {"softcap", AttrType::kFloat, false, "0"},
                                      {"softmax_precision", AttrType::kInt}};
constexpr Param kInputs24[] = {{"Q", "T1", kFloatTypes},
                               {"K", "T1", kFloatTypes},
                               {"V", "T2", kFloatTypes},
                               {"attn_mask", "U", kNumericTypes | TypeSet{DType::kBool}, Arity::kOptional},
                               {"past_key", "T1", kFloatTypes, Arity::kOptional},
                               {"past_value", "T2", kFloatTypes, Arity::kOptional},
                               {"nonpad_kv_seqlen", "", kI64Type, Arity::kOptional}};
constexpr AttrSpec kAttributes25[] = {{"is_causal", AttrType::kInt, false, "0"},
                                      {"kv_num_heads", AttrType::kInt},
                                      {"left_window_size", AttrType::kInt, false, "-1"},
                                      {"q_num_heads", AttrType::kInt},
                                      {"qk_matmul_output_mode", AttrType::kInt, false, "0"},
                                      {"right_window_size", AttrType::kInt, false, "-1"},
                                      {"scale", AttrType::kFloat},
                                      {"softcap", AttrType::kFloat, false, "0"},
                                      {"softmax_precision", AttrType::kInt}};
constexpr OpVersion kVersions[] = {{23, kInputs23, kOutputs, kAttributes23, Infer, Evaluate},
                                   {24, kInputs24, kOutputs, kAttributes23, Infer, Evaluate},
                                   {25, kInputs24, kOutputs, kAttributes25, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpAttention = {"", "Attention", kVersions};

}  // namespace quern
