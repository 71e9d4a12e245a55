// Less: a < b, elementwise.
#include <functional>

#include "ops/common/compare.h"

namespace quern {

extern constinit const OpDefinition kOpLess = {"", "Less", kCompareVersions<std::less<>>};

}  // namespace quern
