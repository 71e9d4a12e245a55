// LooseExtents: an executable's graph compiled again for inputs whose extents differ though they share a name.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "tensor/value.h"

namespace quern {

class Executable;
struct CompileEnv;

// Models name the extents of their inputs, and what passes conclude from names that are the same is what makes many
// fusions. But the names are hints: decoders that were merged for their first and later steps give the past of the
// first step as an empty tensor of the later ones' extent, and many an exporter names unrelated extents alike. So the
// graph is kept as it was read, and the first run that contradicts a name has it compiled without that name.
class LooseExtents {
 public:
  LooseExtents();
  ~LooseExtents();

  // Before the neutral stage: keeps the graph where its inputs share a name.
  void Examine(const Graph& graph);
  // Whether extents that share a name differ in these inputs, as many as the graph's. Allocates nothing.
  bool Differ(std::span<const Value> inputs) const;
  // The executable without the names by which these inputs differ, made when it is first asked for.
  Result<Executable*> Find(const CompileEnv& env, std::span<const Value> inputs);

  // What served the last run, or null; a run that does not need it says so.
  const Executable* last() const { return serves_.load(std::memory_order_acquire) ? executable_.get() : nullptr; }
  void NoneServes() { serves_.store(false, std::memory_order_release); }
  int64_t plans_built() const;

 private:
  // A dimension that goes by a name which an earlier one, the name's first, has.
  struct SharedExtent {
    size_t input, first_input;
    int dim, first_dim;
    std::string name;
  };
  static bool Differs(const SharedExtent& extent, std::span<const Value> inputs);

  std::unique_ptr<Graph> original_;  // null where no name is shared, or once it was compiled
  std::vector<SharedExtent> shared_;
  mutable std::mutex mutex_;
  std::unique_ptr<Executable> executable_;  // set once
  std::atomic<bool> serves_{false};
};

}  // namespace quern
