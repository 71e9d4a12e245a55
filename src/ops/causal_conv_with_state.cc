// CausalConvWithState: depthwise convolution over time of the state's last elements followed by the input's.
#include "ops/common/causal_conv_with_state.h"

namespace quern {
namespace {

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"input", "T", kTypes},
                             {"weight", "T", kTypes},
                             {"bias", "T", kTypes, Arity::kOptional},
                             {"past_state", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}, {"present_state", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kString, false, "none"}};
constexpr OpVersion kVersions[] = {
    {27, kInputs, kOutputs, kAttributes, InferCausalConvWithState, EvaluateCausalConvWithState, 2}};

}  // namespace

extern constinit const OpDefinition kOpCausalConvWithState = {"", "CausalConvWithState", kVersions};

}  // namespace quern
