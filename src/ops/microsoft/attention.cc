// com.microsoft.Attention: self-attention with the projection of queries, keys and values, masks and a cache.
#include "ops/common/float_io.h"
#include "ops/common/matmul.h"
#include "ops/common/packed_attention.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr PackedAttentionInputs kLayout = {.bias = 2, .mask = 3, .past = 4, .attention_bias = 5, .past_length = 6};

Status Infer(InferContext& c) { return InferPackedAttention(c, kLayout, c.input_dtype(0)); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, 0));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> weights, ReadFloats<float>(c, 1));
  return EvaluatePackedAttention(c, Infer, kLayout, [&](int64_t row, double* sums) {
    const int64_t width = weights.shape()[0], columns = weights.shape()[1];
    MultiplyRow<float, float, double>(columns, width, x.data() + row * width, 1, weights.data(), columns, 1, sums);
  });
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"input", "T", kTypes},
                             {"weights", "T", kTypes},
                             {"bias", "T", kTypes, Arity::kOptional},
                             {"mask_index", "M", kI32Type, Arity::kOptional},
                             {"past", "T", kTypes, Arity::kOptional},
                             {"attention_bias", "T", kTypes, Arity::kOptional},
                             {"past_sequence_length", "M", kI32Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}, {"present", "T", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"do_rotary", AttrType::kInt, false, "0"},
                                    {"mask_filter_value", AttrType::kFloat, false, "-10000"},
                                    {"num_heads", AttrType::kInt, true},
                                    {"past_present_share_buffer", AttrType::kInt, false, "0"},
                                    {"qkv_hidden_sizes", AttrType::kInts},
                                    {"rotary_embedding_dim", AttrType::kInt, false, "0"},
                                    {"scale", AttrType::kFloat},
                                    {"unidirectional", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftAttention = {"com.microsoft", "Attention", kVersions};

}  // namespace quern
