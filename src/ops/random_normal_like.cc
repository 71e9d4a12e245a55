// RandomNormalLike: numbers from a normal distribution, of the shape of a tensor.
#include "ops/common/any_types.h"
#include "ops/common/random.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) { return EvaluateNormal(c, InferRandomLike); }

constexpr AttrSpec kAttributes[] = {{"dtype", AttrType::kInt},
                                    {"mean", AttrType::kFloat, false, "0"},
                                    {"scale", AttrType::kFloat, false, "1"},
                                    {"seed", AttrType::kFloat}};
constexpr Param kInputs1[] = {{"input", "T1", AnyTypes(1)}}, kOutputs1[] = {{"output", "T2", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"input", "T1", AnyTypes(13)}}, kOutputs22[] = {{"output", "T2", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, InferRandomLike, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, InferRandomLike, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpRandomNormalLike = {"", "RandomNormalLike", kVersions, kRandomNotes, false};

}  // namespace quern
