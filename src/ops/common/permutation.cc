#include "ops/common/permutation.h"

#include <string>

namespace quern {

Result<std::vector<int64_t>> ReadPermutation(const Node& transpose, int rank) {
  std::vector<int64_t> perm = transpose.GetInts("perm");
  if (!transpose.attributes().contains("perm")) {
    for (int i = rank - 1; i >= 0; --i) perm.push_back(i);
  }
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  bool valid = static_cast<int>(perm.size()) == rank;
  for (int64_t& p : perm) {
    if (p < 0) p += rank;
    valid = valid && p >= 0 && p < rank && !seen[static_cast<size_t>(p)];
    if (valid) seen[static_cast<size_t>(p)] = true;
  }
  if (!valid) {
    return InvalidArgument(transpose.Describe() + ": perm is not a permutation of the " + std::to_string(rank) +
                           " dimensions of the input");
  }
  return perm;
}

}  // namespace quern
