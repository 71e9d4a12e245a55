// com.microsoft.LinearAttention: that of ai.onnx, with keys that heads share and queries that do.
#include "ops/common/linear_attention.h"

#include <string>

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const int64_t window = c.node().GetInt("state_window", 0);
  if (window < 0 || window > 8) {
    return c.Error("'state_window' is " + std::to_string(window) + "; a number from 0 to 8 is needed");
  }
  if (window > 0) {
    return Unsupported(c.node().Describe() + ": 'state_window' = " + std::to_string(window) +
                       " (states of several tokens) is not supported");
  }
  return InferLinearAttention(c);
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"query", "T", kTypes},
                             {"key", "T", kTypes},
                             {"value", "T", kTypes},
                             {"past_state", "S", kTypes, Arity::kOptional},
                             {"decay", "T", kTypes, Arity::kOptional},
                             {"beta", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}, {"present_state", "S", kTypes}};
constexpr AttrSpec kAttributes[] = {
    {"chunk_size", AttrType::kInt, false, "64"},  {"kv_num_heads", AttrType::kInt, true},
    {"q_num_heads", AttrType::kInt, true},        {"scale", AttrType::kFloat, false, "0"},
    {"state_window", AttrType::kInt, false, "0"}, {"update_rule", AttrType::kString, false, "gated_delta"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, EvaluateLinearAttention, 2}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftLinearAttention = {"com.microsoft", "LinearAttention", kVersions};

}  // namespace quern
