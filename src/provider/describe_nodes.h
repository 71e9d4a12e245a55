// What a provider without plans of its own says of a cluster: one kernel per node, for one reason.
#pragma once

#include "graph/graph.h"

namespace quern {

// The document of quern_provider::describe, to be released with free. `kernel` null: named as the operator; `planned`:
// with the steps of a plan.
const char* DescribeNodes(const Graph& graph, const char* kernel, const char* why, bool planned);

}  // namespace quern
