// GreaterOrEqual: a >= b, elementwise.
#include <functional>

#include "ops/common/compare.h"

namespace quern {

extern constinit const OpDefinition kOpGreaterOrEqual = {"", "GreaterOrEqual",
                                                         kCompareOrEqualVersions<std::greater_equal<>>};

}  // namespace quern
