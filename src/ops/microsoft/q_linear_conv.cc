// com.microsoft.QLinearConv: the standard's, whose image and result may have their channels last.
#include "ops/common/q_linear_conv.h"

namespace quern {
namespace {

constexpr AttrSpec kAttributes[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"channels_last", AttrType::kInt, false, "0"},
                                    {"dilations", AttrType::kInts},
                                    {"group", AttrType::kInt, false, "1"},
                                    {"kernel_shape", AttrType::kInts},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {
    {1, kQLinearConvInputs, kQLinearConvOutputs, kAttributes, InferQLinearConv, EvaluateQLinearConv}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearConv = {"com.microsoft", "QLinearConv", kVersions};

}  // namespace quern
