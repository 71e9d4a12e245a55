// Cast: elements converted to the type that an attribute names.
#include "ops/common/cast.h"
#include "ops/common/any_types.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

DType Target(const Node& node) { return static_cast<DType>(node.GetInt("to", 0)); }

Status Infer(InferContext& c) {
  const int64_t to = c.node().GetInt("to", 0);
  if (to < 1 || to > 26) return c.Error("attribute 'to' is " + std::to_string(to) + ", which is no element type");
  return InferCast(c, Target(c.node()));
}

Status Evaluate(EvalContext& c) { return CastToOutput(c, Target(c.node())); }

// "All types" without the complex ones.
constexpr TypeSet CastTypes(int since) {
  TypeSet types = kSignedIntTypes | kUnsignedIntTypes | TypeSet{DType::kF32, DType::kF64, DType::kF16, DType::kBool};
  if (since >= 9) types = types | TypeSet{DType::kString};
  if (since >= 13) types = types | TypeSet{DType::kBF16};
  if (since >= 19) types = types | kFloat8Types;
  if (since >= 21) types = types | TypeSet{DType::kI4, DType::kU4};
  if (since >= 23) types = types | TypeSet{DType::kF4E2M1};
  if (since >= 24) types = types | TypeSet{DType::kF8E8M0};
  if (since >= 25) types = types | TypeSet{DType::kI2, DType::kU2};
  return types;
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
                                   {28, kInputs<25>, kOutputs<25>, kAttributes24, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCast = {
    "", "Cast", kVersions, "Conversions from and to 8-bit floats and 4- and 2-bit types are not supported."};

}  // namespace quern
