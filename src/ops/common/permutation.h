// The order of dimensions that a Transpose node asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace quern {

// Output dimension i is input dimension [i], counted from the front; reversed without `perm`. An error when `perm` is
// not a permutation of `rank` dimensions.
Result<std::vector<int64_t>> ReadPermutation(const Node& transpose, int rank);

}  // namespace quern
