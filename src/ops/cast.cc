// Cast: elements converted to the type that an attribute names.
#include "ops/common/cast.h"

namespace quern {
namespace {

Result<DType> Target(const Node& node) {
  const int64_t to = node.GetInt("to", 0);
  if (!IsOnnxType(to) || !CastTypes(node.opset()).Has(static_cast<DType>(to))) {
    return InvalidArgument(node.Describe() + ": attribute 'to' is " + std::to_string(to) +
                           ", which is no element type that Cast of operator set " + std::to_string(node.opset()) +
                           " converts to");
  }
  return static_cast<DType>(to);
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType to, Target(c.node()));
  return InferCast(c, to);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType to, Target(c.node()));
  return CastToOutput(c, to);
}

template <int kSince>
constexpr Param kInputs[] = {{"input", "T1", CastTypes(kSince)}};
template <int kSince>
constexpr Param kOutputs[] = {{"output", "T2", CastTypes(kSince)}};
constexpr AttrSpec kAttributes6[] = {{"to", AttrType::kInt, true}};
constexpr AttrSpec kAttributes19[] = {{"saturate", AttrType::kInt, false, "1"}, {"to", AttrType::kInt, true}};
constexpr AttrSpec kAttributes24[] = {{"round_mode", AttrType::kString, false, "up"},
                                      {"saturate", AttrType::kInt, false, "1"},
                                      {"to", AttrType::kInt, true}};
constexpr OpVersion kVersions[] = {{6, kInputs<6>, kOutputs<6>, kAttributes6, Infer, Evaluate},
                                   {9, kInputs<9>, kOutputs<9>, kAttributes6, Infer, Evaluate},
                                   {13, kInputs<13>, kOutputs<13>, kAttributes6, Infer, Evaluate},
                                   {19, kInputs<19>, kOutputs<19>, kAttributes19, Infer, Evaluate},
                                   {21, kInputs<21>, kOutputs<21>, kAttributes19, Infer, Evaluate},
                                   {23, kInputs<23>, kOutputs<23>, kAttributes19, Infer, Evaluate},
                                   {24, kInputs<24>, kOutputs<24>, kAttributes24, Infer, Evaluate},
                                   {25, kInputs<25>, kOutputs<25>, kAttributes24, Infer, Evaluate},
                                   {28, kInputs<28>, kOutputs<28>, kAttributes24, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCast = {"", "Cast", kVersions};

}  // namespace quern
