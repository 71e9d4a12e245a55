// SimplifiedLayerNormalization: x over its root mean square over the dimensions from the axis on, then scale (as
// onnxruntime exports it, in domain ai.onnx).
#include <algorithm>
#include <string>

#include "ops/common/infer_common.h"
#include "ops/common/layer_norm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// The result has the type of the scale, the statistic that of 'stash_type' (1: float, 11: double).
Status Infer(InferContext& c) {
  const int64_t stash = c.node().GetInt("stash_type", 1);
  if (stash != 1 && stash != 11) {
    return c.Error("'stash_type' is " + std::to_string(stash) + "; 1 (float) or 11 (double) is needed");
  }
  QUERN_RETURN_IF_ERROR(InferLayerNorm(c));
  const std::optional<Dims> x = c.input_shape(0);
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(1), x));
  std::optional<Dims> statistic = x;
  if (x) {
    QUERN_ASSIGN_OR_RETURN(const int axis,
                           NormalizeAxis(c.node(), c.node().GetInt("axis", -1), static_cast<int>(x->size())));
    std::fill(statistic->begin() + axis, statistic->end(), Dim(1));
  }
  c.SetOutputType(1, ValueType::Tensor(stash == 11 ? DType::kF64 : DType::kF32, std::move(statistic)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) { return EvaluateLayerNorm(c, Infer, false, 1); }

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}, {"scale", "V", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "V", kFloatTypes},
                              {"inv_std_var", "U", TypeSet{DType::kF32, DType::kF64}, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"stash_type", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSimplifiedLayerNormalization = {"", "SimplifiedLayerNormalization", kVersions};

}  // namespace quern
