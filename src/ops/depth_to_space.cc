// DepthToSpace: moves blocks of channels into the picture.
#include "ops/common/depth_space.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferDepthSpace(c, true); }
Status Evaluate(EvalContext& c) { return EvaluateDepthSpace(c, true, Infer); }

constexpr AttrSpec kAttributes1[] = {{"blocksize", AttrType::kInt, true}};
constexpr AttrSpec kAttributes11[] = {{"blocksize", AttrType::kInt, true}, {"mode", AttrType::kString, false, "DCR"}};
constexpr OpVersion kVersions[] = {{1, kDataOfAnyType<1>, kOutputOfAnyType<1>, kAttributes1, Infer, Evaluate},
                                   {11, kDataOfAnyType<11>, kOutputOfAnyType<11>, kAttributes11, Infer, Evaluate},
                                   {13, kDataOfAnyType<13>, kOutputOfAnyType<13>, kAttributes11, Infer, Evaluate},
                                   {28, kDataOfAnyType<13>, kOutputOfAnyType<13>, kAttributes11, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpDepthToSpace = {"", "DepthToSpace", kVersions};

}  // namespace quern
