#include "provider/reference/reference_provider.h"

#include <unordered_map>

#include "ops/evaluate.h"
#include "ops/op.h"
#include "provider/describe_nodes.h"
#include "tensor/copy_value.h"

namespace quern {
namespace {

// A cluster, interpreted. Its graph is the partition's own: subgraphs are found by their address there.
struct ReferenceExecutable {
  std::shared_ptr<const Graph> graph;
  std::unique_ptr<NodeTimes> times;  // with a profile
};

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
  const auto nodes = static_cast<size_t>(cluster->owner->num_nodes());
  *executable = new ReferenceExecutable{cluster->owner,
                                        AsksForProfile(options_json) ? std::make_unique<NodeTimes>(nodes) : nullptr};
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
  const Graph& graph = *exe.graph;
  SessionSubgraphs runner(*args.context);
  std::unordered_map<const GraphValue*, Value> values;
  for (size_t i = 0; i < graph.inputs().size(); ++i) values[graph.inputs()[i]] = args.input_values[i]->value;
  auto read = [&](const GraphValue* v) -> Value {
    if (!v) return {};
    if (v->is_constant()) return *v->constant();
    return values[v];
  };
  std::unordered_map<const GraphValue*, int> reads_left;
  for (const Node* n = graph.first_node(); n; n = n->next()) {
    for (const GraphValue* v : n->inputs()) ++reads_left[v];
    for (const GraphValue* v : n->captures()) ++reads_left[v];
  }
  size_t index = 0;
  int64_t begin = exe.times ? NodeTimes::Begin() : 0;
  for (const Node* n = graph.first_node(); n; n = n->next(), ++index) {
    if (args.context->cancelled()) return Cancelled("the run was cancelled");
    std::vector<Value> inputs;
    for (const GraphValue* v : n->inputs()) inputs.push_back(read(v));
    for (const GraphValue* v : n->captures()) inputs.push_back(read(v));
    RunEvaluation evaluation(*n, inputs, *args.context, runner);
    QUERN_RETURN_IF_ERROR(evaluation.Evaluate());
    std::vector<Value> outputs = evaluation.TakeOutputs();
    if (exe.times) begin = exe.times->Add(index, WorkOfRun(*n, inputs, outputs), begin);
    for (int i = 0; i < n->num_outputs(); ++i) {
      if (n->output(i)) values[n->output(i)] = std::move(outputs[i]);
    }
    auto done = [&](const GraphValue* v) {
      if (v && --reads_left[v] == 0 && !v->is_graph_output()) values.erase(v);
    };
    for (const GraphValue* v : n->inputs()) done(v);
    for (const GraphValue* v : n->captures()) done(v);
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    // An evaluation may pass an input on; memory of the session's arena or the caller must not be passed on with it.
    QUERN_ASSIGN_OR_RETURN(args.output_values[i]->value, CopyValue(read(graph.outputs()[i]), CopyOf::kBorrowedTensors));
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
