// Xor: exactly one holds, elementwise.
#include <functional>

#include "ops/common/compare.h"

namespace quern {

extern constinit const OpDefinition kOpXor = {"", "Xor", kLogicVersions<std::not_equal_to<>>};

}  // namespace quern
