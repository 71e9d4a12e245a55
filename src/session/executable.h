// Executable: a graph partitioned and compiled; makes plans for shapes and runs them. Sessions own one, and one per
// subgraph of an If or Loop.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/spare.h"
#include "graph/graph.h"
#include "graph/pass.h"
#include "ops/infer.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "partition/partition.h"
#include "provider/host.h"
#include "provider/node_times.h"
#include "session/arena_pool.h"
#include "session/eviction.h"
#include "session/loose_extents.h"
#include "session/pack_cache.h"
#include "session/variants.h"

namespace quern {

struct CompileEnv {
  std::vector<std::shared_ptr<Provider>> providers;  // in order of preference
  std::set<std::string> skip_passes;
  Limits limits;
  int concurrency = 1;
  int plan_cache_size = 16;
  bool profile = false;
  std::shared_ptr<const PackCache> pack_cache;  // that the providers use; may be null
  // Of what runs allocate.
  std::shared_ptr<MemoryPool> memory_pool = std::make_shared<MemoryPool>();
  bool is_subgraph = false;  // of a graph that is being compiled, or the same graph for certain shapes
  bool in_variant = false;   // of a graph compiled for certain shapes: it has no variants of its own
};

struct RunEnv {
  Executor* executor = nullptr;
  const CancelToken* cancel = nullptr;
  std::span<const uint8_t> want;         // empty: all
  int depth = 0;                         // of subgraph calls
  std::shared_ptr<MemoryBudget> memory;  // of the run that a subgraph's belongs to; null: a budget of its own
  std::span<Value> given_away;           // the inputs, when the run may take them for its own; else empty
};

// One cluster, compiled.
struct CompiledStep {
  Cluster cluster;
  std::shared_ptr<Provider> provider;
  void* executable = nullptr;
  std::vector<int> inputs, outputs;                    // slots
  std::vector<uint8_t> device_inputs, device_outputs;  // 1: in the provider's own memory kind
};

// A value that crosses clusters or the graph's border.
struct Slot {
  const GraphValue* value = nullptr;
  int input_index = -1;   // of the graph
  int output_index = -1;  // first graph output that is this value
  int producer = -1;      // step
  int last_reader = -1;   // step; number of steps for graph outputs
  // Last step during which its memory must stay: the last reader, or the number of steps where a run that completes
  // later may still use it and nobody waits for that.
  int last_use = -1;
  // Whose host-accessible memory it lies in, made there or wanted there; null: the session's.
  const Provider* home = nullptr;
};

class SessionPlan;
class ExecutionContext;

class Executable {
 public:
  static Result<std::unique_ptr<Executable>> Compile(std::unique_ptr<Graph> graph, const CompileEnv& env);
  ~Executable();

  // As Session::Run. With `planned_dims` (one shape per input) the plan is made for those, larger, shapes.
  Status Run(std::span<const Value> inputs, std::span<Value> outputs, const RunEnv& env,
             std::span<const Shape> planned_dims = {});
  // Concrete shapes of the outputs for given input shapes; nothing where only a run can tell.
  Result<std::vector<std::optional<Shape>>> OutputShapes(std::span<const Value> inputs) const;

  const Graph& graph() const { return *graph_; }
  const Partition& partition() const { return partition_; }
  const std::vector<CompiledStep>& steps() const { return steps_; }
  const std::vector<Slot>& slots() const { return slots_; }
  const std::vector<int>& output_slots() const { return output_slots_; }
  const std::vector<PassReport>& passes() const { return passes_; }
  const CompileEnv& env() const { return env_; }
  const std::map<const Graph*, std::unique_ptr<Executable>>& subgraphs() const { return subgraphs_; }
  // What served the last run: the variant for its shapes, that without names which its inputs contradict, or this.
  const Executable& serving() const {
    if (const Executable* loose = loose_.last()) return loose->serving();
    const Executable* variant = variants_.last();
    return variant ? *variant : *this;
  }
  ArenaPool& arenas() const { return arenas_; }
  // What was inferred for inputs before.
  const Spare<ShapeTable>& inferred() const { return inferred_; }
  // Of the steps; null without a profile.
  NodeTimes* times() const { return times_.get(); }
  // The plan of the last run, or null.
  std::shared_ptr<SessionPlan> LastPlan() const;
  // Plans that were made since the beginning, of whole graphs and of steps for which these have none; subgraphs' too.
  int64_t plans_built() const;
  void CountPlan() { plans_built_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend class ExecutionContext;
  Executable() = default;
  Status CompileSteps();
  void FindLifetimes();
  Status CheckFiles() const;
  // The kept plan for these shapes, or null; `hash`: of its key.
  std::shared_ptr<SessionPlan> KeptPlan(uint64_t hash, std::span<const Value> inputs, std::span<const Value> outputs,
                                        std::span<const Shape> planned_dims);
  // Makes it when there is none, in the place of others where `most` are kept.
  Result<std::shared_ptr<SessionPlan>> FindPlan(std::span<const Value> inputs, std::span<const Value> outputs,
                                                std::span<const Shape> planned_dims, size_t most);
  // `planned`: a plan was made for inputs of these types and shapes, so that only contents are to be looked at.
  Status CheckInputs(std::span<const Value> inputs, bool planned) const;

  CompileEnv env_;
  std::unique_ptr<Graph> graph_;
  Partition partition_;
  std::vector<CompiledStep> steps_;
  std::vector<Slot> slots_;
  std::vector<int> output_slots_;  // per graph output
  std::map<const Graph*, std::unique_ptr<Executable>> subgraphs_;
  std::vector<PassReport> passes_;
  ShapeVariants variants_;
  mutable LooseExtents loose_;
  std::unique_ptr<NodeTimes> times_;
  std::mutex building_;  // held while a plan is made, so that threads with the same new shapes make one
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<SessionPlan>> plans_;  // most recently used first
  Eviction eviction_;                              // of them
  std::atomic<int64_t> plans_built_{0};
  mutable ArenaPool arenas_;
  Spare<ShapeTable> inferred_;
};

}  // namespace quern
