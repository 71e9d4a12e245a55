// Pass: one transformation of a Graph; PassRunner runs a list of them, named, timed, skippable, verified after each.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quern {

// One file per pass defines one of these; its header comment shows before -> after.
struct Pass {
  const char* name;         // "fold_constants"
  const char* description;  // one line for --help and reports
  // Returns the number of changes it made, or an error that names the node.
  Result<int> (*run)(Graph& graph, const void* context);
  bool on_subgraphs = true;  // run on each subgraph too (false: the pass enters subgraphs itself, or must not)
  bool required = false;     // what follows needs what it makes: it cannot be left out
};

struct PassReport {
  std::string name;
  int changes = 0;     // of all rounds and subgraphs
  double seconds = 0;  // verification included
  bool skipped = false;
  bool required = false;  // as Pass says
};

struct PassOptions {
  std::set<std::string> skip;  // names of passes to leave out; a required one among them is an error
  // The list is repeated until nothing changes, at most so often: what one round learns of shapes opens some layers of
  // a model to the next, twelve in three.
  int max_rounds = 8;
  const Logger* log = nullptr;    // is warned when something still changed in the last round; may be null
  const void* context = nullptr;  // handed to every pass
  Limits limits;                  // what verification holds the graph to
  // Called after each pass that changed something, with the changes and seconds of that run; may be null.
  void (*after)(const Graph& graph, const PassReport& report, void* user) = nullptr;
  void* after_user = nullptr;
};

// Runs the passes in order over `graph` and its subgraphs, verifying after each pass that changed something. One report
// per pass comes back, in the order of `passes`. Errors name the pass.
Result<std::vector<PassReport>> RunPasses(Graph& graph, std::span<const Pass* const> passes,
                                          const PassOptions& options);

}  // namespace quern
