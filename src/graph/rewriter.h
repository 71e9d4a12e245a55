// Helpers with which passes change a graph without breaking its interface: names of graph outputs never change.
#pragma once

#include "base/status.h"
#include "graph/graph.h"

namespace quern {

// Whether ReplaceValue would do it.
bool CanReplaceValue(const GraphValue* from, const GraphValue* to);
// Makes all uses of `from` uses of `to`. When `from` is a graph output, `to` takes over its name (and `from` gets a
// fresh one); that cannot be where `to` is itself a graph input or output: then nothing changes and false comes back.
// What is known of the type of either becomes known of `to` when a node makes it.
bool ReplaceValue(Graph& graph, GraphValue* from, GraphValue* to);

// Puts a node of one output in the place of `node`, whose output 0 alone may have uses (checked): the new output has
// its name, type and uses. Gives the new node.
Node* ReplaceNode(Graph& graph, Node* node, NodeSpec spec);

// Removes `node` if nothing uses it, then the producers of its inputs for the same reason, and so on; constants too.
// Gives the number of nodes removed.
int RemoveDead(Graph& graph, Node* node);

// Calls rule(graph, node), which gives Result<bool> (changed), for each node in order. A rule may remove the node
// itself and nodes before it, and insert before it. Gives the number of changes.
template <typename Rule>
Result<int> RewriteNodes(Graph& graph, Rule rule) {
  int changes = 0;
  for (Node* n = graph.first_node(); n != nullptr;) {
    Node* next = n->next();
    QUERN_ASSIGN_OR_RETURN(const bool changed, rule(graph, n));
    changes += changed;
    n = next;
  }
  return changes;
}

}  // namespace quern
