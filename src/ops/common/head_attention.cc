#include "ops/common/head_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ops/common/elements.h"
#include "ops/common/float_io.h"

namespace quern {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Turns scores into probabilities, in place; all 0 where every key is hidden.
void Softmax(std::span<double> scores, const double* sink) {
  double largest = sink ? *sink : -kInfinity, sum = 0;
  bool seen = largest != -kInfinity;  // also a score that is no number
  for (const double s : scores) {
    largest = std::max(largest, s);
    seen |= s != -kInfinity;
  }
  if (!seen) return std::fill(scores.begin(), scores.end(), 0.0);
  for (double& s : scores) sum += s = std::exp(s - largest);
  if (sink) sum += std::exp(*sink - largest);
  for (double& s : scores) s /= sum;
}

}  // namespace

std::vector<float> TakeHeads(const HeadRows& from, int64_t batch, int64_t heads, int64_t rows, int64_t size) {
  std::vector<float> taken(static_cast<size_t>(batch * heads * rows * size));
  float* out = taken.data();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t s = 0; s < rows; ++s, out += size) {
        const float* in = from.data + (b * rows + s) * from.row_stride + h * from.head_stride;
        for (int64_t p = 0; p < size; ++p) out[p] = from.bias ? in[p] + from.bias[h * size + p] : in[p];
      }
    }
  }
  return taken;
}

std::vector<float> JoinCache(const CacheJoin& join, const float* past, const float* now) {
  std::vector<float> joined(static_cast<size_t>(join.batch * join.heads * join.rows * join.size));
  for (int64_t b = 0; b < join.batch; ++b) {
    const int64_t used = join.used(b);
    for (int64_t h = 0; h < join.heads; ++h) {
      const int64_t head = b * join.heads + h;
      float* out = joined.data() + head * join.rows * join.size;
      if (past) {
        const float* from = past + head * join.past_rows * join.size;
        std::copy_n(from, (join.keeps_rest ? std::min(join.past_rows, join.rows) : used) * join.size, out);
      }
      std::copy_n(now + head * join.new_rows * join.size, join.new_rows * join.size, out + used * join.size);
    }
  }
  return joined;
}

void RotateHead(float* head, int64_t half, const float* cosines, const float* sines, bool interleaved) {
  for (int64_t i = 0; i < half; ++i) {
    float &first = head[interleaved ? 2 * i : i], &second = head[interleaved ? 2 * i + 1 : i + half];
    const double real = first, imaginary = second, cosine = cosines[i], sine = sines[i];
    first = static_cast<float>(cosine * real - sine * imaginary);
    second = static_cast<float>(sine * real + cosine * imaginary);
  }
}

Status Attend(EvalContext& c, const HeadAttention& a, const float* q, const float* k, const float* v, float* y) {
  QUERN_RETURN_IF_ERROR(CheckScratch(c, {2, a.keys}));
  std::vector<double> scores(static_cast<size_t>(a.keys)), sums(static_cast<size_t>(a.value_size));
  for (int64_t b = 0; b < a.batch; ++b) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t kv_head = b * a.kv_heads + h / (a.heads / a.kv_heads);
      const float* head_keys = k + kv_head * a.kv_rows * a.size;
      const float* head_values = v + kv_head * a.kv_rows * a.value_size;
      const double sink = a.sink ? a.sink(h) : 0;
      for (int64_t i = 0; i < a.queries; ++i) {
        const float* query = q + ((b * a.heads + h) * a.queries + i) * a.size;
        for (int64_t j = 0; j < a.keys; ++j) {
          double sum = 0;
          for (int64_t p = 0; p < a.size; ++p) sum += static_cast<double>(query[p]) * head_keys[j * a.size + p];
          scores[j] = sum * a.scale;
          if (a.softcap > 0) scores[j] = a.softcap * std::tanh(scores[j] / a.softcap);
        }
        if (a.bias) a.bias(b, h, i, scores);
        if (a.see_scores) a.see_scores(b, h, i, scores);
        Softmax(scores, a.sink ? &sink : nullptr);
        if (a.see_probabilities) a.see_probabilities(b, h, i, scores);
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t j = 0; j < a.keys; ++j) {
          if (scores[j] == 0) continue;  // so that hidden values cannot spoil the row
          for (int64_t p = 0; p < a.value_size; ++p) sums[p] += scores[j] * head_values[j * a.value_size + p];
        }
        float* out = y + ((b * a.queries + i) * a.heads + h) * a.value_size;
        for (int64_t p = 0; p < a.value_size; ++p) out[p] = static_cast<float>(sums[p]);
      }
    }
  }
  return OkStatus();
}

Result<ScoreBias> ScoreBias::Make(EvalContext& c, const Layout& layout) {
  ScoreBias bias;
  bias.layout_ = layout;
  if (layout.mask_input >= 0 && c.HasInput(layout.mask_input)) {
    QUERN_ASSIGN_OR_RETURN(bias.mask_, ReadInts(c, layout.mask_input));
    bias.mask_shape_ = c.input(layout.mask_input).shape();
    const Shape& shape = bias.mask_shape_;
    // A column that is repeated over all keys changes no probability.
    if (shape.rank() == 2 && shape[1] == 1) bias.mask_.clear();
  }
  if (layout.bias_input >= 0 && c.HasInput(layout.bias_input)) {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<float> values, ReadFloats<float>(c, layout.bias_input));
    bias.bias_.assign(values.data(), values.data() + values.num_elements());
    const Shape strides = values.shape().ContiguousStrides();
    for (int d = 0; d < 3; ++d) bias.bias_strides_[d] = values.shape()[d] == 1 ? 0 : strides[d];
  }
  return bias;
}

double ScoreBias::MaskValue(int64_t b, int64_t i, int64_t j) const {
  const int64_t keys = layout_.past + layout_.new_keys;
  bool seen = true;
  switch (mask_shape_.rank()) {
    case 1:  // ends, then (for twice as many) starts; the longest form leads with the ends as well
      seen = j < mask_[b] && (mask_shape_[0] != 2 * layout_.batch || j >= mask_[layout_.batch + b]);
      break;
    case 2: {
      const int64_t columns = mask_shape_[1], at = j - (keys - columns);  // a short mask is that of the new keys
      seen = at < 0 || mask_[b * columns + at] > 0;
      break;
    }
    case 3:
      seen = mask_[(b * layout_.queries + i) * keys + j] > 0;
      break;
    default:
      seen = mask_[(b * mask_shape_[2] + layout_.past + i) * mask_shape_[3] + j] > 0;
  }
  return seen ? 0 : layout_.filter;
}

void ScoreBias::Add(int64_t b, int64_t h, int64_t i, std::span<double> scores, int64_t first) const {
  const float* bias =
      bias_.empty() ? nullptr : &bias_[b * bias_strides_[0] + h * bias_strides_[1] + i * bias_strides_[2] + first];
  // The last query sees all keys, which tells only where there are more new keys than queries.
  const bool causal = layout_.causal && i + 1 < layout_.queries;
  for (int64_t j = 0; j < static_cast<int64_t>(scores.size()); ++j) {
    if (causal && j > layout_.past + i) {
      scores[j] = -kInfinity;
      continue;
    }
    if (!mask_.empty()) scores[j] += MaskValue(b, i, j);
    if (bias) scores[j] += bias[j];
  }
}

Status CheckAttentionMask(const InferContext& c, int input, const Dim& batch, const Dim& queries, const Dim& new_keys,
                          const Dim& keys) {
  const std::optional<Dims> shape = c.input_shape(input);
  if (!shape) return OkStatus();
  const Dims& m = *shape;
  bool fits = false;
  switch (m.size()) {
    case 1:
      fits = !Differ(m[0], batch) || !Differ(m[0], batch * 2) || !Differ(m[0], batch * 3 + 2);
      break;
    case 2:
      fits = !Differ(m[0], batch) && (!Differ(m[1], keys) || !Differ(m[1], new_keys));
      fits |= (!Differ(m[0], batch) || m[0].is_constant(1)) && !Differ(m[1], 1);
      break;
    case 3:
      fits = !Differ(m[0], batch) && !Differ(m[1], queries) && !Differ(m[2], keys);
      break;
    case 4:
      fits = !Differ(m[0], batch) && !Differ(m[1], 1) && !Differ(m[2], m[3]) && !Differ(queries, new_keys) &&
             !(m[3].is_constant() && keys.is_constant() && m[3].value() < keys.value());
      break;
    default:
      break;
  }
  if (fits) return OkStatus();
  return c.Error("the mask '" + c.node().input(input)->name() + "' has shape " + DimsToString(m) + ", which fits no " +
                 "mask of batch " + batch.ToString() + ", " + queries.ToString() + " queries and " + keys.ToString() +
                 " keys");
}

Status CheckAttentionBias(const InferContext& c, int input, const Dim& batch, int64_t heads, const Dim& queries,
                          const Dim& keys) {
  const std::optional<Dims> shape = c.input_shape(input);
  if (!shape) return OkStatus();
  const auto repeats = [](const Dim& d, const Dim& to) { return d.is_constant(1) || !Differ(d, to); };
  if (shape->size() == 4 && repeats((*shape)[0], batch) && repeats((*shape)[1], heads) &&
      !Differ((*shape)[2], queries) && !Differ((*shape)[3], keys)) {
    return OkStatus();
  }
  return c.Error("input '" + c.node().input(input)->name() + "' has shape " + DimsToString(*shape) +
                 "; the scores have " + DimsToString({batch, heads, queries, keys}));
}

Status CheckOneElement(const InferContext& c, int i) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape || shape->empty() || (shape->size() == 1 && !Differ((*shape)[0], 1))) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) +
                 "; one element is needed");
}

Status CheckScratch(EvalContext& c, const Shape& shape) {
  const Result<size_t> bytes = TensorBytes(DType::kF32, shape);
  if (!bytes.ok()) return bytes.status().WithContext(c.node().Describe());
  if (static_cast<int64_t>(*bytes) <= std::min(c.limits().tensor_bytes, c.limits().memory_bytes)) return OkStatus();
  return ResourceExhausted(c.node().Describe() + ": temporary values of shape " + shape.ToString() +
                           " are more than the limits allow");
}

Result<int64_t> ReadOneInt(EvalContext& c, int i) {
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, ReadInts(c, i));
  if (values.size() == 1) return values[0];
  return c.Error("input '" + c.node().input(i)->name() + "' has " + std::to_string(values.size()) +
                 " elements; one is needed");
}

Result<int64_t> ReadHeadCount(const InferContext& c, const char* name) {
  const int64_t heads = c.node().GetInt(name, 0);
  if (heads > 0 && heads <= (int64_t{1} << 31)) return heads;
  return c.Error(std::string("attribute '") + name + "' is " + std::to_string(heads) +
                 "; a positive number of heads is needed");
}

}  // namespace quern
