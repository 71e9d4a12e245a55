// ScatterElements: a copy of the data with out[index[i][j]][j] = updates[i][j] for axis 0, and so on.
#include "ops/common/scatter.h"

namespace quern {
namespace {

constexpr AttrSpec kAttributes11[] = {{"axis", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes16[] = {{"axis", AttrType::kInt, false, "0"},
                                      {"reduction", AttrType::kString, false, "none"}};
template <int kSince>
constexpr Param kInputs[] = {
    {"data", "T", AnyTypes(kSince)}, {"indices", "Tind", kIndexTypes}, {"updates", "T", AnyTypes(kSince)}};
constexpr OpVersion kVersions[] = {
    {11, kInputs<11>, kOutputOfAnyType<11>, kAttributes11, InferScatter, EvaluateScatterElements},
    {13, kInputs<13>, kOutputOfAnyType<13>, kAttributes11, InferScatter, EvaluateScatterElements},
    {16, kInputs<16>, kOutputOfAnyType<16>, kAttributes16, InferScatter, EvaluateScatterElements},
    {18, kInputs<18>, kOutputOfAnyType<18>, kAttributes16, InferScatter, EvaluateScatterElements}};

}  // namespace

extern constinit const OpDefinition kOpScatterElements = {"", "ScatterElements", kVersions};

}  // namespace quern
