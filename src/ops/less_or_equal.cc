// LessOrEqual: a <= b, elementwise.
#include <functional>

#include "ops/common/compare.h"

namespace quern {

extern constinit const OpDefinition kOpLessOrEqual = {"", "LessOrEqual", kCompareOrEqualVersions<std::less_equal<>>};

}  // namespace quern
