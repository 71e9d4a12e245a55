#include "provider/cpu/cpu_executable.h"

#include "provider/cpu/cpu_infer.h"
#include "provider/cpu/passes/cpu_passes.h"
#include "provider/cpu/plan_time.h"
#include "provider/host.h"

namespace quern::cpu {
namespace {

using Memories = std::unordered_set<const void*>;

Memories MemoriesOfConstants(const Graph& graph) {
  Memories memories;
  for (const GraphValue* v : graph.constants()) {
    if (v->constant()->is_tensor()) memories.insert(v->constant()->tensor().address());
  }
  return memories;
}

}  // namespace

Status CpuExecutable::ChargeBytes(size_t bytes) {
  if (!weights_) return OkStatus();
  QUERN_RETURN_IF_ERROR(weights_->Charge(bytes));
  charged_bytes_ += bytes;
  return OkStatus();
}

// Those that lie in none of the memories.
Status CpuExecutable::ChargeConstants(const Memories& known) {
  for (const GraphValue* v : graph_->constants()) {
    if (!v->constant()->is_tensor() || known.contains(v->constant()->tensor().address())) continue;
    const Status charged = ChargeBytes(v->constant()->tensor().bytes());
    if (!charged.ok()) return charged.WithContext("constant '" + v->name() + "' of the CPU provider");
  }
  return OkStatus();
}

Result<std::unique_ptr<CpuExecutable>> CpuExecutable::Compile(const Graph& cluster, const CpuConfig& config,
                                                              Executor& executor, MemoryBudget* weights, bool profile) {
  std::unique_ptr<CpuExecutable> exe(new CpuExecutable());
  exe->weights_ = weights;
  exe->graph_ = cluster.Clone();
  PassOptions options;
  const CpuPassContext context{config, &executor};
  options.context = &context;
  options.log = &ProcessLogger();
  options.limits = config.limits;
  options.skip = config.skip_passes;
  const Memories known = MemoriesOfConstants(*exe->graph_);
  QUERN_ASSIGN_OR_RETURN(exe->passes_, RunPasses(*exe->graph_, CpuPasses(), options));
  QUERN_ASSIGN_OR_RETURN(const std::vector<PassReport> last, RunPasses(*exe->graph_, CpuLastPasses(), options));
  exe->passes_.insert(exe->passes_.end(), last.begin(), last.end());
  QUERN_RETURN_IF_ERROR(exe->ChargeConstants(known));
  QUERN_RETURN_IF_ERROR(InferClusterTypes(*exe->graph_));

  std::unordered_map<const GraphValue*, int>& ids = exe->ids_;
  auto add = [&](const GraphValue* v) {
    ids.emplace(v, static_cast<int>(exe->values_.size()));
    exe->values_.push_back({v, -1, -1, -1, {}});
  };
  const Graph& graph = *exe->graph_;
  for (const GraphValue* v : graph.inputs()) {
    add(v);
    exe->values_.back().input = static_cast<int>(exe->input_values_.size());
    exe->input_values_.push_back(static_cast<int>(exe->values_.size()) - 1);
    exe->plans_again_ |= !v->type().has_static_shape();
  }
  for (const GraphValue* v : graph.constants()) {
    if (v->constant()->is_tensor()) add(v);
  }
  const CompileContext compile{&config, &executor, exe->graph_.get()};
  // Packed weights stand beside the file's; of these, only so much stays in memory meanwhile. Less than within one
  // source (Packing::kDropBytes), whose pages may be wanted again.
  constexpr size_t kDropBytes = size_t{2} << 20;
  size_t packed_since = 0;
  for (Node* n = graph.first_node(); n; n = n->next()) {
    CompiledNode c;
    c.node = n;
    const int index = static_cast<int>(exe->nodes_.size());
    for (const GraphValue* v : n->inputs()) c.inputs.push_back(v ? ids.at(v) : -1);
    for (const GraphValue* v : n->outputs()) {
      if (v) {
        add(v);
        exe->values_.back().producer = index;
      }
      c.outputs.push_back(v ? ids.at(v) : -1);
    }
    if (const Result<const OpVersion*> version = FindOpVersion(*n); version.ok()) {  // none of the provider's own
      c.most_inputs = (*version)->inputs.size();
      c.most_outputs = (*version)->outputs.size();
    }
    const CpuOp* op = FindCpuOp(n->domain(), n->op_type());
    const bool internal = n->domain() == kCpuDomain;
    if (internal || !IsPlanTimeNode(*n)) {
      if (!op || !op->compile) return Internal(n->Describe() + ": the CPU provider has no kernel for it");
      Result<std::unique_ptr<CpuKernel>> kernel = op->compile(*n, compile);
      if (!kernel.ok()) return kernel.status().WithContext(n->Describe());
      c.kernel = std::move(kernel).value();
      c.packed_bytes = c.kernel->Describe().packed_bytes;
      c.flushes_denormals =
          c.kernel->sums_products() && !config.keep_denormals && n->input(0)->type().dtype != DType::kF64;
      const Status charged = exe->ChargeBytes(c.packed_bytes);
      if (!charged.ok()) return charged.WithContext(n->Describe() + ": packed weights");
      packed_since += c.packed_bytes;
      if (packed_since > kDropBytes) {
        graph.DropFilePages();
        packed_since = 0;
      }
      for (int v : c.inputs) {
        if (v >= 0 && (exe->values_[v].readers.empty() || exe->values_[v].readers.back() != index)) {
          exe->values_[v].readers.push_back(index);
        }
      }
    }
    exe->nodes_.push_back(std::move(c));
  }
  for (const GraphValue* v : graph.outputs()) {
    const int id = ids.at(v);
    const int index = static_cast<int>(exe->output_values_.size());
    if (exe->values_[id].output < 0) {
      exe->values_[id].output = index;
    } else {
      exe->repeated_outputs_.emplace_back(id, index);
    }
    exe->output_values_.push_back(id);
  }
  if (!config.serial_branches) exe->branch_rates_.emplace(config.cpu.facts());
  if (profile) exe->times_ = std::make_unique<NodeTimes>(exe->nodes_.size() + 1);
  return exe;
}

std::unique_ptr<PlanSeed> CpuExecutable::TakeSeed() const {
  std::unique_ptr<PlanSeed> seed = seed_.Take();
  if (seed) return seed;
  seed = std::make_unique<PlanSeed>();
  seed->facts.resize(values_.size());
  seed->nodes.resize(nodes_.size());
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value* c = values_[v].value->constant();
    if (!c) continue;
    TensorSpec& spec = seed->facts[v].spec;
    const Tensor& constant = c->tensor();
    spec = {constant.dtype(), constant.shape(), constant.shape().ContiguousStrides(), true, &constant};
  }
  return seed;
}

void CpuExecutable::GiveBack(std::unique_ptr<PlanSeed> seed) const {
  if (plans_again_) seed_.GiveBack(std::move(seed));
}

}  // namespace quern::cpu
