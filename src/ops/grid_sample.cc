// GridSample: an image read at positions that a grid gives.
#include "ops/common/grid_sample.h"
#include "ops/common/any_types.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

constexpr AttrSpec kAttributes16[] = {{"align_corners", AttrType::kInt, false, "0"},
                                      {"mode", AttrType::kString, false, "bilinear"},
                                      {"padding_mode", AttrType::kString, false, "zeros"}};
constexpr AttrSpec kAttributes20[] = {{"align_corners", AttrType::kInt, false, "0"},
                                      {"mode", AttrType::kString, false, "linear"},
                                      {"padding_mode", AttrType::kString, false, "zeros"}};
constexpr Param kInputs16[] = {{"X", "T1", AnyTypes(11)}, {"grid", "T2", kOldFloatTypes}};
constexpr Param kOutputs16[] = {{"Y", "T1", AnyTypes(11)}};
constexpr Param kInputs22[] = {{"X", "T1", kAllTensorTypes}, {"grid", "T2", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T1", kAllTensorTypes}};
constexpr OpVersion kVersions[] = {{16, kInputs16, kOutputs16, kAttributes16, InferGridSample, EvaluateGridSample},
                                   {20, kInputs16, kOutputs16, kAttributes20, InferGridSample, EvaluateGridSample},
                                   {22, kInputs22, kOutputs22, kAttributes20, InferGridSample, EvaluateGridSample}};

}  // namespace

extern constinit const OpDefinition kOpGridSample = {
    "", "GridSample", kVersions,
    "Strings can only be sampled in mode nearest. Either spelling of a mode (linear, bilinear) is understood."};

}  // namespace quern
