// What providers say of a cluster: the JSON of quern_provider::describe.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graph/graph.h"
#include "provider/node_times.h"

namespace quern {

// Whether the options of quern_provider::compile ask for a profile.
bool AsksForProfile(const char* options_json);

// The text of a document, to be released with free. Names may be any bytes: what is no UTF-8 is replaced.
char* TextOf(const nlohmann::ordered_json& document);

// {"name", "op", "domain", "outputs"}.
nlohmann::ordered_json NodeName(const Node& node);
// "runs", "seconds", "operations", "bytes" and "denormal_runs" of an entry of "profile".
void AddTimes(const NodeTimes::Sum& sum, nlohmann::ordered_json& entry);

// What a provider without plans of its own says: one kernel per node, for one reason. To be released with free.
// `kernel` null: named as the operator; `planned`: with the steps of a plan; `times`: of the nodes in order, null
// without a profile.
const char* DescribeNodes(const Graph& graph, const char* kernel, const char* why, bool planned,
                          const NodeTimes* times);

}  // namespace quern
