// Greater: a > b, elementwise.
#include <functional>

#include "ops/common/compare.h"

namespace quern {

extern constinit const OpDefinition kOpGreater = {"", "Greater", kCompareVersions<std::greater<>>};

}  // namespace quern
