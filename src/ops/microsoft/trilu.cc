// com.microsoft.Trilu: the standard's, for models of operator sets before 14.
#include "ops/common/trilu.h"
#include "ops/common/any_types.h"

namespace quern {
namespace {

constexpr AttrSpec kAttributes[] = {{"upper", AttrType::kInt, false, "1"}};
constexpr Param kInputs[] = {{"X", "T", AnyTypes(14)}, {"k", "", kInt64Type, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputOfAnyType<14>, kAttributes, InferTrilu, EvaluateTrilu}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftTrilu = {"com.microsoft", "Trilu", kVersions};

}  // namespace quern
