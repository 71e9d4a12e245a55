// RandomUniform: numbers from a uniform distribution.
#include "ops/common/random.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) { return EvaluateUniform(c, InferRandom); }

constexpr AttrSpec kAttributes[] = {{"dtype", AttrType::kInt, false, "1"},
                                    {"high", AttrType::kFloat, false, "1"},
                                    {"low", AttrType::kFloat, false, "0"},
                                    {"seed", AttrType::kFloat},
                                    {"shape", AttrType::kInts, true}};
constexpr Param kOutputs1[] = {{"output", "T", kOldFloatTypes}}, kOutputs22[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, {}, kOutputs1, kAttributes, InferRandom, Evaluate},
                                   {22, {}, kOutputs22, kAttributes, InferRandom, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpRandomUniform = {"", "RandomUniform", kVersions, kRandomNotes, false};

}  // namespace quern
