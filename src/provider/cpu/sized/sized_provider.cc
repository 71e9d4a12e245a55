#include "provider/cpu/sized/sized_provider.h"

#include <unordered_map>
#include <vector>

#include "ops/op.h"
#include "provider/describe_nodes.h"
#include "tensor/memory_budget.h"

namespace quern::cpu {
namespace {

struct SizedExecutable {
  std::shared_ptr<const Graph> graph;
  const ukernel::VectorKernel* row = nullptr;
  std::unique_ptr<NodeTimes> times;  // with a profile
};

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
  ClusterRun(const Node& node, std::span<const Tensor> inputs, const ukernel::VectorKernel* row,
             const quern_run_args& args)
      : SizedRun(node, inputs, row, args.executor->executor, args.executor->cancel),
        args_(args),
        outputs_(static_cast<size_t>(node.num_outputs())) {}

  Result<Tensor> Allocate(int index, DType dtype, const Shape& shape) override {
    const GraphValue* v = node.output(index);
    const std::vector<GraphValue*>& leaving = node.graph()->outputs();
    Tensor& made = outputs_[static_cast<size_t>(index)];
    for (size_t i = 0; v && i < leaving.size(); ++i) {
      if (leaving[i] != v) continue;
      quern_tensor_view view{};
      QUERN_RETURN_IF_ERROR(args_.context->AllocateOutput(static_cast<int>(i), dtype, shape, &view));
      made = TensorOf(view);
      return made;
    }
    QUERN_ASSIGN_OR_RETURN(made, AllocateCharged(args_.context->memory(), dtype, shape));
    return made;
  }
  Result<Tensor> Scratch(DType dtype, int64_t count) override {
    return AllocateCharged(args_.context->memory(), dtype, Shape{count});
  }
  const std::vector<Tensor>& outputs() const { return outputs_; }

 private:
  const quern_run_args& args_;
  std::vector<Tensor> outputs_;
};

NodeWork WorkOfRun(const Node& node, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  const auto types = [](const std::vector<Tensor>& tensors) {
    std::vector<OperandType> list;
    for (const Tensor& t : tensors) list.push_back(t.defined() ? OperandType{t.dtype(), t.shape()} : OperandType{});
    return list;
  };
  return WorkOf(node, types(inputs), types(outputs));
}

Status RunNodes(const SizedExecutable& exe, const quern_run_args& args) {
  const Graph& graph = *exe.graph;
  std::unordered_map<const GraphValue*, Tensor> values;
  for (size_t i = 0; i < graph.inputs().size(); ++i) values[graph.inputs()[i]] = TensorOf(args.inputs[i]);
  size_t index = 0;
  int64_t begin = exe.times ? NodeTimes::Begin() : 0;
  for (const Node* n = graph.first_node(); n; n = n->next(), ++index) {
    std::vector<Tensor> inputs;
    for (const GraphValue* v : n->inputs()) {
      inputs.push_back(!v ? Tensor() : v->is_constant() ? v->constant()->tensor() : values[v]);
      if (v && v->is_constant()) {
        QUERN_ASSIGN_OR_RETURN(inputs.back(), inputs.back().Contiguous());
      }
    }
    ClusterRun run(*n, inputs, exe.row, args);
    if (Status status = FindSizedOp(n->domain(), n->op_type())->run(run); !status.ok())
      return status.WithContext(n->Describe());
    for (int i = 0; i < n->num_outputs(); ++i) {
      if (n->output(i)) values[n->output(i)] = run.outputs()[static_cast<size_t>(i)];
    }
    if (exe.times) begin = exe.times->Add(index, WorkOfRun(*n, inputs, run.outputs()), begin);
    if (args.context->cancelled()) return Cancelled("the run was cancelled");
  }
  return OkStatus();
}

const char* Describe(void*, void* executable, void* plan) {
  const auto& exe = *static_cast<const SizedExecutable*>(executable);
  return DescribeNodes(*exe.graph, nullptr, "its output's size depends on data: allocated by the run", plan != nullptr,
                       exe.times.get());
}

}  // namespace

const SizedOp* FindSizedOp(std::string_view domain, std::string_view op_type) {
  if (!domain.empty()) return nullptr;
  for (const SizedOp* op : {&kSizedCompress, &kSizedNonMaxSuppression, &kSizedNonZero}) {
    if (op_type == op->op_type) return op;
  }
  return nullptr;
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
    const auto nodes = static_cast<size_t>(cluster->owner->num_nodes());
    *executable = new SizedExecutable{cluster->owner, static_cast<const ukernel::VectorKernel*>(self),
                                      AsksForProfile(options_json) ? std::make_unique<NodeTimes>(nodes) : nullptr};
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
