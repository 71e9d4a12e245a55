#include "ukernel/pair_bound.h"

#include "ukernel/convert.h"
#include "ukernel/format.h"
#include "ukernel/gemm.h"

namespace quern::ukernel {
namespace {

// The greatest magnitude of the sum of each of `pairs` neighbours.
int GreatestSum(const char* p, size_t pairs) {
  int16_t least = 0, most = 0;
  for (size_t i = 0; i < pairs; ++i) {
    const auto both = LoadAs<uint16_t>(p + 2 * i);
    const auto low = static_cast<int16_t>(static_cast<int16_t>(both << 8) >> 8);
    const auto sum = static_cast<int16_t>(low + (static_cast<int16_t>(both) >> 8));
    least = sum < least ? sum : least;
    most = sum > most ? sum : most;
  }
  return -least > most ? -least : most;
}

}  // namespace

PairSums FindPairSums(const PackLayout& layout, const RhsGeometry& geometry, const void* packed, uint32_t* begin,
                      uint32_t* at, size_t most, size_t first) {
  PairSums sums;
  if (layout.element == Format::kU4 && layout.scale == Format::kNone) return {.bound = 16};  // of -8 to 7
  if (layout.element != Format::kI8 || layout.k_interleave % 2 != 0) return sums;
  const size_t bytes = RhsElementBytes(layout, geometry.n_unit, geometry.padded_k);
  const size_t group = RhsElementBytes(layout, geometry.n_unit, 4);
  int bound = 0;
  for (size_t u = 0; u < geometry.units; ++u) {
    if (begin) begin[u] = static_cast<uint32_t>(first + sums.wide);
    const char* unit = static_cast<const char*>(packed) + geometry.UnitOffset(u);
    for (size_t i = 0; i < bytes; i += group) {
      const int sum = GreatestSum(unit + i, group / 2);
      bound = sum > bound ? sum : bound;
      if (sum <= kMostOfNarrowPair) continue;
      if (sums.wide < most) at[sums.wide] = static_cast<uint32_t>(i);
      ++sums.wide;
    }
  }
  if (begin) begin[geometry.units] = static_cast<uint32_t>(first + sums.wide);
  sums.bound = static_cast<uint16_t>(bound);
  return sums;
}

}  // namespace quern::ukernel
