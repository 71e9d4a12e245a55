// Verify: whether a graph keeps the promises of graph.h. Run after reading and after each pass.
#pragma once

#include "base/limits.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quern {

// Ok when in the graph and in all its subgraphs: every value is defined once and before its uses (so there are no
// cycles), names and use lists are right, graph outputs exist, and each subgraph ends its inputs with one per capture
// of its node, of an agreeing type. Otherwise an error that names the node or value, with the subgraphs that hold it.
Status Verify(const Graph& graph, const Limits& limits = {});

}  // namespace quern
