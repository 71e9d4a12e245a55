// com.microsoft.CausalConvWithState: that of ai.onnx, with dilations and either layout, over one dimension.
#include "ops/common/causal_conv_with_state.h"

#include <string>
#include <utility>

namespace quern {
namespace {

// Forms that the specification leaves to accelerators or that go beyond one state of one dimension.
Status RefuseForms(const InferContext& c) {
  const Node& node = c.node();
  for (const auto& [name, plain] : {std::pair("input_channel_offset", int64_t{0}),
                                    {"input_channels", 0},
                                    {"ndim", 1},
                                    {"state_channels_last", -1},
                                    {"state_length", 0},
                                    {"state_update_capacity", 0},
                                    {"state_window", 0}}) {
    const int64_t value = node.GetInt(name, plain);
    if (value == plain) continue;
    return Unsupported(node.Describe() + ": '" + name + "' = " + std::to_string(value) + " is not supported; " +
                       std::to_string(plain) + " is");
  }
  if (node.output(2) != nullptr) return c.Error("the output state_update needs a 'state_update_capacity'");
  return OkStatus();
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(RefuseForms(c));
  return InferCausalConvWithState(c);
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"input", "T", kTypes},
                             {"weight", "T", kTypes},
                             {"bias", "T", kTypes, Arity::kOptional},
                             {"past_state", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {
    {"output", "T", kTypes}, {"present_state", "T", kTypes}, {"state_update", "T", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kString, false, "none"},
                                    {"channels_last", AttrType::kInt, false, "0"},
                                    {"dilation", AttrType::kInt, false, "1"},
                                    {"input_channel_offset", AttrType::kInt, false, "0"},
                                    {"input_channels", AttrType::kInt, false, "0"},
                                    {"ndim", AttrType::kInt, false, "1"},
                                    {"state_channels_last", AttrType::kInt, false, "-1"},
                                    {"state_length", AttrType::kInt, false, "0"},
                                    {"state_update_capacity", AttrType::kInt, false, "0"},
                                    {"state_window", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, EvaluateCausalConvWithState, 2}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftCausalConvWithState = {"com.microsoft", "CausalConvWithState",
                                                                       kVersions};

}  // namespace quern
