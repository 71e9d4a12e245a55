// Upsample: what Resize was before operator set 10 (deprecated since).
#include "ops/common/any_types.h"
#include "ops/common/resize.h"

namespace quern {
namespace {

constexpr TypeSet kTypes1 = {DType::kBool, DType::kI32, DType::kI64, DType::kF16, DType::kF32, DType::kF64};
constexpr TypeSet kFloat32 = {DType::kF32};
constexpr AttrSpec kAttributes1[] = {{"height_scale", AttrType::kFloat, true},
                                     {"mode", AttrType::kString, false, "nearest"},
                                     {"width_scale", AttrType::kFloat, true}};
constexpr AttrSpec kAttributes7[] = {{"mode", AttrType::kString, false, "nearest"},
                                     {"scales", AttrType::kFloats, true}};
constexpr AttrSpec kAttributes9[] = {{"mode", AttrType::kString, false, "nearest"}};
constexpr Param kInputs1[] = {{"X", "T", kTypes1}};
constexpr Param kOutputs1[] = {{"Y", "T", kTypes1}};
constexpr Param kInputs7[] = {{"X", "T", AnyTypes(7)}};
constexpr Param kInputs9[] = {{"X", "T", AnyTypes(9)}, {"scales", "", kFloat32}};
constexpr Param kOutputs[] = {{"Y", "T", AnyTypes(9)}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, InferResize, EvaluateResize},
                                   {7, kInputs7, kOutputs, kAttributes7, InferResize, EvaluateResize},
                                   {9, kInputs9, kOutputs, kAttributes9, InferResize, EvaluateResize},
                                   {10, kInputs9, kOutputs, kAttributes9, InferResize, EvaluateResize}};

}  // namespace

extern constinit const OpDefinition kOpUpsample = {"", "Upsample", kVersions};

}  // namespace quern
