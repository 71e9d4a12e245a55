// com.microsoft.FusedGemm: Gemm through an activation.
#include <functional>
#include <string>

#include "ops/common/fused_activation.h"
#include "ops/common/gemm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Result<std::function<double(double)>> ReadActivation(const Node& node) {
  return ReadFusedActivation(
      node, [&](const char* name, size_t) { return node.FindAttribute<float>(std::string("activation_") + name); });
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadActivation(c.node()).status());
  return InferGemm(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const auto activation, ReadActivation(c.node()));
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
