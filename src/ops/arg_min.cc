// ArgMin: the index of the least element along one axis.
#include "ops/common/arg_extreme.h"

namespace quern {

extern constinit const OpDefinition kOpArgMin = {"", "ArgMin", kArgExtremeVersions<false>};

}  // namespace quern
