// And: both hold, elementwise.
#include <functional>

#include "ops/common/compare.h"

namespace quern {

extern constinit const OpDefinition kOpAnd = {"", "And", kLogicVersions<std::logical_and<>>};

}  // namespace quern
