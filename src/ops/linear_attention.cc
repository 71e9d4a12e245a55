// LinearAttention: attention as a recurrence over a state of one matrix per head, with optional decay and delta rule.
#include "ops/common/linear_attention.h"

namespace quern {
namespace {

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
constexpr OpVersion kVersions[] = {
    {27, kInputs, kOutputs, kAttributes, InferLinearAttention, EvaluateLinearAttention, 2}};

}  // namespace

extern constinit const OpDefinition kOpLinearAttention = {"", "LinearAttention", kVersions};

}  // namespace quern
