// A transpose whose dimensions a Reshape merges or splits, moved behind it:
//   Reshape(Transpose(x, [0, 3, 1, 2]), [n, c, h * w])     ->  Transpose(Reshape(x, [n, h * w, c]), [0, 2, 1])
//   Reshape(Transpose(x, [0, 3, 1, 2]), [n, g, c, h, w])   ->  Transpose(Reshape(x, [n, h, w, g, c]), [0, 3, 4, 1, 2])
// where another Transpose follows, at once or behind concatenations and the like, which the moved one may cancel: as
// in the heads of detectors, which lay the pixels of several images behind each other. A part of cpu_sink_transposes.
#pragma once

#include "graph/graph.h"

namespace quern::cpu {

// `node` is the Reshape. False, and nothing changed, when it is none behind a Transpose, when it mixes dimensions that
// the Transpose has put together, or when something else than Transposes follows.
bool SinkReshape(Graph& graph, Node* node);

}  // namespace quern::cpu
