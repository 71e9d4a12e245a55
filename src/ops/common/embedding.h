// LayerNormalization of the sum of word, position and segment embeddings, and how many words a mask keeps: what
// EmbedLayerNormalization and QEmbedLayerNormalization of com.microsoft share. Inputs 0 to 7: ids of words and
// segments; tables of words, positions and segments; gamma, beta; the mask. The outputs: the result, the counts, the
// sums.
#pragma once

#include "ops/common/eval_infer.h"
#include "ops/op.h"

namespace quern {

// The result is of `dtype`; input 8 holds the positions, where `has_positions`.
Status InferEmbedding(InferContext& context, DType dtype, bool has_positions);

// Numbers that outlive their use; an omitted one has none.
struct EmbeddingTable {
  Shape shape;
  const float* data = nullptr;
};
struct EmbeddingTables {
  EmbeddingTable words, positions, segments, gamma, beta;
};
Status EvaluateEmbedding(EvalContext& context, const InferredOutputs& outputs, const EmbeddingTables& tables,
                         bool has_positions);

}  // namespace quern
