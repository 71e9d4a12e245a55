// com.microsoft.FusedGemm: Gemm through an activation.
#include <vector>

#include "ops/common/fused_activation.h"
#include "ops/common/gemm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

std::vector<float> Params(const Node& node) {
  std::vector<float> params;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    const float* value = node.FindAttribute<float>(name);
    if (value == nullptr) break;
    params.push_back(*value);
  }
  return params;
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadFusedActivation(c.node(), Params(c.node())).status());
  return InferGemm(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const auto activation, ReadFusedActivation(c.node(), Params(c.node())));
  return EvaluateGemm(c, activation);
}

constexpr Param kInputs[] = {{"A", "T", kMathTypes}, {"B", "T", kMathTypes}, {"C", "T", kMathTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T", kMathTypes}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kString},       {"activation_alpha", AttrType::kFloat},
                                    {"activation_beta", AttrType::kFloat},   {"activation_gamma", AttrType::kFloat},
                                    {"alpha", AttrType::kFloat, false, "1"}, {"beta", AttrType::kFloat, false, "1"},
                                    {"transA", AttrType::kInt, false, "0"},  {"transB", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftFusedGemm = {"com.microsoft", "FusedGemm", kVersions};

}  // namespace quern
