// Scaled dot-product attention over heads, as the attention operators of com.microsoft compute it: the layouts that
// their inputs come in, the cache of keys and values, rotary angles, and the product itself. All in float.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/common/input_shape.h"
#include "ops/op.h"

namespace quern {

// Rows of heads inside an input: element p of head h of row s of sample b is
// data[(b * rows + s) * row_stride + h * head_stride + p] (+ bias[h * size + p]).
struct HeadRows {
  const float* data;
  int64_t row_stride, head_stride;
  const float* bias = nullptr;
};
// The same as [batch, heads, rows, size].
std::vector<float> TakeHeads(const HeadRows& from, int64_t batch, int64_t heads, int64_t rows, int64_t size);

// A cache of keys or values joined with new rows, [batch, heads, rows, size].
struct CacheJoin {
  int64_t batch, heads, size;
  int64_t past_rows;  // of `past`, [batch, heads, past_rows, size]
  int64_t new_rows;   // of `now`, [batch, heads, new_rows, size]
  int64_t rows;       // of the result; what nothing is written to is 0, or the past's with `keeps_rest`
  bool keeps_rest = false;
  // How many rows of the past of sample b precede the new ones: at most past_rows and rows - new_rows.
  std::function<int64_t(int64_t b)> used = {};
};
std::vector<float> JoinCache(const CacheJoin& join, const float* past, const float* now);

// Rotates the first 2 * half elements of a head by the angles whose cosines and sines are given.
void RotateHead(float* head, int64_t half, const float* cosines, const float* sines, bool interleaved);

struct HeadAttention {
  int64_t batch, heads, kv_heads;  // kv_heads divides heads
  int64_t queries, keys;
  int64_t kv_rows;  // that k and v have per head; the first `keys` count
  int64_t size, value_size;
  double scale = 1;
  double softcap = 0;  // scores become softcap * tanh(score / softcap) when it is positive
  // Adds to the scores of query i of head h of sample b; -infinity hides a key.
  std::function<void(int64_t b, int64_t h, int64_t i, std::span<double> scores)> bias = {};
  // A score of head h that takes part in the softmax but has no value.
  std::function<double(int64_t h)> sink = {};
  // See the scores before and after the softmax.
  using Observer = std::function<void(int64_t b, int64_t h, int64_t i, std::span<const double> scores)>;
  Observer see_scores = {}, see_probabilities = {};
};
// q [batch, heads, queries, size], k [batch, kv_heads, kv_rows, size], v [batch, kv_heads, kv_rows, value_size];
// y [batch, queries, heads, value_size]. A query that sees no key gives zeros. An error when limits are reached.
Status Attend(EvalContext& context, const HeadAttention& a, const float* q, const float* k, const float* v, float* y);

// What is added to the scores: mask_index or key_padding_mask, the order of time, and a tensor of biases.
class ScoreBias {
 public:
  struct Layout {
    int mask_input = -1;  // -1: none
    int bias_input = -1;
    int64_t batch = 0, heads = 0, queries = 0;
    int64_t past = 0, new_keys = 0;  // keys are past + new_keys
    double filter = -10000;          // added where a mask hides a key
    bool causal = false;             // a query sees no later key
  };
  // Both inputs must have passed the checks below.
  static Result<ScoreBias> Make(EvalContext& context, const Layout& layout);
  // To the scores of the keys from `first` on; only the tensor of biases knows of earlier ones.
  void Add(int64_t b, int64_t h, int64_t i, std::span<double> scores, int64_t first = 0) const;

 private:
  double MaskValue(int64_t b, int64_t i, int64_t j) const;
  Layout layout_;
  std::vector<int64_t> mask_;
  Shape mask_shape_;
  std::vector<float> bias_;
  int64_t bias_strides_[3] = {0, 0, 0};  // of batch, head, query
};
// Errors when a mask or a bias is known not to have one of the shapes that the operators take:
// mask [batch], [2 * batch], [3 * batch + 2], [batch, keys], [batch, new_keys], [batch | 1, 1], [batch, queries, keys]
// or [batch, 1, max, max]; bias [batch | 1, heads | 1, queries, keys].
Status CheckAttentionMask(const InferContext& c, int input, const Dim& batch, const Dim& queries, const Dim& new_keys,
                          const Dim& keys);
Status CheckAttentionBias(const InferContext& c, int input, const Dim& batch, int64_t heads, const Dim& queries,
                          const Dim& keys);

// An error when temporary floats of this shape would pass the limits.
Status CheckScratch(EvalContext& c, const Shape& shape);
// An error when input i is known not to be a scalar or [1].
Status CheckOneElement(const InferContext& c, int i);
// The one element of an integer input; an error for another count.
Result<int64_t> ReadOneInt(EvalContext& c, int i);
// The positive attribute `name`; an error otherwise.
Result<int64_t> ReadHeadCount(const InferContext& c, const char* name);

}  // namespace quern
