// The neutral stage: what compilation does to a graph before providers see it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"
#include "graph/pass.h"

namespace quern {

// Verifies the graph, infers types and shapes, runs the neutral passes but those of `skip`, and infers again. The
// reports of the passes come back. `warn`: log what inference finds odd about the model. `one_opset`: new nodes follow
// the operator set of ai.onnx that the graph imports, as a file needs.
Result<std::vector<PassReport>> RunNeutralStage(Graph& graph, const std::set<std::string>& skip, const Limits& limits,
                                                bool warn, bool one_opset = false);

}  // namespace quern
