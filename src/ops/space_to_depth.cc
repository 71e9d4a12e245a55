// SpaceToDepth: moves blocks of the picture into channels.
#include "ops/common/depth_space.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferDepthSpace(c, false); }
Status Evaluate(EvalContext& c) { return EvaluateDepthSpace(c, false, Infer); }

constexpr AttrSpec kAttributes1[] = {{"blocksize", AttrType::kInt, true}};
constexpr AttrSpec kAttributes28[] = {{"blocksize", AttrType::kInt, true}, {"mode", AttrType::kString, false, "DCR"}};
constexpr OpVersion kVersions[] = {{1, kDataOfAnyType<1>, kOutputOfAnyType<1>, kAttributes1, Infer, Evaluate},
                                   {13, kDataOfAnyType<13>, kOutputOfAnyType<13>, kAttributes1, Infer, Evaluate},
                                   {28, kDataOfAnyType<13>, kOutputOfAnyType<13>, kAttributes28, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSpaceToDepth = {"", "SpaceToDepth", kVersions};

}  // namespace quern
