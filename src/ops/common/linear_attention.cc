#include "ops/common/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"

namespace quern {
namespace {

enum Input { kQuery, kKey, kValue, kPastState, kDecay, kBeta };

bool IsMicrosoft(const Node& node) { return node.domain() == "com.microsoft"; }

// What the shapes say; unknown where they do not.
struct Sizes {
  int64_t q_heads, kv_heads;
  Dim batch = Dim::Unknown(), length = Dim::Unknown(), key_size = Dim::Unknown(), value_size = Dim::Unknown();
};

// Takes batch, length and the size of a head from a packed input; an error when they contradict what is known.
Status ReadPacked(const InferContext& c, int input, const char* name, int64_t heads, Sizes& sizes, Dim& head_size) {
  const std::optional<Dims> shape = c.input_shape(input);
  if (!shape) return OkStatus();
  if (shape->size() != 3) {
    return c.Error(std::string(name) + " has shape " + DimsToString(*shape) +
                   "; three dimensions are needed: batch, length, heads * size");
  }
  const Dim& last = (*shape)[2];
  if (last.is_constant() && (last.value() % heads != 0 || last.value() == 0)) {
    return c.Error(std::string(name) + " has shape " + DimsToString(*shape) + ", whose last dimension " +
                   std::to_string(heads) + " heads do not divide");
  }
  const Dim size = Dim::FloorDiv(last, heads);
  for (const auto& [known, given] :
       {std::pair(&sizes.batch, (*shape)[0]), std::pair(&sizes.length, (*shape)[1]), std::pair(&head_size, size)}) {
    if (Differ(*known, given)) {
      return c.Error(std::string(name) + " has shape " + DimsToString(*shape) + "; " + known->ToString() +
                     " is needed where it has " + given.ToString() + " (batch, length or elements of a head)");
    }
    if (known->has_unknown() || given.is_constant()) *known = given;
  }
  return OkStatus();
}

// com.microsoft tells the heads of keys by their size, which is that of queries.
Status ReadSharedKeys(const InferContext& c, Sizes& s) {
  Dim columns = Dim::Unknown();
  QUERN_RETURN_IF_ERROR(ReadPacked(c, kKey, "key", 1, s, columns));
  if (!columns.is_constant() || !s.key_size.is_constant()) return OkStatus();
  const int64_t heads = columns.value() / s.key_size.value();
  if (columns.value() % s.key_size.value() == 0 && s.kv_heads % heads == 0) return OkStatus();
  return c.Error("key has " + columns.ToString() + " columns, which are not heads of " + s.key_size.ToString() +
                 " elements whose number divides kv_num_heads = " + std::to_string(s.kv_heads));
}

Result<Sizes> ReadSizes(const InferContext& c) {
  Sizes s{c.node().GetInt("q_num_heads", 0), c.node().GetInt("kv_num_heads", 0)};
  const bool microsoft = IsMicrosoft(c.node());
  if (s.q_heads < 1 || s.kv_heads < 1 || (s.q_heads % s.kv_heads != 0 && !(microsoft && s.kv_heads % s.q_heads == 0))) {
    return c.Error("q_num_heads is " + std::to_string(s.q_heads) + " and kv_num_heads " + std::to_string(s.kv_heads) +
                   "; the first must be a positive multiple of the second" + (microsoft ? ", or a divisor of it" : ""));
  }
  QUERN_RETURN_IF_ERROR(ReadPacked(c, kQuery, "query", s.q_heads, s, s.key_size));
  if (microsoft) {
    QUERN_RETURN_IF_ERROR(ReadSharedKeys(c, s));
  } else {
    QUERN_RETURN_IF_ERROR(ReadPacked(c, kKey, "key", s.kv_heads, s, s.key_size));
  }
  QUERN_RETURN_IF_ERROR(ReadPacked(c, kValue, "value", s.kv_heads, s, s.value_size));
  return s;
}

// An error when input i is known to have another shape than [batch, length, one of `last`].
Status CheckGate(const InferContext& c, int i, const char* name, const Sizes& s, const Dim& last, const Dim& other) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  const bool fits = shape->size() == 3 && !Differ((*shape)[0], s.batch) && !Differ((*shape)[1], s.length) &&
                    (!Differ((*shape)[2], last) || !Differ((*shape)[2], other));
  if (fits) return OkStatus();
  return c.Error(std::string(name) + " has shape " + DimsToString(*shape) + "; " +
                 DimsToString({s.batch, s.length, last}) + " or " + DimsToString({s.batch, s.length, other}) +
                 " is needed");
}

// One head's state [key_size, value_size] and what a step does to it.
class HeadState {
 public:
  HeadState(int64_t key_size, int64_t value_size)
      : key_size_(key_size), value_size_(value_size), state_(static_cast<size_t>(key_size * value_size)) {}

  std::vector<double>& values() { return state_; }
  // Row i times exp(decay[i]); one decay for all rows when `step` is 0.
  void Decay(const float* decay, int64_t step) {
    for (int64_t i = 0; i < key_size_; ++i) {
      const double factor = std::exp(static_cast<double>(decay[i * step]));
      for (int64_t j = 0; j < value_size_; ++j) state_[i * value_size_ + j] *= factor;
    }
  }
  // vector^T * state
  void Read(const float* vector, std::vector<double>& result) const {
    std::fill(result.begin(), result.end(), 0.0);
    for (int64_t i = 0; i < key_size_; ++i) {
      for (int64_t j = 0; j < value_size_; ++j) {
        result[j] += static_cast<double>(vector[i]) * state_[i * value_size_ + j];
      }
    }
  }
  // state += key * value^T
  void Add(const float* key, const std::vector<double>& value) {
    for (int64_t i = 0; i < key_size_; ++i) {
      for (int64_t j = 0; j < value_size_; ++j) state_[i * value_size_ + j] += static_cast<double>(key[i]) * value[j];
    }
  }

 private:
  int64_t key_size_, value_size_;
  std::vector<double> state_;
};

}  // namespace

Result<LinearAttentionRule> ReadLinearAttentionRule(const Node& node) {
  const std::string name = node.GetString("update_rule", "gated_delta");
  const LinearAttentionRule rule{name == "gated" || name == "gated_delta", name == "delta" || name == "gated_delta"};
  if (!rule.decays && !rule.corrects && name != "linear") {
    return InvalidArgument(node.Describe() + ": attribute 'update_rule' is '" + name +
                           "'; linear, gated, delta or gated_delta is needed");
  }
  for (const auto& [input, label, wanted] :
       {std::tuple(kDecay, "decay", rule.decays), std::tuple(kBeta, "beta", rule.corrects)}) {
    const bool given = node.input(input) != nullptr;
    if (given == wanted || (given && IsMicrosoft(node))) continue;
    return InvalidArgument(node.Describe() + ": update rule '" + name + (wanted ? "' needs" : "' takes no") +
                           " input " + label);
  }
  return rule;
}

Status InferLinearAttention(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const LinearAttentionRule rule, ReadLinearAttentionRule(c.node()));
  QUERN_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(c));
  if (rule.decays) QUERN_RETURN_IF_ERROR(CheckGate(c, kDecay, "decay", s, s.kv_heads, s.key_size * s.kv_heads));
  if (rule.corrects) QUERN_RETURN_IF_ERROR(CheckGate(c, kBeta, "beta", s, s.kv_heads, 1));
  const Dims state = {s.batch, s.kv_heads, s.key_size, s.value_size};
  if (const std::optional<Dims> past = c.input_shape(kPastState)) {
    bool fits = past->size() == 4;
    for (size_t d = 0; fits && d < 4; ++d) fits = !Differ((*past)[d], state[d]);
    if (!fits)
      return c.Error("past_state has shape " + DimsToString(*past) + "; " + DimsToString(state) + " is needed");
  }
  const DType state_type = c.input_dtype(c.HasInput(kPastState) ? kPastState : kQuery);
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kQuery),
                                       Dims{s.batch, s.length, s.value_size * std::max(s.q_heads, s.kv_heads)}));
  c.SetOutputType(1, ValueType::Tensor(state_type, state));
  return OkStatus();
}

Status EvaluateLinearAttention(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferLinearAttention));
  QUERN_ASSIGN_OR_RETURN(const LinearAttentionRule rule, ReadLinearAttentionRule(c.node()));
  const Shape state_shape = outputs.shape(1);
  const int64_t batch = state_shape[0], heads = state_shape[1], key_size = state_shape[2], value_size = state_shape[3];
  const int64_t length = outputs.shape(0)[1], q_heads = c.node().GetInt("q_num_heads", 0);
  const int64_t out_heads = std::max(q_heads, heads), group = out_heads / heads;
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> query, ReadFloats<float>(c, kQuery));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> key, ReadFloats<float>(c, kKey));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> value, ReadFloats<float>(c, kValue));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past, ReadFloats<float>(c, kPastState));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> decay, ReadFloats<float>(c, kDecay));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> beta, ReadFloats<float>(c, kBeta));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> present, WriteFloats<float>(c, outputs, 1));
  const int64_t key_heads = key.shape()[2] / key_size;
  const double given_scale = c.node().GetFloat("scale", 0.0f);
  const double scale = given_scale != 0 ? given_scale : 1.0 / std::sqrt(static_cast<double>(key_size));
  const int64_t decay_row = rule.decays ? decay.shape()[2] : 0, beta_row = rule.corrects ? beta.shape()[2] : 0;
  const int64_t decay_step = decay_row == heads ? 0 : 1;
  if (batch == 0) return OkStatus();
  HeadState state(key_size, value_size);
  std::vector<double> update(static_cast<size_t>(value_size)), read(update.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<double>& values = state.values();
      const int64_t state_at = (b * heads + h) * key_size * value_size;
      for (size_t i = 0; i < values.size(); ++i) values[i] = past ? static_cast<double>(past[state_at + i]) : 0.0;
      for (int64_t t = 0; t < length; ++t) {
        const int64_t row = b * length + t;
        const float* k = key.data() + (row * key_heads + h * key_heads / heads) * key_size;
        const float* v = value.data() + (row * heads + h) * value_size;
        if (rule.decays) {
          state.Decay(decay.data() + row * decay_row + h * (decay_step == 0 ? 1 : key_size), decay_step);
        }
        update.assign(v, v + value_size);
        if (rule.corrects) {
          const double rate = static_cast<double>(beta[row * beta_row + (beta_row == 1 ? 0 : h)]);
          state.Read(k, read);
          for (int64_t j = 0; j < value_size; ++j) update[j] = rate * (update[j] - read[j]);
        }
        state.Add(k, update);
        for (int64_t o = h * group; o < (h + 1) * group; ++o) {
          state.Read(query.data() + (row * q_heads + o * q_heads / out_heads) * key_size, read);
          float* out = y.data() + (row * out_heads + o) * value_size;
          for (int64_t j = 0; j < value_size; ++j) out[j] = static_cast<float>(scale * read[j]);
        }
      }
      for (size_t i = 0; i < values.size(); ++i) present[state_at + i] = static_cast<float>(values[i]);
    }
  }
  y.Finish();
  present.Finish();
  return OkStatus();
}

}  // namespace quern
