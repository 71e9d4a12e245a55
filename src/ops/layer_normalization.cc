// LayerNormalization: normalization over the dimensions from the axis on, then scale and bias.
#include "ops/common/layer_norm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate1(EvalContext& c) { return EvaluateLayerNorm(c, InferLayerNormOfScaleType, true, 2); }
Status Evaluate17(EvalContext& c) { return EvaluateLayerNorm(c, InferLayerNorm, true, 2); }

// onnxruntime's optimizer writes the operator into models of older operator sets, with a scale of any type.
constexpr Param kInputs1[] = {
    {"X", "T", kFloatTypes}, {"Scale", "V", kFloatTypes}, {"B", "V", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs1[] = {{"Y", "V", kFloatTypes},
                               {"Mean", "U", TypeSet{DType::kF32, DType::kF64}, Arity::kOptional},
                               {"InvStdDev", "U", TypeSet{DType::kF32, DType::kF64}, Arity::kOptional}};

constexpr Param kInputs[] = {
    {"X", "T", kFloatTypes}, {"Scale", "T", kFloatTypes}, {"B", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes},
                              {"Mean", "U", TypeSet{DType::kF32, DType::kBF16}, Arity::kOptional},
                              {"InvStdDev", "U", TypeSet{DType::kF32, DType::kBF16}, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"stash_type", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, InferLayerNormOfScaleType, Evaluate1},
                                   {17, kInputs, kOutputs, kAttributes, InferLayerNorm, Evaluate17}};

}  // namespace

extern constinit const OpDefinition kOpLayerNormalization = {"", "LayerNormalization", kVersions};

}  // namespace quern
