// Whether the cosines and sines of a rotary embedding hold each number twice, as far as the graph shows it.
#pragma once

#include "graph/graph.h"

namespace quern {

// Which elements of a row make a pair: i and i + half, or 2i and 2i + 1.
enum class Pairing { kHalves, kNeighbours };

// True when both elements of each pair in each row (the last dimension, of a known even extent) are known to be the
// same number, because the rows come from Concat(f, f) or the like, or are constants that say so.
bool IsAlikeInPairs(const GraphValue* v, Pairing pairing);

}  // namespace quern
