// How far neighbouring weights add up, which decides whether sums of two products fit into 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/layout.h"

namespace quern::ukernel {

struct PairSums {
  // The greatest magnitude of the sum of two neighbours of K (2i and 2i + 1 of a segment) in a column, at most 256:
  // GemmArgs::rhs_pair_bound. 0 for layouts whose neighbours do not lie together.
  uint16_t bound = 0;
  size_t wide = 0;  // groups of 4 k that have a wider pair than kMostOfNarrowPair
};

// Of int8 weights that are packed, or 4-bit ones that become int8. With `begin` also their WideGroups, where these are
// at most `most`: begin[units + 1], at[most]; `first` is added to the places.
PairSums FindPairSums(const PackLayout& layout, const RhsGeometry& geometry, const void* packed,
                      uint32_t* begin = nullptr, uint32_t* at = nullptr, size_t most = 0, size_t first = 0);

}  // namespace quern::ukernel
