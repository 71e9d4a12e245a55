// Upsample: what Resize was before operator set 10 (deprecated since).
#include "ops/common/any_types.h"
#include "ops/common/resize.h"

namespace quern {
namespace {

constexpr TypeSet kFloat32 = {DType::kF32};
constexpr AttrSpec kAttributes7[] = {{"mode", AttrType::kString, false, "nearest"},
                                     {"scales", AttrType::kFloats, true}};
constexpr AttrSpec kAttributes9[] = {{"mode", AttrType::kString, false, "nearest"}};
constexpr Param kInputs7[] = {{"X", "T", AnyTypes(7)}};
constexpr Param kInputs9[] = {{"X", "T", AnyTypes(9)}, {"scales", "", kFloat32}};
constexpr Param kOutputs[] = {{"Y", "T", AnyTypes(9)}};
constexpr OpVersion kVersions[] = {{7, kInputs7, kOutputs, kAttributes7, InferResize, EvaluateResize},
                                   {9, kInputs9, kOutputs, kAttributes9, InferResize, EvaluateResize},
                                   {10, kInputs9, kOutputs, kAttributes9, InferResize, EvaluateResize}};

}  // namespace

extern constinit const OpDefinition kOpUpsample = {"", "Upsample", kVersions};

}  // namespace quern
