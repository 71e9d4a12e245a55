// Self-attention whose queries, keys and values come from one matrix product, with one cache for keys and values: what
// Attention and QAttention of com.microsoft share.
#pragma once

#include <functional>

#include "ops/op.h"

namespace quern {

// Which inputs hold what (-1: none); input 0 is [batch, length, width], input 1 the weights [width, q + k + v].
struct PackedAttentionInputs {
  int bias, mask, past, attention_bias, past_length;
};
// Output 0 is [batch, length, v] of type `dtype`, output 1 the cache [2, batch, heads, rows, size].
Status InferPackedAttention(InferContext& context, const PackedAttentionInputs& inputs, DType dtype);
// project(row, sums): writes the products of row `row` of [batch * length] rows with all columns of the weights; the
// bias is added here.
using ProjectRow = std::function<void(int64_t row, double* sums)>;
Status EvaluatePackedAttention(EvalContext& context, Status (*infer)(InferContext&),
                               const PackedAttentionInputs& inputs, const ProjectRow& project);

}  // namespace quern
