#include "session/execution.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "tensor/copy_value.h"

namespace quern {
Result<std::unique_ptr<ExecutionContext>> ExecutionContext::Create(const Executable& executable,
                                                                   const SessionPlan& plan) {
  std::unique_ptr<ExecutionContext> c(new ExecutionContext(executable, plan));
  c->slots_.resize(plan.slots().size());
  c->device_.resize(plan.slots().size());
  c->host_valid_.resize(plan.slots().size());
  c->steps_.resize(executable.steps().size());
  for (size_t i = 0; i < c->steps_.size(); ++i) {
    const CompiledStep& step = executable.steps()[i];
    StepState& state = c->steps_[i];
    state.inputs.resize(step.inputs.size());
    state.small_inputs.resize(step.inputs.size());
    state.outputs.resize(step.outputs.size());
    for (int s : step.inputs) state.input_values.push_back(&c->slots_[s]);
    for (int s : step.outputs) state.output_values.push_back(&c->slots_[s]);
  }
  return c;
}

ExecutionContext::~ExecutionContext() {
  for (const std::vector<DeviceCopy>& copies : device_) {
    for (const DeviceCopy& d : copies) d.provider->abi().memory->release(d.provider->abi().self, d.data);
  }
}

const Limits& ExecutionContext::limits() const { return executable_->env().limits; }

Status ExecutionContext::BindSlots(std::span<const Value> inputs, std::span<Value> outputs,
                                   const std::vector<SlotType>* actual) {
  const auto& info = executable_->slots();
  const bool bound = !actual && bound_arena_ && bound_arena_ == arena_.data();
  bound_arena_ = nullptr;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const SlotPlan& p = plan_->slots()[s];
    host_valid_[s] = 0;
    const Shape& shape = actual && (*actual)[s].shape ? *(*actual)[s].shape : p.shape;
    if (info[s].input_index >= 0) {
      const auto i = static_cast<size_t>(info[s].input_index);
      if (env_->given_away.empty()) {
        slots_[s].value = inputs[i];
      } else {
        slots_[s].value = std::move(env_->given_away[i]);
      }
      host_valid_[s] = 1;
    } else if (p.place == SlotPlan::Place::kArena) {
      if (!bound) slots_[s].value = Tensor::Wrap(p.dtype, shape, arena_.data() + p.offset);
    } else if (p.place == SlotPlan::Place::kHome) {
      QUERN_ASSIGN_OR_RETURN(DeviceCopy* const d, ReserveDevice(static_cast<int>(s), *info[s].home, p.bytes));
      d->valid = true;  // once the producer is done, whoever that is
      slots_[s].value = Tensor::Wrap(p.dtype, shape, d->data);
    } else if (p.place == SlotPlan::Place::kOutput) {
      const Value& given = outputs[info[s].output_index];
      if (!given.is_tensor()) continue;  // memory is found when the step runs
      const Tensor& t = given.tensor();
      if (t.dtype() != p.dtype || !(t.shape() == shape)) {
        return InvalidArgument("output '" + info[s].value->name() + "' is a " + DTypeName(p.dtype) + shape.ToString() +
                               ", the tensor given for it is a " + DTypeName(t.dtype()) + t.shape().ToString());
      }
      const bool direct =
          t.is_contiguous() || (info[s].producer >= 0 && executable_->steps()[info[s].producer].provider->strided());
      if (direct) slots_[s].value = given;
    }
  }
  if (!actual) bound_arena_ = arena_.data();
  return OkStatus();
}

Status ExecutionContext::Wait(int step) {
  StepState& state = steps_[step];
  if (!state.ticket) return OkStatus();
  return executable_->steps()[step].provider->Wait(std::exchange(state.ticket, nullptr));
}

ExecutionContext::DeviceCopy* ExecutionContext::FindDevice(int slot, const Provider& provider) {
  for (DeviceCopy& d : device_[slot]) {
    if (d.provider == &provider) return &d;
  }
  return nullptr;
}

Result<ExecutionContext::DeviceCopy*> ExecutionContext::ReserveDevice(int slot, const Provider& provider,
                                                                      size_t bytes) {
  const quern_provider& abi = provider.abi();
  DeviceCopy* d = FindDevice(slot, provider);
  if (d && d->bytes >= bytes) return d;
  void* data = abi.memory->allocate(abi.self, bytes);
  if (!data) {
    return ResourceExhausted(std::string("provider '") + provider.name() + "' has no memory for the " +
                             std::to_string(bytes) + " bytes of " + DescribeSlot(executable_->slots()[slot]));
  }
  if (d) {
    abi.memory->release(abi.self, d->data);
  } else {
    d = &device_[slot].emplace_back();
  }
  *d = {.provider = &provider, .data = data, .bytes = bytes, .valid = false};
  return d;
}

Status ExecutionContext::EnsureHost(int slot) {
  if (host_valid_[slot]) return OkStatus();
  const int producer = executable_->slots()[slot].producer;
  if (producer >= 0) {
    QUERN_RETURN_IF_ERROR(Wait(producer));
    const Provider& provider = *executable_->steps()[producer].provider;
    const DeviceCopy* d = FindDevice(slot, provider);
    if (d && d->valid && slots_[slot].value.tensor().raw_data() != d->data) {
      const Tensor& t = slots_[slot].value.tensor();
      if (t.is_contiguous()) {
        QUERN_RETURN_IF_ERROR(provider.CopyToHost(t.raw_data(), d->data, t.bytes()));
      } else {
        QUERN_ASSIGN_OR_RETURN(const Tensor dense, NewTensor(slot, t.dtype(), t.shape()));
        QUERN_RETURN_IF_ERROR(provider.CopyToHost(dense.raw_data(), d->data, t.bytes()));
        CopyTensor(dense, t);
      }
    }
  }
  host_valid_[slot] = 1;
  return OkStatus();
}

Status ExecutionContext::EnsureDevice(int slot, const Provider& provider) {
  if (const DeviceCopy* d = FindDevice(slot, provider); d && d->valid) {
    const int producer = executable_->slots()[slot].producer;
    return producer >= 0 ? Wait(producer) : OkStatus();
  }
  QUERN_RETURN_IF_ERROR(EnsureHost(slot));
  if (!slots_[slot].value.is_tensor()) return Internal("a value that is not a tensor cannot leave the host");
  QUERN_ASSIGN_OR_RETURN(const Tensor t, slots_[slot].value.tensor().Contiguous());
  QUERN_ASSIGN_OR_RETURN(DeviceCopy* const d, ReserveDevice(slot, provider, t.bytes()));
  QUERN_RETURN_IF_ERROR(provider.CopyFromHost(d->data, t.raw_data(), t.bytes()));
  d->valid = true;
  return OkStatus();
}

Status ExecutionContext::ChargeKept(size_t bytes) {
  QUERN_RETURN_IF_ERROR(budget_->Charge(bytes));
  kept_bytes_ += bytes;
  return OkStatus();
}

Result<Tensor> ExecutionContext::NewTensor(int slot, DType dtype, const Shape& shape) {
  Result<Tensor> t = AllocateCharged(budget_, dtype, shape);
  if (!t.ok()) return t.status().WithContext(DescribeSlot(executable_->slots()[slot]));
  return t;
}

Status ExecutionContext::PlanDynamicStep(int index, void*& plan, void*& workspace) {
  const CompiledStep& step = executable_->steps()[index];
  StepState& state = steps_[index];
  if (!state.dynamic) state.dynamic = std::make_unique<DynamicPlans>();
  for (size_t k = 0; k < state.inputs.size(); ++k) {
    const Value& value = slots_[step.inputs[k]].value;
    state.small_inputs[k] = value.is_tensor() && !step.device_inputs[k] && IsIntegerType(value.tensor().dtype()) &&
                            value.tensor().rank() <= 1 && value.tensor().num_elements() <= 64;
  }
  QUERN_ASSIGN_OR_RETURN(const DynamicPlans::Kept* const kept,
                         state.dynamic->Find(*running_, step, state.inputs, state.small_inputs));
  const size_t bytes = kept->results.workspace_bytes;
  const Status charged = ChargeKept(std::max(bytes, state.dynamic->workspace_bytes()));
  if (!charged.ok()) {
    return charged.WithContext("workspace of the cluster at " + step.cluster.nodes.front()->Describe());
  }
  QUERN_ASSIGN_OR_RETURN(workspace, state.dynamic->Workspace(bytes));
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    const quern_plan_sink::Output& o = kept->results.outputs[k];
    if (!o.known) continue;
    quern_tensor_view view;
    QUERN_RETURN_IF_ERROR(AllocateOutput(static_cast<int>(k), o.dtype, o.shape, &view));
  }
  plan = kept->plan;
  return OkStatus();
}

// Memory for planned outputs that have none yet: graph outputs whose slot the caller left empty.
Status ExecutionContext::PlaceOutputs(int index) {
  const CompiledStep& step = executable_->steps()[index];
  StepState& state = steps_[index];
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    const int s = step.outputs[k];
    const SlotPlan& p = plan_->slots()[s];
    if (p.place == SlotPlan::Place::kOutput && !slots_[s].value.is_tensor()) {
      const Shape& shape = actual_ && (*actual_)[s].shape ? *(*actual_)[s].shape : p.shape;
      QUERN_ASSIGN_OR_RETURN(Tensor t, NewTensor(s, p.dtype, shape));
      slots_[s].value = std::move(t);
    }
    if (slots_[s].value.is_tensor()) {
      const Tensor& t = slots_[s].value.tensor();
      state.outputs[k] = ViewOf(t);
      if (step.device_outputs[k]) {
        QUERN_ASSIGN_OR_RETURN(DeviceCopy* const d, ReserveDevice(s, *step.provider, t.bytes()));
        SetShape(state.outputs[k], t.dtype(), t.shape(), t.shape().ContiguousStrides());
        state.outputs[k].data = d->data;
      }
    } else {
      state.outputs[k] = quern_tensor_view{};
    }
  }
  return OkStatus();
}

Status ExecutionContext::RunStep(int index) {
  const CompiledStep& step = executable_->steps()[index];
  StepState& state = steps_[index];
  current_step_ = index;
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    const int s = step.inputs[k];
    if (step.device_inputs[k]) {
      QUERN_RETURN_IF_ERROR(EnsureDevice(s, *step.provider));
    } else {
      QUERN_RETURN_IF_ERROR(EnsureHost(s));
    }
    if (!slots_[s].value.is_tensor()) {
      state.inputs[k] = quern_tensor_view{};
      continue;
    }
    if (step.device_inputs[k]) {
      const Tensor& t = slots_[s].value.tensor();
      SetShape(state.inputs[k], t.dtype(), t.shape(), t.shape().ContiguousStrides());
      state.inputs[k].data = FindDevice(s, *step.provider)->data;
      continue;
    }
    if (!slots_[s].value.tensor().is_contiguous() && !step.provider->strided()) {
      const Tensor strided = slots_[s].value.tensor();
      QUERN_ASSIGN_OR_RETURN(Tensor dense, NewTensor(s, strided.dtype(), strided.shape()));
      CopyTensor(strided, dense);
      slots_[s].value = std::move(dense);
    }
    const Tensor& t = slots_[s].value.tensor();
    SetShape(state.inputs[k], t.dtype(), t.shape(), t.strides());
    state.inputs[k].data = t.raw_data();
  }
  void* plan = plan_->steps()[index].plan;
  void* workspace = arena_.data() + plan_->steps()[index].workspace_offset;
  if (!plan) {
    QUERN_RETURN_IF_ERROR(PlanDynamicStep(index, plan, workspace));
  }
  QUERN_RETURN_IF_ERROR(PlaceOutputs(index));
  quern_executor executor{nullptr, env_->executor, env_->cancel};
  const quern_run_args args{.struct_size = sizeof(quern_run_args),
                            .num_inputs = static_cast<int32_t>(state.inputs.size()),
                            .inputs = state.inputs.data(),
                            .input_values = state.input_values.data(),
                            .num_outputs = static_cast<int32_t>(state.outputs.size()),
                            .outputs = state.outputs.data(),
                            .output_values = state.output_values.data(),
                            .workspace = workspace,
                            .executor = &executor,
                            .context = this};
  QUERN_RETURN_IF_ERROR(step.provider->Run(plan, args, &state.ticket));
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    const int s = step.outputs[k];
    if (step.device_outputs[k]) {
      if (DeviceCopy* d = FindDevice(s, *step.provider)) d->valid = true;
    } else if (!state.ticket) {
      host_valid_[s] = 1;
    }
  }
  return cancelled() ? Cancelled("the run was cancelled") : OkStatus();
}

Status ExecutionContext::AllocateOutput(int index, DType dtype, const Shape& shape, quern_tensor_view* out) {
  const CompiledStep& step = executable_->steps()[current_step_];
  if (index < 0 || index >= static_cast<int>(step.outputs.size())) return InvalidArgument("no such output");
  const int s = step.outputs[index];
  const Slot& info = executable_->slots()[s];
  Result<size_t> bytes = TensorBytes(dtype, shape);
  if (!bytes.ok()) return bytes.status().WithContext(DescribeSlot(info));
  if (static_cast<int64_t>(*bytes) > limits().tensor_bytes) {
    return ResourceExhausted(DescribeSlot(info) + " of shape " + shape.ToString() +
                             " is larger than the limit for one tensor");
  }
  DeviceCopy* device = nullptr;
  if (step.device_outputs[index]) {
    QUERN_ASSIGN_OR_RETURN(device, ReserveDevice(s, *step.provider, *bytes));
  }
  const int output = info.output_index;
  const bool given = output >= 0 && outputs_[output].is_tensor() && outputs_[output].tensor().dtype() == dtype &&
                     outputs_[output].tensor().shape() == shape && outputs_[output].tensor().is_contiguous();
  if (device && step.provider->memory_is_host_accessible()) {
    slots_[s].value = Tensor::Wrap(dtype, shape, device->data);
  } else if (given) {
    slots_[s].value = outputs_[output];
  } else {
    QUERN_ASSIGN_OR_RETURN(Tensor t, NewTensor(s, dtype, shape));
    slots_[s].value = std::move(t);
  }
  *out = ViewOf(slots_[s].value.tensor());
  if (device) out->data = device->data;
  steps_[current_step_].outputs[index] = *out;
  return OkStatus();
}

Result<std::vector<Value>> ExecutionContext::RunSubgraph(const Graph& subgraph, std::vector<Value> inputs) {
  auto it = running_->subgraphs().find(&subgraph);
  if (it == running_->subgraphs().end()) return Internal("a subgraph that was not compiled");
  std::vector<Value> outputs(subgraph.outputs().size());
  const RunEnv env{.executor = env_->executor,
                   .cancel = env_->cancel,
                   .want = {},
                   .depth = env_->depth + 1,
                   .memory = budget_,
                   .given_away = inputs};
  QUERN_RETURN_IF_ERROR(it->second->Run(inputs, outputs, env));
  return outputs;
}

Status ExecutionContext::TakeOutputs(std::span<Value> outputs) {
  const auto& graph_outputs = executable_->graph().outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!env_->want.empty() && !env_->want[i]) continue;
    const GraphValue* value = graph_outputs[i];
    const Value* source = value->constant();
    int slot = -1;
    if (!source) {
      slot = executable_->output_slots()[i];
      QUERN_RETURN_IF_ERROR(EnsureHost(slot));
      source = &slots_[slot].value;
    }
    if (outputs[i].is_tensor()) {
      if (!source->is_tensor() || source->tensor().dtype() != outputs[i].tensor().dtype() ||
          !(source->tensor().shape() == outputs[i].tensor().shape())) {
        return InvalidArgument("output '" + value->name() + "' is a " + TypeToString(TypeOf(*source)) +
                               ", the tensor given for it is a " + TypeToString(TypeOf(outputs[i])));
      }
      if (source->tensor().raw_data() != outputs[i].tensor().raw_data())
        CopyTensor(source->tensor(), outputs[i].tensor());
      continue;
    }
    // Memory of the caller, of the arena or of a constant must not leave; memory made for this output does, and
    // containers of what nothing else holds.
    const bool made = slot >= 0 && executable_->slots()[slot].input_index < 0 &&
                      executable_->slots()[slot].output_index == static_cast<int>(i);
    if (made && (source->is_tensor() ? source->tensor().owner() != nullptr : OwnsAlone(*source))) {
      const auto& slots = executable_->output_slots();
      const bool again =
          std::find(slots.begin() + static_cast<std::ptrdiff_t>(i) + 1, slots.end(), slot) != slots.end();
      if (again) {
        outputs[i] = *source;
      } else {
        outputs[i] = std::move(slots_[slot].value);
      }
    } else {
      // Containers of a subgraph stay within the run: the outermost graph copies those that leave it.
      const bool stays = env_->depth > 0 && !source->is_tensor();
      QUERN_ASSIGN_OR_RETURN(outputs[i], CopyValue(*source, stays ? CopyOf::kBorrowedTensors : CopyOf::kAllTensors));
    }
  }
  return OkStatus();
}

void ExecutionContext::Reset() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    (void)Wait(static_cast<int>(i));  // after an error: nothing may still use this run's memory
  }
  for (size_t s = 0; s < slots_.size(); ++s) {
    Value& v = slots_[s].value;
    const bool in_arena = plan_->slots()[s].place == SlotPlan::Place::kArena;
    if (!in_arena || !v.is_tensor() || v.tensor().owner() != nullptr) {
      v = Value();
      if (in_arena) bound_arena_ = nullptr;
    }
    for (DeviceCopy& d : device_[s]) d.valid = false;
  }
  executable_->arenas().GiveBack(std::exchange(arena_, {}));
  budget_->Release(std::exchange(kept_bytes_, 0));
  budget_ = nullptr;
  if (own_budget_.use_count() > 1) own_budget_ = nullptr;
}

Status ExecutionContext::Run(Executable& executable, std::span<const Value> inputs, std::span<Value> outputs,
                             const RunEnv& env, bool growing) {
  if (!env.memory && !own_budget_) {
    own_budget_ = std::make_shared<MemoryBudget>(limits().memory_bytes, executable.env().memory_pool);
  }
  budget_ = env.memory ? env.memory : own_budget_;
  running_ = &executable;
  env_ = &env;
  outputs_ = outputs;
  std::vector<SlotType> actual;
  actual_ = nullptr;
  auto run = [&]() -> Status {
    if (growing) {
      QUERN_ASSIGN_OR_RETURN(actual, InferSlots(executable, inputs, {}));
      actual_ = &actual;
    }
    if (const Status charged = ChargeKept(plan_->arena_bytes()); !charged.ok()) return charged.WithContext("the arena");
    QUERN_ASSIGN_OR_RETURN(arena_, executable_->arenas().Take(plan_->arena_bytes()));
    QUERN_RETURN_IF_ERROR(BindSlots(inputs, outputs, actual_));
    NodeTimes* const times = executable_->times();
    int64_t begin = times ? NodeTimes::Begin() : 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (cancelled()) return Cancelled("the run was cancelled");
      QUERN_RETURN_IF_ERROR(RunStep(static_cast<int>(i)));
      if (times) begin = times->Add(i, {}, begin);
    }
    return TakeOutputs(outputs);
  };
  Status status = run();
  Reset();
  return status;
}

}  // namespace quern
