#include "provider/reference/reference_provider.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/evaluate.h"
#include "ops/op.h"
#include "provider/describe_nodes.h"
#include "tensor/copy_value.h"

namespace quern {
namespace {

// A node whose values are numbered; -1 for those that it omits.
struct NumberedNode {
  const Node* node = nullptr;
  std::vector<int> reads;  // inputs, then captures
  std::vector<int> outputs;
  std::vector<int> last_reads;  // of the cluster's values that do not leave it
};

// A cluster, interpreted. Its graph is the partition's own: subgraphs are found by their address there.
struct ReferenceExecutable {
  std::shared_ptr<const Graph> graph;
  std::unique_ptr<NodeTimes> times;  // with a profile
  std::vector<NumberedNode> nodes;
  std::vector<std::pair<int, const Value*>> constants;  // by value
  std::vector<int> outputs;                             // of the cluster
  size_t num_values = 0;                                // the cluster's inputs come first
};

std::unique_ptr<ReferenceExecutable> Number(std::shared_ptr<const Graph> graph) {
  auto exe = std::make_unique<ReferenceExecutable>();
  std::unordered_map<const GraphValue*, int> numbers;
  const auto number = [&](const GraphValue* v) {
    const auto [at, fresh] = numbers.emplace(v, static_cast<int>(numbers.size()));
    if (fresh && v->is_constant()) exe->constants.emplace_back(at->second, v->constant());
    return at->second;
  };
  for (const GraphValue* v : graph->inputs()) number(v);
  for (const Node* n = graph->first_node(); n; n = n->next()) {
    NumberedNode node;
    node.node = n;
    for (const GraphValue* v : n->inputs()) node.reads.push_back(v ? number(v) : -1);
    for (const GraphValue* v : n->captures()) node.reads.push_back(number(v));
    for (const GraphValue* v : n->outputs()) node.outputs.push_back(v ? number(v) : -1);
    exe->nodes.push_back(std::move(node));
  }
  for (const GraphValue* v : graph->outputs()) exe->outputs.push_back(number(v));
  exe->num_values = numbers.size();
  std::vector<bool> needed(exe->num_values, false);  // behind the node at hand
  for (int v : exe->outputs) needed[static_cast<size_t>(v)] = true;
  for (auto node = exe->nodes.rbegin(); node != exe->nodes.rend(); ++node) {
    for (int v : node->reads) {
      if (v < 0 || needed[static_cast<size_t>(v)]) continue;
      needed[static_cast<size_t>(v)] = true;
      node->last_reads.push_back(v);
    }
  }
  exe->graph = std::move(graph);
  return exe;
}

int32_t ClaimNodes(void*, const quern_graph_view* view, quern_claim_sink* sink) {
  for (int32_t i = 0; i < static_cast<int32_t>(view->nodes.size()); ++i) {
    const Result<const OpVersion*> version = FindOpVersion(*view->nodes[i].node);
    if (version.ok()) {
      HostApi()->claim(sink, &i, 1, 0);
    } else {
      std::string why = version.status().message();
      const std::string prefix = view->nodes[i].node->Describe() + ": ";  // the reader of a reason knows the node
      if (why.starts_with(prefix)) why.erase(0, prefix.size());
      HostApi()->reject(sink, i, why.c_str());
    }
  }
  return 0;
}

int32_t Compile(void*, const quern_graph_view* cluster, const char* options_json, void** executable) {
  std::unique_ptr<ReferenceExecutable> exe = Number(cluster->owner);
  if (AsksForProfile(options_json)) exe->times = std::make_unique<NodeTimes>(exe->nodes.size());
  *executable = exe.release();
  return 0;
}

class SessionSubgraphs final : public SubgraphRunner {
 public:
  explicit SessionSubgraphs(quern_run_context& context) : context_(context) {}
  Result<std::vector<Value>> RunSubgraph(const Graph& subgraph, std::vector<Value> inputs) override {
    return context_.RunSubgraph(subgraph, std::move(inputs));
  }

 private:
  quern_run_context& context_;
};

// An evaluation whose outputs count against the run's memory.
class RunEvaluation final : public NodeEvalContext {
 public:
  RunEvaluation(const Node& node, std::span<const Value> inputs, quern_run_context& run, SubgraphRunner& runner)
      : NodeEvalContext(node, inputs, run.limits(), &runner), memory_(run.memory()) {}

 protected:
  Result<Tensor> NewTensor(DType dtype, const Shape& shape) override { return AllocateCharged(memory_, dtype, shape); }

 private:
  const std::shared_ptr<MemoryBudget>& memory_;
};

NodeWork WorkOfRun(const Node& node, const std::vector<Value>& inputs, const std::vector<Value>& outputs) {
  const auto types = [](const std::vector<Value>& values) {
    std::vector<OperandType> list;
    for (const Value& v : values) {
      list.push_back(v.is_tensor() ? OperandType{v.tensor().dtype(), v.tensor().shape()} : OperandType{});
    }
    return list;
  };
  return WorkOf(node, types(inputs), types(outputs));
}

Status RunNodes(const ReferenceExecutable& exe, const quern_run_args& args) {
  SessionSubgraphs runner(*args.context);
  std::vector<Value> values(exe.num_values), inputs;
  for (size_t i = 0; i < exe.graph->inputs().size(); ++i) values[i] = args.input_values[i]->value;
  for (const auto& [value, constant] : exe.constants) values[static_cast<size_t>(value)] = *constant;
  int64_t begin = exe.times ? NodeTimes::Begin() : 0;
  for (size_t index = 0; index < exe.nodes.size(); ++index) {
    if (args.context->cancelled()) return Cancelled("the run was cancelled");
    const NumberedNode& n = exe.nodes[index];
    inputs.clear();
    for (int v : n.reads) inputs.push_back(v < 0 ? Value() : values[static_cast<size_t>(v)]);
    RunEvaluation evaluation(*n.node, inputs, *args.context, runner);
    QUERN_RETURN_IF_ERROR(evaluation.Evaluate());
    std::vector<Value> outputs = evaluation.TakeOutputs();
    if (exe.times) begin = exe.times->Add(index, WorkOfRun(*n.node, inputs, outputs), begin);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] >= 0) values[static_cast<size_t>(n.outputs[i])] = std::move(outputs[i]);
    }
    for (int v : n.last_reads) values[static_cast<size_t>(v)] = Value();
  }
  for (size_t i = 0; i < exe.outputs.size(); ++i) {
    // An evaluation may pass an input on; memory of the session's arena or the caller must not be passed on with it.
    QUERN_ASSIGN_OR_RETURN(args.output_values[i]->value,
                           CopyValue(values[static_cast<size_t>(exe.outputs[i])], CopyOf::kBorrowedTensors));
  }
  return OkStatus();
}

int32_t Plan(void*, void* executable, const quern_plan_args*, quern_plan_sink*, void** plan) {
  *plan = executable;  // nothing depends on shapes; outputs are placed when they are made
  return 0;
}

int32_t Run(void*, void* plan, const quern_run_args* args, void**) {
  return ReportStatus(RunNodes(*static_cast<const ReferenceExecutable*>(plan), *args));
}

const char* Describe(void*, void* executable, void* plan) {
  const auto& exe = *static_cast<const ReferenceExecutable*>(executable);
  return DescribeNodes(*exe.graph, "reference", "plain evaluation of the operator's definition", plan != nullptr,
                       exe.times.get());
}

}  // namespace

std::shared_ptr<Provider> MakeReferenceProvider() {
  quern_provider p{};
  p.struct_size = sizeof p;
  p.abi_version = QUERN_PROVIDER_ABI_VERSION;
  p.name = "reference";
  p.version = "1";
  p.flags = QUERN_PROVIDER_STRIDED;
  p.claim = ClaimNodes;
  p.compile = Compile;
  p.destroy_executable = [](void*, void* e) { delete static_cast<ReferenceExecutable*>(e); };
  p.plan = Plan;
  p.destroy_plan = [](void*, void*) {};
  p.run = Run;
  p.describe = Describe;
  p.release_text = [](void*, const char* text) { free(const_cast<char*>(text)); };
  return Provider::Create(p).value();
}

}  // namespace quern
