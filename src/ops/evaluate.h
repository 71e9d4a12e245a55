// Reference evaluation of nodes and graphs: constant folding, the reference provider, and the oracle of tests.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "graph/graph.h"
#include "ops/op.h"

namespace quern {

// How an evaluation runs the subgraphs of its node.
class SubgraphRunner {
 public:
  virtual ~SubgraphRunner() = default;
  // `inputs`: the formal inputs, then the captures of the node.
  virtual Result<std::vector<Value>> RunSubgraph(const Graph& subgraph, std::vector<Value> inputs) = 0;
};

// An EvalContext over given inputs; outputs are allocated on the heap, unless a subclass has other memory.
class NodeEvalContext : public EvalContext {
 public:
  // `inputs`: one Value per input of the node (kNone for an omitted one), then one per capture. `runner` may be null:
  // subgraphs are then interpreted. All arguments must outlive the context.
  NodeEvalContext(const Node& node, std::span<const Value> inputs, const Limits& limits, SubgraphRunner* runner)
      : node_(node), inputs_(inputs), limits_(limits), runner_(runner), outputs_(node.num_outputs()) {}

  const Node& node() const override { return node_; }
  bool HasInput(int i) const override { return i < num_inputs() && inputs_[i].has_value(); }
  const Value& input_value(int i) const override { return inputs_[i]; }
  Result<Tensor> AllocateOutput(int i, DType dtype, const Shape& shape) override;
  void SetOutput(int i, Value value) override;
  Result<std::vector<Value>> RunSubgraph(std::string_view attribute, std::vector<Value> inputs) override;
  const Limits& limits() const override { return limits_; }

  // Checks the inputs against the schema (kinds, element types), makes strided ones contiguous and calls the operator's
  // evaluation.
  Status Evaluate();
  std::vector<Value> TakeOutputs() { return std::move(outputs_); }

 protected:
  // Memory for outputs and for contiguous copies of strided inputs; contiguous, uninitialised.
  virtual Result<Tensor> NewTensor(DType dtype, const Shape& shape) { return Tensor::Allocate(dtype, shape); }

 private:
  friend class GraphInterpreter;
  const Node& node_;
  std::span<const Value> inputs_;
  std::vector<Value> dense_inputs_;  // what inputs_ shows when some of those given are strided
  const Limits& limits_;
  SubgraphRunner* runner_;
  std::vector<Value> outputs_;
  int depth_ = 0;
};

// Evaluates one node. `inputs` as for NodeEvalContext; one Value per output comes back (kNone for omitted ones).
// Errors name the node.
Result<std::vector<Value>> EvaluateNode(const Node& node, std::span<const Value> inputs, const Limits& limits = {},
                                        SubgraphRunner* runner = nullptr);

// Interprets a graph node by node; one Value per graph input and output.
Result<std::vector<Value>> EvaluateGraph(const Graph& graph, std::span<const Value> inputs, const Limits& limits = {});

}  // namespace quern
