// com.microsoft.GridSample: the standard's, for models of operator sets before 16.
#include "ops/common/grid_sample.h"

namespace quern {
namespace {

constexpr TypeSet kFloat = {DType::kF32};
constexpr AttrSpec kAttributes[] = {{"align_corners", AttrType::kInt, false, "0"},
                                    {"mode", AttrType::kString, false, "bilinear"},
                                    {"padding_mode", AttrType::kString, false, "zeros"}};
constexpr Param kInputs[] = {{"X", "T1", kFloat}, {"Grid", "T1", kFloat}};
constexpr Param kOutputs[] = {{"Y", "T2", kFloat}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, InferGridSample, EvaluateGridSample}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftGridSample = {"com.microsoft", "GridSample", kVersions};

}  // namespace quern
