// Conv: N-dimensional grouped convolution of floats.
#include "ops/common/convolution.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferConv(c, {}, c.input_dtype(0)); }

Status Evaluate(EvalContext& c) { return EvaluateFloatConv(c, -1, nullptr); }

constexpr Param kInputs1[] = {
    {"X", "T", kOldFloatTypes}, {"W", "T", kOldFloatTypes}, {"B", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {
    {"X", "T", kFloatTypes}, {"W", "T", kFloatTypes}, {"B", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"dilations", AttrType::kInts},
                                    {"group", AttrType::kInt, false, "1"},
                                    {"kernel_shape", AttrType::kInts},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, Infer, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpConv = {"", "Conv", kVersions};

}  // namespace quern
