// LooseExtents: what the names of a graph's extents say, and the graph compiled again for inputs that contradict it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "tensor/value.h"

namespace quern {

class Executable;
struct CompileEnv;

// Models name the extents of their inputs: the same name, or a formula of others ("past + length"), for what is to be
// equal. What passes conclude from that is what makes many fusions. But names are hints: decoders that were merged for
// their first and later steps give the past of the first step as an empty tensor of the later ones' extent, and many an
// exporter names unrelated extents alike. So the graph is kept as it was read, and the first run that contradicts a
// name has it compiled without that name.
class LooseExtents {
 public:
  LooseExtents();
  ~LooseExtents();

  // Before the neutral stage: keeps the graph where names tie extents of its inputs to each other, then replaces names
  // that are formulas by these.
  void Examine(Graph& graph);
  // Whether extents of these inputs, as many as the graph's, are not what their names say. Allocates nothing.
  bool Differ(std::span<const Value> inputs) const;
  // The executable without the names by which these inputs differ, made when it is first asked for.
  Result<Executable*> Find(const CompileEnv& env, std::span<const Value> inputs);

  // What served the last run, or null; a run that does not need it says so.
  const Executable* last() const { return serves_.load(std::memory_order_acquire) ? executable_.get() : nullptr; }
  void NoneServes() { serves_.store(false, std::memory_order_release); }
  int64_t plans_built() const;

 private:
  struct Place {
    size_t input = 0;
    int dim = 0;
  };
  // A dimension whose extent is that of others, where its name has come first, or of a formula of them.
  struct TiedExtent {
    Place at;
    std::string name;
    Dim formula;
    std::vector<std::pair<std::string, Place>> of;  // the formula's symbols
  };
  static bool Differs(const TiedExtent& extent, std::span<const Value> inputs);

  std::unique_ptr<Graph> original_;  // null where nothing is tied, or once it was compiled
  std::vector<TiedExtent> tied_;
  mutable std::mutex mutex_;
  std::unique_ptr<Executable> executable_;  // set once
  std::atomic<bool> serves_{false};
};

}  // namespace quern
