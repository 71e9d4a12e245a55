// Scatter: the name that ScatterElements had in operator sets 9 and 10 (deprecated from 11).
#include "ops/common/scatter.h"

namespace quern {
namespace {

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "0"}};
constexpr Param kInputs[] = {
    {"data", "T", AnyTypes(9)}, {"indices", "Tind", kIndexTypes}, {"updates", "T", AnyTypes(9)}};
constexpr OpVersion kVersions[] = {
    {9, kInputs, kOutputOfAnyType<9>, kAttributes, InferScatter, EvaluateScatterElements},
    {11, kInputs, kOutputOfAnyType<9>, kAttributes, InferScatter, EvaluateScatterElements}};

}  // namespace

extern constinit const OpDefinition kOpScatter = {"", "Scatter", kVersions};

}  // namespace quern
