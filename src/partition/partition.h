// Partition: gives each node of a graph to a provider and gathers neighbours of one provider into clusters.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "provider/host.h"

namespace quern {

// Nodes that one provider compiles and runs as a unit.
struct Cluster {
  int provider = 0;                  // index into the providers given
  std::vector<Node*> nodes;          // of the partitioned graph, in its order
  std::vector<GraphValue*> inputs;   // of the partitioned graph: read here, made elsewhere (constants not counted)
  std::vector<GraphValue*> outputs;  // made here, read elsewhere or graph outputs
  // The nodes as a graph of their own with the same value names; constants and subgraphs are shared.
  std::shared_ptr<const Graph> graph;
};

// Why a node is where it is.
struct Assignment {
  const Node* node = nullptr;
  int provider = 0;
  int cluster = 0;  // the first, where copies are in several
  // Of each provider that was asked before and left the node alone: (index, reason).
  std::vector<std::pair<int, std::string>> rejections;
};

struct Partition {
  std::vector<Cluster> clusters;        // in an order in which they may run
  std::vector<Assignment> assignments;  // in node order
};

// Asks the providers (in order of preference) for claims over `graph`, whose types must be inferred. The cheapest offer
// wins where costs are stated, the earlier provider otherwise. An error names the first node that nobody takes.
//
// A deterministic node on constants alone is copied into each cluster that reads it and whose provider claims it, too.
// Clusters never form a cycle: with level(node) = max over its producers of level + (1 if the provider changes), the
// nodes of one (provider, level) are a cluster, so edges between providers always go up a level.
Result<Partition> PartitionGraph(const Graph& graph, std::span<const std::shared_ptr<Provider>> providers);

}  // namespace quern
