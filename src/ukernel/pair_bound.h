// How far neighbouring weights add up, which decides whether sums of two products fit into 16 bits.
#pragma once

#include <cstdint>

#include "ukernel/layout.h"

namespace quern::ukernel {

// The greatest magnitude of the sum of two neighbours of K (2i and 2i + 1 of a segment) in a column of int8 weights
// that are packed, at most 256: GemmArgs::rhs_pair_bound. 0 for layouts whose neighbours do not lie together.
uint16_t PairBound(const PackLayout& layout, const RhsGeometry& geometry, const void* packed);

}  // namespace quern::ukernel
