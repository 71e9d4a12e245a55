// Trilu: one triangle of matrices.
#include "ops/common/trilu.h"
#include "ops/common/any_types.h"

namespace quern {
namespace {

constexpr AttrSpec kAttributes[] = {{"upper", AttrType::kInt, false, "1"}};
constexpr Param kInputs[] = {{"input", "T", AnyTypes(14)}, {"k", "", kInt64Type, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{14, kInputs, kOutputOfAnyType<14>, kAttributes, InferTrilu, EvaluateTrilu}};

}  // namespace

extern constinit const OpDefinition kOpTrilu = {"", "Trilu", kVersions};

}  // namespace quern
