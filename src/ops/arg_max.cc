// ArgMax: the index of the greatest element along one axis.
#include "ops/common/arg_extreme.h"

namespace quern {

extern constinit const OpDefinition kOpArgMax = {"", "ArgMax", kArgExtremeVersions<true>};

}  // namespace quern
