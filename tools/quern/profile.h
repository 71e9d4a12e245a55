// The profile of a session as rows: how long each node took, and how close to what the machine can do it came.
#pragma once

#include <string>
#include <vector>

#include "json.h"

namespace quern_tool {

struct NodeRow {
  std::string name, op;  // as NodeName and Operator give them
  std::string inside;    // the If, Loop or Scan whose subgraph it belongs to; that one's time includes it
  std::string provider;
  std::string kernel;
  double runs = 0;  // this and what follows: for one run of the session
  double seconds = 0;
  double share = 0;  // of the time of all nodes
  double operations = 0;
  double bytes = 0;
  double denormal_runs = 0;  // in which the node met denormal numbers
  std::string limit;         // what binds: the name of a measured peak; "" where none applies
  double limit_seconds = 0;  // what the node would take at that peak

  double operations_per_second() const { return seconds > 0 ? operations / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? bytes / seconds : 0; }
  double reached() const { return seconds > 0 ? limit_seconds / seconds : 0; }  // of the limit
};

// Facts "profile" of one session, and how often it ran between them.
struct Profile {
  Json before, after;
  double runs = 0;
};
// What binds nodes: peaks of one core, times the threads that a session has.
struct Machine {
  Json cpu;  // facts with "peaks"
  int threads = 1;
};
// Nodes that ran, in the order of the graph; those of subgraphs behind those of their graph.
std::vector<NodeRow> NodeRows(const Profile& profile, const Machine& machine);

// The JSON of the rows, in their order.
Json JsonOf(const std::vector<NodeRow>& rows);

}  // namespace quern_tool
