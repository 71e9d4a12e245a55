// com.microsoft.EmbedLayerNormalization: LayerNormalization of the sum of word, position and segment embeddings, and
// how many words a mask keeps.
#include "ops/common/embedding.h"
#include "ops/common/float_io.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferEmbedding(c, c.input_dtype(2), /*has_positions=*/true); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  FloatInput<float> read[5];  // from input 2 on
  EmbeddingTable made[5];
  for (int i = 0; i < 5; ++i) {
    QUERN_ASSIGN_OR_RETURN(read[i], ReadFloats<float>(c, 2 + i));
    if (read[i]) made[i] = {read[i].shape(), read[i].data()};
  }
  return EvaluateEmbedding(c, outputs, {made[0], made[1], made[2], made[3], made[4]}, /*has_positions=*/true);
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16};
constexpr Param kInputs[] = {{"input_ids", "T1", kI32Type},
                             {"segment_ids", "T1", kI32Type, Arity::kOptional},
                             {"word_embedding", "T", kTypes},
                             {"position_embedding", "T", kTypes},
                             {"segment_embedding", "T", kTypes, Arity::kOptional},
                             {"gamma", "T", kTypes},
                             {"beta", "T", kTypes},
                             {"mask", "T1", kI32Type, Arity::kOptional},
                             {"position_ids", "T1", kI32Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes},
                              {"mask_index", "T1", kI32Type, Arity::kOptional},
                              {"embedding_sum", "T", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"epsilon", AttrType::kFloat, false, "1e-12"},
                                    {"mask_index_type", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftEmbedLayerNormalization = {"com.microsoft", "EmbedLayerNormalization",
                                                                           kVersions};

}  // namespace quern
