// com.microsoft.SkipGroupNorm: GroupNorm of the sum of X, skip and bias.
#include "ops/common/channel_groups.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferChannelGroups(c, true); }

Status Evaluate(EvalContext& c) { return EvaluateChannelGroups(c, Infer, true); }

constexpr TypeSet kTypes = {DType::kF32, DType::kF16};
constexpr Param kInputs[] = {{"X", "T", kTypes},
                             {"gamma", "M", kTypes},
                             {"beta", "M", kTypes},
                             {"skip", "T", kTypes},
                             {"bias", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T", kTypes}, {"S", "T", kTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kInt, true},
                                    {"channels_last", AttrType::kInt, false, "1"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"groups", AttrType::kInt, true}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftSkipGroupNorm = {"com.microsoft", "SkipGroupNorm", kVersions};

}  // namespace quern
