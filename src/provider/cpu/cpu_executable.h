// CpuExecutable: a cluster after the CPU provider's own passes, each node compiled. CpuPlan: its memory for given
// shapes.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/spare.h"
#include "graph/graph.h"
#include "graph/pass.h"
#include "ops/infer.h"
#include "provider/cpu/branches.h"
#include "provider/cpu/cpu_op.h"
#include "provider/node_times.h"
#include "quern/provider.h"
#include "tensor/arena_plan.h"
#include "tensor/memory_budget.h"
#include "tensor/tensor.h"

namespace quern::cpu {

struct CompiledNode {
  const Node* node = nullptr;
  // Null: a node on small integers whose results follow from shapes; it has no step, plans know its outputs.
  std::unique_ptr<CpuKernel> kernel;
  size_t packed_bytes = 0;           // of the kernel
  bool flushes_denormals = false;    // its runs do
  std::vector<int> inputs, outputs;  // value ids, -1 omitted
  // What the operator may have at most (a variadic list counts as one): where the node's own lists end earlier, steps
  // find null.
  size_t most_inputs = 0, most_outputs = 0;
};

// A graph value of the cluster.
struct ValueEntry {
  const GraphValue* value = nullptr;
  int input = -1;   // of the cluster
  int output = -1;  // of the cluster (the first, when several are this value)
  int producer = -1;
  std::vector<int> readers;  // nodes with a kernel, ascending
};

struct PlanFacts {
  TensorSpec spec;
  std::shared_ptr<const std::vector<int64_t>> content;  // of small integers, where known while planning; else null
};

// Specs of a node's operands, omitted ones empty.
std::vector<TensorSpec> SpecsOf(const std::vector<int>& ids, const std::vector<PlanFacts>& facts);
// The same of all operands of one node after the other, in memory that is used again.
struct NodeSpecs {
  std::vector<TensorSpec> in, out;
  void Set(const CompiledNode& node, const std::vector<PlanFacts>& facts);
  // Whether Set would change nothing.
  bool AreOf(const CompiledNode& node, const std::vector<PlanFacts>& facts) const;
};

// What a plan found for its shapes, from which one for other shapes starts.
struct PlanSeed {
  // A node as it was bound.
  struct Bound {
    std::shared_ptr<const CpuStep> step;  // null: none, or one of operands that are not as the plan's facts say
    NodeSpecs specs;
    int concurrency = 1;
  };
  ShapeTable shapes;
  std::vector<PlanFacts> facts;  // by value id, all dense
  std::vector<Bound> nodes;
};

class CpuExecutable {
 public:
  ~CpuExecutable() {
    if (weights_) weights_->Release(charged_bytes_);
  }
  // Clones the cluster, runs the CPU passes, compiles every node. Errors name the node. Packed weights and the
  // constants that passes make count against `weights`, when given, which lives longer. `profile`: runs add to times().
  static Result<std::unique_ptr<CpuExecutable>> Compile(const Graph& cluster, const CpuConfig& config,
                                                        Executor& executor, MemoryBudget* weights = nullptr,
                                                        bool profile = false);

  const Graph& graph() const { return *graph_; }
  const std::vector<CompiledNode>& nodes() const { return nodes_; }
  const std::vector<ValueEntry>& values() const { return values_; }
  int input_value(int i) const { return input_values_[i]; }
  int output_value(int i) const { return output_values_[i]; }
  // Outputs that are a value which is another output already: (value id, output).
  const std::vector<std::pair<int, int>>& repeated_outputs() const { return repeated_outputs_; }
  int num_inputs() const { return static_cast<int>(input_values_.size()); }
  int num_outputs() const { return static_cast<int>(output_values_.size()); }
  const std::vector<PassReport>& passes() const { return passes_; }
  // Of the nodes, and behind them of all copies that plans add; null without a profile.
  NodeTimes* times() const { return times_.get(); }
  // The id of a value of the graph that is an input, a tensor constant or a node's output.
  int id(const GraphValue* value) const { return ids_.at(value); }
  // What a plan before found, for the one who plans next; made anew where there is none or others have them. Given back
  // once the plan stands.
  std::unique_ptr<PlanSeed> TakeSeed() const;
  void GiveBack(std::unique_ptr<PlanSeed> seed) const;
  // For the choice of branches that run side by side; null where they run one after another.
  const NominalRates* branch_rates() const { return branch_rates_ ? &*branch_rates_ : nullptr; }

 private:
  CpuExecutable() = default;
  Status ChargeBytes(size_t bytes);
  Status ChargeConstants(const std::unordered_set<const void*>& known);

  MemoryBudget* weights_ = nullptr;
  size_t charged_bytes_ = 0;
  std::unique_ptr<Graph> graph_;
  std::vector<CompiledNode> nodes_;
  std::vector<ValueEntry> values_;
  std::vector<int> input_values_, output_values_;
  std::vector<std::pair<int, int>> repeated_outputs_;
  std::vector<PassReport> passes_;
  std::unique_ptr<NodeTimes> times_;
  std::optional<NominalRates> branch_rates_;
  std::unordered_map<const GraphValue*, int> ids_;
  bool plans_again_ = false;  // some extent of an input is a name
  Spare<PlanSeed> seed_;
};

// Where a value's first element lies.
struct Location {
  enum class Base : uint8_t { kNone, kWorkspace, kInput, kOutput, kConstant, kUnalignedConstant, kContent };
  Base base = Base::kNone;
  int index = 0;       // input, output or value id
  int buffer = -1;     // kWorkspace: planned buffer
  int64_t offset = 0;  // bytes from the base, views included
};

// What the node does on operands of these specs.
NodeWork WorkOfStep(const CompiledNode& node, const std::vector<TensorSpec>& in, const std::vector<TensorSpec>& out);

// Steps bound to one set of shapes, over the memory that a CpuPlan laid out.
struct BoundSteps {
  struct Step {
    int node = -1;  // -1: a copy that the plan added
    std::shared_ptr<const CpuStep> step;
    size_t operands = 0;  // index of its first input in `operands` and in the run's pointer table; outputs follow
    size_t num_inputs = 0, num_outputs = 0;
    int scratch_buffer = -1;
    AlignedBuffer own_scratch;  // instead of the planned buffer, when that is too small
    NodeWork work;              // with a profile
  };
  std::vector<PlanFacts> facts;
  std::vector<Tensor> contents;  // by value id: memory of content that a step reads
  std::vector<Step> steps;
  std::vector<Location> operands;  // of all steps, one after another

  std::span<const Location> inputs(const Step& s) const {
    return std::span(operands).subspan(s.operands, s.num_inputs);
  }
  std::span<const Location> outputs(const Step& s) const {
    return std::span(operands).subspan(s.operands + s.num_inputs, s.num_outputs);
  }
};

struct StepRange {
  size_t first = 0, end = 0;
};

// The steps [first, end) of a plan, as what each of some workers runs at the same time.
struct SideBySide {
  size_t first = std::numeric_limits<size_t>::max(), end = 0;
  std::vector<std::vector<StepRange>> workers;
};

// What was decided for a value when the plan was built; holds for all smaller shapes too.
struct Decision {
  enum class Kind : uint8_t { kNone, kInput, kConstant, kContent, kView, kBuffer, kOutput, kPart };
  Kind kind = Kind::kNone;
  int buffer = -1;        // kBuffer
  int dense_buffer = -1;  // of a contiguous copy, for readers that need one
  // kPart: the node that puts the value beside others, which of its inputs it is, and of how many wholes, one in
  // another, it is a part.
  int whole_node = -1, whole_input = -1;
  int depth = 0;
};

class CpuPlan {
 public:
  static Result<std::unique_ptr<CpuPlan>> Build(const CpuExecutable& executable, const quern_plan_args& args);

  size_t workspace_bytes() const { return workspace_bytes_; }
  const BoundSteps& steps() const { return bound_; }
  std::span<const SideBySide> side_by_side() const { return side_by_side_; }  // ascending
  const PlanFacts& output(int i) const { return bound_.facts[executable_.output_value(i)]; }

  // Runs; inputs may be smaller than planned. Allocates nothing when the shapes are the planned ones.
  Status Run(const quern_run_args& args) const;

 private:
  class Binder;
  explicit CpuPlan(const CpuExecutable& executable) : executable_(executable) {}
  Status InferFacts(std::span<const quern_tensor_view> inputs, bool contents, PlanSeed& seed, BoundSteps& bound) const;
  Status Layout(BoundSteps& bound, std::vector<Location>& locations, bool decide);
  Status LayoutNode(int n, BoundSteps& bound, std::vector<Location>& locations, bool decide);
  Status BindSteps(const std::vector<Location>& locations, PlanSeed& seed, BoundSteps& bound) const;
  // Whether all readers of a value of this shape may find it in memory of these strides; `depth`: of nodes that show it
  // to others.
  bool ReadersTakeStrides(int value, const Shape& shape, const Shape& strides, const BoundSteps& bound,
                          int depth = 0) const;
  bool ShowsStrides(const CompiledNode& node, const Shape& shape, const Shape& strides, const BoundSteps& bound,
                    int depth) const;
  static const Placement::Part* PartOf(const Placement& place, int input);
  Location LocatePart(int v, BoundSteps& bound) const;
  bool MayBePart(int v, const CompiledNode& joining, const Shape& strides, const BoundSteps& bound) const;
  void DecideBranches(const BoundSteps& bound);
  void DecideParts(BoundSteps& bound);
  int NewBuffer(size_t bytes, int first, int last);
  void PlaceScratch();
  void LayoutBranches();
  // `failed`: the step whose error is returned.
  Status RunRange(StepRange range, const BoundSteps& bound, const quern_run_args& args, Executor& executor,
                  size_t& failed) const;
  Status RunSideBySide(const SideBySide& group, const BoundSteps& bound, const quern_run_args& args) const;
  Status RunSteps(const BoundSteps& bound, const quern_run_args& args) const;

  const CpuExecutable& executable_;
  NodeSpecs specs_;  // of the node that is being laid out
  int concurrency_ = 1;
  std::vector<quern_tensor_view> planned_inputs_, planned_outputs_;
  std::vector<Decision> decisions_;  // by value id
  std::vector<ArenaBuffer> buffers_;
  std::vector<BranchGroup> groups_;
  std::vector<int> lane_;  // by node: one number for each worker of each group, -1 outside of groups
  std::vector<SideBySide> side_by_side_;
  BoundSteps bound_;
  size_t workspace_bytes_ = 0;
  size_t pointer_table_offset_ = 0;  // of void*[number of operands] in the workspace
};

}  // namespace quern::cpu
