// Binds the nodes of a plan to their shapes: the steps, the copies between them, and where their operands lie.
#include <algorithm>

#include "provider/cpu/cpu_executable.h"
#include "provider/cpu/plan_specs.h"

namespace quern::cpu {
namespace {

// Copies a value between places of different strides.
class CopyStep final : public CpuStep {
 public:
  CopyStep(const TensorSpec& from, const TensorSpec& to) : from_(from), to_(to) {}
  Status Run(const StepContext& context) const override {
    auto wrap = [](const TensorSpec& s, void* data) {
      return DTypeBytes(s.dtype) == 0 ? Tensor::Wrap(s.dtype, s.shape, data)
                                      : Tensor::WrapStrided(s.dtype, s.shape, s.strides, data);
    };
    CopyTensor(wrap(from_, context.inputs[0]), wrap(to_, context.outputs[0]));
    return OkStatus();
  }
  KernelDescription Describe() const override {
    return {.kernel = "copy", .why = "to memory of other strides", .rejected = {}, .layout = {}, .packed_bytes = 0};
  }

 private:
  TensorSpec from_, to_;
};

}  // namespace

class CpuPlan::Binder {
 public:
  Binder(const CpuPlan& plan, const std::vector<Location>& locations, PlanSeed& seed, BoundSteps& bound)
      : plan_(plan),
        values_(plan.executable_.values()),
        profiled_(plan.executable_.times() != nullptr),
        locations_(locations),
        seed_(seed),
        bound_(bound),
        copied_(values_.size(), 0) {
    bound_.contents.resize(values_.size());
    bound_.steps.reserve(plan.executable_.nodes().size());
  }

  Status Run() {
    const auto& nodes = plan_.executable_.nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!nodes[n].kernel || OnlyViews(nodes[n])) continue;
      QUERN_RETURN_IF_ERROR(BindNode(static_cast<int>(n), nodes[n]));
      for (const int v : nodes[n].outputs) {
        if (v >= 0 && values_[v].output >= 0 && locations_[v].base != Location::Base::kOutput) {
          CopyOut(v, values_[v].output);
        }
      }
    }
    for (size_t v = 0; v < values_.size(); ++v) {
      const Location::Base base = locations_[v].base;
      if (values_[v].output < 0 ||
          (base != Location::Base::kContent && base != Location::Base::kInput && base != Location::Base::kConstant)) {
        continue;
      }
      if (base == Location::Base::kContent) QUERN_RETURN_IF_ERROR(MakeContent(static_cast<int>(v)));
      CopyOut(static_cast<int>(v), values_[v].output);
    }
    for (const auto& [v, output] : plan_.executable_.repeated_outputs()) CopyOut(v, output);
    return OkStatus();
  }

 private:
  bool OnlyViews(const CompiledNode& node) const {
    return !node.outputs.empty() && std::ranges::all_of(node.outputs, [&](int v) {
      return v >= 0 && plan_.decisions_[v].kind == Decision::Kind::kView;
    });
  }

  void Add(BoundSteps::Step step, std::span<const Location> inputs, std::span<const Location> outputs) {
    step.operands = bound_.operands.size();
    step.num_inputs = inputs.size();
    step.num_outputs = outputs.size();
    bound_.operands.insert(bound_.operands.end(), inputs.begin(), inputs.end());
    bound_.operands.insert(bound_.operands.end(), outputs.begin(), outputs.end());
    bound_.steps.push_back(std::move(step));
  }

  void AddCopy(int v, const Location& from, const TensorSpec& to, const Location& at) {
    BoundSteps::Step s;
    s.step = std::make_shared<CopyStep>(bound_.facts[v].spec, to);
    if (profiled_) s.work.bytes = 2 * static_cast<double>(BytesOf(bound_.facts[v].spec));
    Add(std::move(s), {&from, 1}, {&at, 1});
  }

  void CopyOut(int v, int output) {
    const quern_tensor_view& wanted = plan_.planned_outputs_[output];
    TensorSpec to = Dense(bound_.facts[v].spec);
    if (wanted.rank >= 0) to.strides = StridesOf(wanted);
    AddCopy(v, locations_[v], to, {Location::Base::kOutput, output, -1, 0});
  }

  // Memory that holds what is known of the value.
  Status MakeContent(int v) {
    const PlanFacts& facts = bound_.facts[v];
    if (bound_.contents[v].defined()) return OkStatus();
    QUERN_ASSIGN_OR_RETURN(bound_.contents[v], FromInt64s(facts.spec.dtype, facts.spec.shape, *facts.content));
    return OkStatus();
  }

  // What Bind is to see of the node's input k where it is not what the facts say.
  TensorSpec& OwnInput(const CompiledNode& node, size_t k) {
    if (as_facts_say_) specs_.Set(node, bound_.facts);
    as_facts_say_ = false;
    return specs_.in[k];
  }

  // Appends to from_ where input k lies.
  Status LocateInput(const CompiledNode& node, size_t k) {
    const auto has = [k](uint64_t bits) { return k < 64 && (bits >> k & 1) != 0; };
    const int v = node.inputs[k];
    Location at = v < 0 ? Location{} : locations_[v];
    if (v >= 0 && has(node.kernel->plan_time_inputs()) && !bound_.facts[v].spec.constant && bound_.facts[v].content) {
      QUERN_RETURN_IF_ERROR(MakeContent(v));
      OwnInput(node, k).constant = &bound_.contents[v];
    }
    if (at.base == Location::Base::kContent) QUERN_RETURN_IF_ERROR(MakeContent(v));
    if (has(node.kernel->packed_inputs())) at = {};
    if (at.base == Location::Base::kConstant && has(node.kernel->unaligned_inputs())) {
      at.base = Location::Base::kUnalignedConstant;
    }
    if (v >= 0 && plan_.decisions_[v].dense_buffer >= 0) {
      const TensorSpec& spec = bound_.facts[v].spec;
      if (!node.kernel->TakesInputStrides(k, spec.shape, spec.strides)) {
        const Location dense{Location::Base::kWorkspace, 0, plan_.decisions_[v].dense_buffer, 0};
        if (!copied_[v]) AddCopy(v, at, Dense(spec), dense);
        copied_[v] = 1;
        at = dense;
        TensorSpec& own = OwnInput(node, k);
        own = Dense(own);
      }
    }
    from_.push_back(at);
    return OkStatus();
  }

  Status BindNode(int n, const CompiledNode& node) {
    from_.clear();
    to_.clear();
    as_facts_say_ = true;
    for (size_t k = 0; k < node.inputs.size(); ++k) QUERN_RETURN_IF_ERROR(LocateInput(node, k));
    for (const int v : node.outputs) to_.push_back(v < 0 ? Location{} : locations_[v]);
    from_.resize(std::max(from_.size(), node.most_inputs));
    to_.resize(std::max(to_.size(), node.most_outputs));
    BoundSteps::Step s;
    s.node = n;
    QUERN_ASSIGN_OR_RETURN(s.step, StepOf(n, node));
    if (profiled_) {
      if (as_facts_say_) specs_.Set(node, bound_.facts);
      s.work = WorkOfStep(node, specs_.in, specs_.out);
    }
    Add(std::move(s), from_, to_);
    return OkStatus();
  }

  // Bound anew, or as it was for the plan before.
  Result<std::shared_ptr<const CpuStep>> StepOf(int n, const CompiledNode& node) {
    const int concurrency = plan_.lane_[n] < 0 ? plan_.concurrency_ : 1;
    PlanSeed::Bound& last = seed_.nodes[n];
    if (as_facts_say_) {
      if (last.step && last.concurrency == concurrency && last.specs.AreOf(node, bound_.facts)) return last.step;
      last.specs.Set(node, bound_.facts);
      specs_ = last.specs;
    }
    for (size_t k = 0; k < std::min<size_t>(specs_.in.size(), 64); ++k) {
      if ((node.kernel->packed_inputs() >> k & 1) != 0) specs_.in[k].constant = nullptr;
    }
    Result<std::unique_ptr<CpuStep>> bound = node.kernel->Bind({specs_.in, specs_.out, concurrency});
    if (!bound.ok()) return bound.status().WithContext(node.node->Describe());
    const std::shared_ptr<const CpuStep> step = std::move(bound).value();
    last.step = as_facts_say_ ? step : nullptr;
    last.concurrency = concurrency;
    return step;
  }

  const CpuPlan& plan_;
  const std::vector<ValueEntry>& values_;
  const bool profiled_;
  const std::vector<Location>& locations_;
  PlanSeed& seed_;
  BoundSteps& bound_;
  std::vector<uint8_t> copied_;  // by value id: to its dense buffer
  // Of the node at hand.
  std::vector<Location> from_, to_;
  bool as_facts_say_ = true;  // else specs_ tells more of some input
  NodeSpecs specs_;
};

Status CpuPlan::BindSteps(const std::vector<Location>& locations, PlanSeed& seed, BoundSteps& bound) const {
  return Binder(*this, locations, seed, bound).Run();
}

}  // namespace quern::cpu
