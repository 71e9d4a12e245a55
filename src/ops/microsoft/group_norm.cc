// com.microsoft.GroupNorm: normalization over groups of channels, the channels last by default, then SiLU if asked for.
#include "ops/common/channel_groups.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferChannelGroups(c, false); }

Status Evaluate(EvalContext& c) { return EvaluateChannelGroups(c, Infer, false); }

constexpr TypeSet kTypes = {DType::kF32, DType::kF16};
constexpr Param kInputs[] = {{"X", "T", kTypes}, {"gamma", "M", kTypes}, {"beta", "M", kTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kInt, true},
                                    {"channels_last", AttrType::kInt, false, "1"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"groups", AttrType::kInt, true}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftGroupNorm = {"com.microsoft", "GroupNorm", kVersions};

}  // namespace quern
