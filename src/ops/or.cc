// Or: one holds, elementwise.
#include <functional>

#include "ops/common/compare.h"

namespace quern {

extern constinit const OpDefinition kOpOr = {"", "Or", kLogicVersions<std::logical_or<>>};

}  // namespace quern
