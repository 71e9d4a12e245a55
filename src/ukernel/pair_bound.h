// How far neighbouring weights add up, which decides whether sums of two products fit into 16 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ukernel/layout.h"

namespace quern::ukernel {

// Groups of 4 k of a unit by the greatest magnitude of the sum of two neighbours of K (2i and 2i + 1 of a segment) in a
// column.
using PairCounts = std::array<size_t, 257>;

// That of all groups, GemmArgs::rhs_pair_bound where no wide groups are listed, of int8 weights that are packed, or
// 4-bit ones that become int8; 0 for layouts whose neighbours do not lie together. Adds int8 groups to `counts`.
uint16_t FindPairBound(const PackLayout& layout, const RhsGeometry& geometry, const void* packed,
                       PairCounts* counts = nullptr);

// The WideGroups with a pair beyond `narrow`, which is the bound then, where they are at most `most`: begin[units + 1],
// at[most]; `first` is added to the places. How many there are.
size_t ListWideGroups(const PackLayout& layout, const RhsGeometry& geometry, const void* packed, unsigned narrow,
                      uint32_t* begin, uint32_t* at, size_t most, size_t first = 0);

}  // namespace quern::ukernel
