#include "provider/cpu/sized/sized_provider.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/op.h"
#include "provider/describe_nodes.h"
#include "tensor/memory_budget.h"

namespace quern::cpu {
namespace {

// A node whose values are numbered; -1 for those that it omits.
struct SizedNode {
  const Node* node = nullptr;
  const SizedOp* op = nullptr;
  std::vector<int> inputs, outputs;
  std::vector<int> leaving;  // of each output: which of the cluster's it is, or -1
};

struct SizedExecutable {
  std::shared_ptr<const Graph> graph;
  const ukernel::VectorKernel* row = nullptr;
  std::unique_ptr<NodeTimes> times;  // with a profile
  std::vector<SizedNode> nodes;
  std::vector<std::pair<int, Tensor>> constants;  // by value
  size_t num_values = 0;                          // the cluster's inputs come first
};

Result<std::unique_ptr<SizedExecutable>> Compile(std::shared_ptr<const Graph> graph, const ukernel::VectorKernel* row,
                                                 bool profile) {
  auto exe = std::make_unique<SizedExecutable>();
  exe->row = row;
  if (profile) exe->times = std::make_unique<NodeTimes>(static_cast<size_t>(graph->num_nodes()));
  std::unordered_map<const GraphValue*, int> numbers;
  const auto number = [&](const GraphValue* v) {
    const auto [at, fresh] = numbers.emplace(v, static_cast<int>(numbers.size()));
    if (fresh && v->is_constant()) exe->constants.emplace_back(at->second, v->constant()->tensor());
    return at->second;
  };
  for (const GraphValue* v : graph->inputs()) number(v);
  const std::vector<GraphValue*>& leaving = graph->outputs();
  for (const Node* n = graph->first_node(); n; n = n->next()) {
    SizedNode node{n, FindSizedOp(n->domain(), n->op_type()), {}, {}, {}};
    for (const GraphValue* v : n->inputs()) node.inputs.push_back(v ? number(v) : -1);
    for (const GraphValue* v : n->outputs()) {
      const auto at = v ? std::ranges::find(leaving, v) : leaving.end();
      node.outputs.push_back(v ? number(v) : -1);
      node.leaving.push_back(at == leaving.end() ? -1 : static_cast<int>(at - leaving.begin()));
    }
    exe->nodes.push_back(std::move(node));
  }
  for (auto& [value, constant] : exe->constants) {
    QUERN_ASSIGN_OR_RETURN(constant, constant.Contiguous());
  }
  exe->num_values = numbers.size();
  exe->graph = std::move(graph);
  return exe;
}

std::string WhyNot(const Node& node, const SizedOp& op) {
  if (const auto version = FindOpVersion(node); !version.ok()) return version.status().message();
  for (const GraphValue* v : node.inputs()) {
    if (v && (v->type().kind != ValueKind::kTensor || v->type().dtype == DType::kUndefined)) {
      return "input '" + v->name() + "' is a " + TypeToString(v->type()) + ", its type must be known";
    }
  }
  return op.reject(node);
}

int32_t ClaimNodes(void*, const quern_graph_view* view, quern_claim_sink* sink) {
  for (int32_t i = 0; i < static_cast<int32_t>(view->nodes.size()); ++i) {
    const Node& node = *view->nodes[i].node;
    const SizedOp* op = FindSizedOp(node.domain(), node.op_type());
    if (!op) continue;  // the other part of the provider says why not
    const std::string why = WhyNot(node, *op);
    if (why.empty()) {
      HostApi()->claim(sink, &i, 1, 0);
    } else {
      HostApi()->reject(sink, i, why.c_str());
    }
  }
  return 0;
}

// A node of a cluster. What leaves the cluster lies where the host wants it.
class ClusterRun final : public SizedRun {
 public:
  ClusterRun(const SizedNode& node, std::span<const Tensor* const> inputs, const ukernel::VectorKernel* row,
             const quern_run_args& args)
      : SizedRun(*node.node, inputs, row, args.executor->executor, args.executor->cancel),
        leaving_(node.leaving),
        args_(args),
        outputs_(node.outputs.size()) {}

  Result<Tensor> Allocate(int index, DType dtype, const Shape& shape) override {
    const auto i = static_cast<size_t>(index);
    if (leaving_[i] >= 0) {
      quern_tensor_view view{};
      QUERN_RETURN_IF_ERROR(args_.context->AllocateOutput(leaving_[i], dtype, shape, &view));
      outputs_[i] = TensorOf(view);
      return outputs_[i];
    }
    Result<Tensor> made = AllocateCharged(args_.context->memory(), dtype, shape);
    if (!made.ok()) return made.status().WithContext(node.Describe());
    outputs_[i] = std::move(made).value();
    return outputs_[i];
  }
  void Give(int index, Tensor tensor) override {
    const auto i = static_cast<size_t>(index);
    if (leaving_[i] >= 0) args_.output_values[leaving_[i]]->value = tensor;
    outputs_[i] = std::move(tensor);
  }
  Result<Tensor> Scratch(DType dtype, int64_t count) override {
    Result<Tensor> made = AllocateCharged(args_.context->memory(), dtype, Shape{count});
    return made.ok() ? std::move(made) : made.status().WithContext(node.Describe());
  }
  std::vector<Tensor>& outputs() { return outputs_; }

 private:
  const std::vector<int>& leaving_;
  const quern_run_args& args_;
  std::vector<Tensor> outputs_;
};

NodeWork WorkOfRun(const Node& node, const std::vector<const Tensor*>& inputs, const std::vector<Tensor>& outputs) {
  const auto type = [](const Tensor& t) { return t.defined() ? OperandType{t.dtype(), t.shape()} : OperandType{}; };
  std::vector<OperandType> in, out;
  for (const Tensor* t : inputs) in.push_back(type(*t));
  for (const Tensor& t : outputs) out.push_back(type(t));
  return WorkOf(node, in, out);
}

Status RunNodes(const SizedExecutable& exe, const quern_run_args& args) {
  static const Tensor kOmitted;
  std::vector<const Tensor*> values(exe.num_values, &kOmitted), inputs;
  std::vector<std::vector<Tensor>> made(exe.nodes.size());
  for (int32_t i = 0; i < args.num_inputs; ++i) {
    values[static_cast<size_t>(i)] = &args.input_values[i]->value.tensor();
  }
  for (const auto& [value, constant] : exe.constants) values[static_cast<size_t>(value)] = &constant;
  int64_t begin = exe.times ? NodeTimes::Begin() : 0;
  for (size_t index = 0; index < exe.nodes.size(); ++index) {
    const SizedNode& n = exe.nodes[index];
    inputs.clear();
    for (int v : n.inputs) inputs.push_back(v < 0 ? &kOmitted : values[static_cast<size_t>(v)]);
    ClusterRun run(n, inputs, exe.row, args);
    QUERN_RETURN_IF_ERROR(n.op->run(run));
    made[index] = std::move(run.outputs());
    if (exe.times) begin = exe.times->Add(index, WorkOfRun(*n.node, inputs, made[index]), begin);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (n.outputs[i] >= 0) values[static_cast<size_t>(n.outputs[i])] = &made[index][i];
    }
    if (args.context->cancelled()) return Cancelled("the run was cancelled");
  }
  return OkStatus();
}

const char* Describe(void*, void* executable, void* plan) {
  const auto& exe = *static_cast<const SizedExecutable*>(executable);
  return DescribeNodes(*exe.graph, nullptr, "only a run tells its output's size: allocated by it", plan != nullptr,
                       exe.times.get());
}

}  // namespace

std::span<const SizedOp* const> AllSizedOps() {
  static constexpr const SizedOp* kAll[] = {&kSizedCompress, &kSizedExpand,  &kSizedNonMaxSuppression,
                                            &kSizedNonZero,  &kSizedReshape, &kSizedSlice,
                                            &kSizedTile};
  return kAll;
}

const SizedOp* FindSizedOp(std::string_view domain, std::string_view op_type) {
  if (!domain.empty()) return nullptr;
  for (const SizedOp* op : AllSizedOps()) {
    if (op_type == op->op_type) return op;
  }
  return nullptr;
}

Result<std::span<const int64_t>> ReadList(const SizedRun& run, size_t input, std::vector<int64_t>& own) {
  if (input >= run.inputs.size() || !run.inputs[input].defined()) return std::span<const int64_t>();
  const Tensor& t = run.inputs[input];
  if (t.rank() > 1) {
    return run.Error("input '" + run.node.input(static_cast<int>(input))->name() + "' has shape " +
                     t.shape().ToString() + "; at most one dimension is needed");
  }
  if (t.dtype() == DType::kI64) return std::span<const int64_t>(t.values<int64_t>());
  Result<std::vector<int64_t>> values = ToInt64s(t);
  if (!values.ok()) return values.status().WithContext(run.node.Describe());
  own = std::move(values).value();
  return std::span<const int64_t>(own);
}

std::string RejectUnsizedElements(const Node& node) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}

std::shared_ptr<Provider> MakeSizedProvider(const CpuInfo& cpu) {
  quern_provider p{};
  p.self = const_cast<ukernel::VectorKernel*>(ukernel::SelectVectorRow(cpu.facts()));  // a constant of the program
  p.struct_size = sizeof p;
  p.abi_version = QUERN_PROVIDER_ABI_VERSION;
  p.name = "cpu";
  p.version = "1";
  p.claim = ClaimNodes;
  p.compile = [](void* self, const quern_graph_view* cluster, const char* options_json, void** executable) {
    Result<std::unique_ptr<SizedExecutable>> exe =
        Compile(cluster->owner, static_cast<const ukernel::VectorKernel*>(self), AsksForProfile(options_json));
    if (!exe.ok()) return ReportStatus(exe.status());
    *executable = std::move(exe).value().release();
    return int32_t{0};
  };
  p.destroy_executable = [](void*, void* e) { delete static_cast<SizedExecutable*>(e); };
  p.plan = [](void*, void* executable, const quern_plan_args*, quern_plan_sink*, void** plan) {
    *plan = executable;  // nothing is known before the run
    return int32_t{0};
  };
  p.destroy_plan = [](void*, void*) {};
  p.run = [](void*, void* plan, const quern_run_args* args, void**) {
    return ReportStatus(RunNodes(*static_cast<const SizedExecutable*>(plan), *args));
  };
  p.describe = Describe;
  p.release_text = [](void*, const char* text) { free(const_cast<char*>(text)); };
  return Provider::Create(p).value();
}

}  // namespace quern::cpu
