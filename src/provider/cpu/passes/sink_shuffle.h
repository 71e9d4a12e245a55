// Groups of channels that are shuffled, with the channels last:
//   Reshape(Transpose(Reshape(Transpose(x, last to first), [n, g, c, ...]), [0, 2, 1, ...]), [n, g * c, ...])
//     ->  Transpose(Reshape(Transpose(Reshape(x, [n, ..., g, c]), [0, ..., 3, 2]), [n, ..., g * c]), last to first)
// so that one transpose of small blocks is left of three of the whole. A part of cpu_sink_transposes.
#pragma once

#include "graph/graph.h"

namespace quern::cpu {

// `node` is the last Reshape. False, and nothing changed, when it ends no such shuffle.
bool SinkShuffle(Graph& graph, Node* node);

}  // namespace quern::cpu
