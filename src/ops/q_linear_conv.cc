// QLinearConv: convolution of quantized tensors.
#include "ops/common/q_linear_conv.h"

namespace quern {
namespace {

constexpr AttrSpec kAttributes[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"dilations", AttrType::kInts},
                                    {"group", AttrType::kInt, false, "1"},
                                    {"kernel_shape", AttrType::kInts},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {
    {10, kQLinearConvInputs, kQLinearConvOutputs, kAttributes, InferQLinearConv, EvaluateQLinearConv}};

}  // namespace

extern constinit const OpDefinition kOpQLinearConv = {"", "QLinearConv", kVersions};

}  // namespace quern
