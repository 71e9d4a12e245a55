// Branches that run at the same time, each on one thread: which steps of a plan, and on which workers, decided by
// estimated cost.
#pragma once

#include <span>
#include <vector>

#include "base/cpu_features.h"
#include "provider/node_work.h"

namespace quern::cpu {

// What one thread of a CPU does at a nominal clock, from its vector units: good for choosing between orders, no more.
class NominalRates {
 public:
  explicit NominalRates(const CpuFacts& cpu);
  double Micros(const NodeWork& work) const;  // estimated time on one thread

 private:
  double operations_per_micro_;
};

// A node in the order in which nodes run one after another.
struct BranchNode {
  double micros = 0;       // on one thread; 0: nothing is run for it
  bool alone = false;      // may not run beside others
  std::vector<int> reads;  // earlier nodes of whose results it reads, or which it writes beside its own
};

// Nodes that follow each other in the order, [first, last], and fall into branches without dependencies between them.
struct BranchGroup {
  int first = 0, last = 0;
  std::vector<std::vector<int>> workers;  // nodes of each, in the order in which it runs them
};

// The groups to run side by side, ascending and disjoint: those by which a run is expected to gain most over the same
// nodes one after another, each split over `concurrency` threads. None without a clear gain.
std::vector<BranchGroup> FindBranches(std::span<const BranchNode> nodes, int concurrency);

}  // namespace quern::cpu
