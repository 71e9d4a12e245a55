// LinearAttention: attention as a recurrence over a state of one matrix per head, with optional decay and delta rule.
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kQuery, kKey, kValue, kPastState, kDecay, kBeta };

struct Rule {
  bool decays, corrects;
};

Result<Rule> ReadRule(const Node& node) {
  const std::string name = node.GetString("update_rule", "gated_delta");
  Rule rule{name == "gated" || name == "gated_delta", name == "delta" || name == "gated_delta"};
  if (!rule.decays && !rule.corrects && name != "linear") {
    return InvalidArgument(node.Describe() + ": attribute 'update_rule' is '" + name +
                           "'; linear, gated, delta or gated_delta is needed");
  }
  for (const auto& [input, label, wanted] :
       {std::tuple(kDecay, "decay", rule.decays), std::tuple(kBeta, "beta", rule.corrects)}) {
    if ((node.input(input) != nullptr) == wanted) continue;
    return InvalidArgument(node.Describe() + ": update rule '" + name + (wanted ? "' needs" : "' takes no") +
                           " input " + label);
  }
  return rule;
}

// What the shapes say; unknown where they do not.
struct Sizes {
  int64_t q_heads, kv_heads;
  Dim batch = Dim::Unknown(), length = Dim::Unknown(), key_size = Dim::Unknown(), value_size = Dim::Unknown();
};

bool Differ(const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && a.value() != b.value(); }

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

Result<Sizes> ReadSizes(const InferContext& c) {
  Sizes s{c.node().GetInt("q_num_heads", 0), c.node().GetInt("kv_num_heads", 0)};
  if (s.q_heads < 1 || s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) {
    return c.Error("q_num_heads is " + std::to_string(s.q_heads) + " and kv_num_heads " + std::to_string(s.kv_heads) +
                   "; the first must be a positive multiple of the second");
  }
  QUERN_RETURN_IF_ERROR(ReadPacked(c, kQuery, "query", s.q_heads, s, s.key_size));
  QUERN_RETURN_IF_ERROR(ReadPacked(c, kKey, "key", s.kv_heads, s, s.key_size));
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

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadRule(c.node()).status());
  QUERN_ASSIGN_OR_RETURN(const Sizes s, ReadSizes(c));
  QUERN_RETURN_IF_ERROR(CheckGate(c, kDecay, "decay", s, s.kv_heads, s.key_size * s.kv_heads));
  QUERN_RETURN_IF_ERROR(CheckGate(c, kBeta, "beta", s, s.kv_heads, 1));
  const Dims state = {s.batch, s.kv_heads, s.key_size, s.value_size};
  if (const std::optional<Dims> past = c.input_shape(kPastState)) {
    bool fits = past->size() == 4;
    for (size_t d = 0; fits && d < 4; ++d) fits = !Differ((*past)[d], state[d]);
    if (!fits)
      return c.Error("past_state has shape " + DimsToString(*past) + "; " + DimsToString(state) + " is needed");
  }
  const DType state_type = c.input_dtype(c.HasInput(kPastState) ? kPastState : kQuery);
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kQuery), Dims{s.batch, s.length, s.value_size * s.q_heads}));
  c.SetOutputType(1, ValueType::Tensor(state_type, state));
  return OkStatus();
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

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Rule rule, ReadRule(c.node()));
  const Shape state_shape = outputs.shape(1);
  const int64_t batch = state_shape[0], heads = state_shape[1], key_size = state_shape[2], value_size = state_shape[3];
  const int64_t length = outputs.shape(0)[1], q_heads = c.node().GetInt("q_num_heads", 0), group = q_heads / heads;
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> query, ReadFloats<float>(c, kQuery));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> key, ReadFloats<float>(c, kKey));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> value, ReadFloats<float>(c, kValue));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past, ReadFloats<float>(c, kPastState));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> decay, ReadFloats<float>(c, kDecay));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> beta, ReadFloats<float>(c, kBeta));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> present, WriteFloats<float>(c, outputs, 1));
  const double given_scale = c.node().GetFloat("scale", 0.0f);
  const double scale = given_scale != 0 ? given_scale : 1.0 / std::sqrt(static_cast<double>(key_size));
  const int64_t decay_row = decay ? decay.shape()[2] : 0, beta_row = beta ? beta.shape()[2] : 0;
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
        const float* k = key.data() + (row * heads + h) * key_size;
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
        for (int64_t q = h * group; q < (h + 1) * group; ++q) {
          state.Read(query.data() + (row * q_heads + q) * key_size, read);
          float* out = y.data() + (row * q_heads + q) * value_size;
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

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"query", "T", kTypes},
                             {"key", "T", kTypes},
                             {"value", "T", kTypes},
                             {"past_state", "S", kTypes, Arity::kOptional},
                             {"decay", "T", kTypes, Arity::kOptional},
                             {"beta", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}, {"present_state", "S", kTypes}};
constexpr AttrSpec kAttributes[] = {{"chunk_size", AttrType::kInt, false, "64"},
                                    {"kv_num_heads", AttrType::kInt, true},
                                    {"q_num_heads", AttrType::kInt, true},
                                    {"scale", AttrType::kFloat, false, "0"},
                                    {"update_rule", AttrType::kString, false, "gated_delta"}};
constexpr OpVersion kVersions[] = {{27, kInputs, kOutputs, kAttributes, Infer, Evaluate, 2}};

}  // namespace

extern constinit const OpDefinition kOpLinearAttention = {"", "LinearAttention", kVersions};

}  // namespace quern
