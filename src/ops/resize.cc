// Resize: interpolates along any dimensions, to given sizes or by scales.
#include "ops/common/resize.h"
#include "ops/common/any_types.h"

namespace quern {
namespace {

constexpr TypeSet kFloat32 = {DType::kF32};
constexpr TypeSet kRoiTypes = {DType::kF32, DType::kF64, DType::kF16};
constexpr AttrSpec kAttributes10[] = {{"mode", AttrType::kString, false, "nearest"}};
constexpr AttrSpec kAttributes11[] = {{"coordinate_transformation_mode", AttrType::kString, false, "half_pixel"},
                                      {"cubic_coeff_a", AttrType::kFloat, false, "-0.75"},
                                      {"exclude_outside", AttrType::kInt, false, "0"},
                                      {"extrapolation_value", AttrType::kFloat, false, "0.0"},
                                      {"mode", AttrType::kString, false, "nearest"},
                                      {"nearest_mode", AttrType::kString, false, "round_prefer_floor"}};
constexpr AttrSpec kAttributes18[] = {{"antialias", AttrType::kInt, false, "0"},
                                      {"axes", AttrType::kInts},
                                      {"coordinate_transformation_mode", AttrType::kString, false, "half_pixel"},
                                      {"cubic_coeff_a", AttrType::kFloat, false, "-0.75"},
                                      {"exclude_outside", AttrType::kInt, false, "0"},
                                      {"extrapolation_value", AttrType::kFloat, false, "0.0"},
                                      {"keep_aspect_ratio_policy", AttrType::kString, false, "stretch"},
                                      {"mode", AttrType::kString, false, "nearest"},
                                      {"nearest_mode", AttrType::kString, false, "round_prefer_floor"}};
constexpr Param kInputs10[] = {{"X", "T", AnyTypes(10)}, {"scales", "", kFloat32}};
constexpr Param kInputs11[] = {{"X", "T1", AnyTypes(11)},
                               {"roi", "T2", kRoiTypes},
                               {"scales", "", kFloat32},
                               {"sizes", "", kInt64Type, Arity::kOptional}};
constexpr Param kInputs13[] = {{"X", "T1", AnyTypes(13)},
                               {"roi", "T2", kRoiTypes, Arity::kOptional},
                               {"scales", "", kFloat32, Arity::kOptional},
                               {"sizes", "", kInt64Type, Arity::kOptional}};
template <int kSince>
constexpr Param kOutputs[] = {{"Y", "T1", AnyTypes(kSince)}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs<10>, kAttributes10, InferResize, EvaluateResize},
                                   {11, kInputs11, kOutputs<11>, kAttributes11, InferResize, EvaluateResize},
                                   {13, kInputs13, kOutputs<13>, kAttributes11, InferResize, EvaluateResize},
                                   {18, kInputs13, kOutputs<13>, kAttributes18, InferResize, EvaluateResize},
                                   {19, kInputs13, kOutputs<13>, kAttributes18, InferResize, EvaluateResize}};

}  // namespace

extern constinit const OpDefinition kOpResize = {"", "Resize", kVersions};

}  // namespace quern
