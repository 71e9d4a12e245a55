// com.microsoft.QEmbedLayerNormalization: EmbedLayerNormalization of tables, gamma and beta that are quantized.
#include <vector>

#include "ops/common/embedding.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

constexpr int kTables = 5;                         // from input kFirst on
constexpr int kFirst = 2, kScale = 8, kZero = 13;  // of the first; those of the others follow

Status Infer(InferContext& c) { return InferEmbedding(c, DType::kF32, /*has_positions=*/false); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  std::vector<float> numbers[kTables];
  EmbeddingTable made[kTables];
  for (int i = 0; i < kTables; ++i) {
    if (!c.HasInput(kFirst + i)) continue;
    QUERN_ASSIGN_OR_RETURN(const TensorQuantization from, ReadTensorQuantization(c, kScale + i, kZero + i));
    for (const int32_t q : WidenIntegers(c.input(kFirst + i))) numbers[i].push_back(static_cast<float>(from.ToReal(q)));
    made[i] = {c.input(kFirst + i).shape(), numbers[i].data()};
  }
  return EvaluateEmbedding(c, outputs, {made[0], made[1], made[2], made[3], made[4]}, /*has_positions=*/false);
}

constexpr Param kInputs[] = {{"input_ids", "T1", kI32Type},
                             {"segment_ids", "T1", kI32Type, Arity::kOptional},
                             {"word_embedding_quant", "T2", kByteTypes},
                             {"position_embedding_quant", "T2", kByteTypes},
                             {"segment_embedding", "T2", kByteTypes, Arity::kOptional},
                             {"gamma_quant", "T2", kByteTypes},
                             {"beta_quant", "T2", kByteTypes},
                             {"mask", "T1", kI32Type, Arity::kOptional},
                             {"word_embedding_scale", "", kF32Type},
                             {"position_embedding_scale", "", kF32Type},
                             {"segment_embedding_scale", "", kF32Type, Arity::kOptional},
                             {"gamma_scale", "", kF32Type},
                             {"beta_scale", "", kF32Type},
                             {"word_embedding_zero_point", "T2", kByteTypes},
                             {"position_embedding_zero_point", "T2", kByteTypes},
                             {"segment_embedding_zero_point", "T2", kByteTypes, Arity::kOptional},
                             {"gamma_zero_point", "T2", kByteTypes},
                             {"beta_zero_point", "T2", kByteTypes}};
constexpr Param kOutputs[] = {{"layernorm_out", "T", kF32Type}, {"mask_index_out", "T1", kI32Type, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"epsilon", AttrType::kFloat, false, "1e-12"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQEmbedLayerNormalization = {"com.microsoft", "QEmbedLayerNormalization",
                                                                            kVersions};

}  // namespace quern
