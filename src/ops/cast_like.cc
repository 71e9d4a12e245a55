// CastLike: elements converted to the type of the second input.
#include "ops/common/cast.h"
#include "ops/common/elements.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferCast(c, c.input_dtype(1)); }
Status Evaluate(EvalContext& c) { return CastToOutput(c, ElementTypeOf(c.input_value(1))); }

template <int kSince>
constexpr Param kInputs[] = {{"input", "T1", CastTypes(kSince)}, {"target_type", "T2", CastTypes(kSince)}};
template <int kSince>
constexpr Param kOutputs[] = {{"output", "T2", CastTypes(kSince)}};
constexpr AttrSpec kAttributes19[] = {{"saturate", AttrType::kInt, false, "1"}};
constexpr AttrSpec kAttributes24[] = {{"round_mode", AttrType::kString, false, "up"},
                                      {"saturate", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{15, kInputs<15>, kOutputs<15>, {}, Infer, Evaluate},
                                   {19, kInputs<19>, kOutputs<19>, kAttributes19, Infer, Evaluate},
                                   {21, kInputs<21>, kOutputs<21>, kAttributes19, Infer, Evaluate},
                                   {23, kInputs<23>, kOutputs<23>, kAttributes19, Infer, Evaluate},
                                   {24, kInputs<24>, kOutputs<24>, kAttributes24, Infer, Evaluate},
                                   {25, kInputs<25>, kOutputs<25>, kAttributes24, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCastLike = {"", "CastLike", kVersions};

}  // namespace quern
