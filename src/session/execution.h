// ExecutionContext: the memory and bookkeeping of one run of a plan; pooled, so that repeated runs allocate nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "provider/host.h"
#include "session/dynamic_plans.h"
#include "session/executable.h"
#include "session/plan.h"

namespace quern {

class ExecutionContext final : public quern_run_context {
 public:
  static Result<std::unique_ptr<ExecutionContext>> Create(const Executable& executable, const SessionPlan& plan);
  ~ExecutionContext() override;

  // `growing`: the inputs may be smaller than planned, so actual shapes are inferred for this run.
  Status Run(Executable& executable, std::span<const Value> inputs, std::span<Value> outputs, const RunEnv& env,
             bool growing);

  bool cancelled() const override { return env_->cancel && env_->cancel->cancelled(); }
  const Limits& limits() const override;
  const std::shared_ptr<MemoryBudget>& memory() const override { return budget_; }
  Status AllocateOutput(int index, DType dtype, const Shape& shape, quern_tensor_view* out) override;
  Result<std::vector<Value>> RunSubgraph(const Graph& subgraph, std::vector<Value> inputs) override;

 private:
  // A value in a provider's own memory; kept for the next run.
  struct DeviceCopy {
    const Provider* provider = nullptr;
    void* data = nullptr;
    size_t bytes = 0;
    bool valid = false;
  };
  struct StepState {
    std::vector<quern_tensor_view> inputs, outputs;
    std::vector<uint8_t> small_inputs;  // those of a few integers
    std::vector<quern_value*> input_values, output_values;
    void* ticket = nullptr;                 // of a deferred completion
    std::unique_ptr<DynamicPlans> dynamic;  // of a step that the session's plan has none for
  };

  ExecutionContext(const Executable& executable, const SessionPlan& plan) : executable_(&executable), plan_(&plan) {}
  Status BindSlots(std::span<const Value> inputs, std::span<Value> outputs, const std::vector<SlotType>* actual);
  Status RunStep(int index);
  // Finds what the session's plan has not for a step, for the shapes that its inputs have now.
  Status PlanDynamicStep(int index, void*& plan, void*& workspace);
  Status PlaceOutputs(int index);
  // Makes the value readable by the host, or in the memory of a provider. Waits for its producer.
  Status EnsureHost(int slot);
  Status EnsureDevice(int slot, const Provider& provider);
  // Memory of a provider for a value; valid until the context ends or the provider's next Reserve of more bytes.
  Result<DeviceCopy*> ReserveDevice(int slot, const Provider& provider, size_t bytes);
  DeviceCopy* FindDevice(int slot, const Provider& provider);
  Status Wait(int step);
  // Counts memory that the context keeps against the run, until its end.
  Status ChargeKept(size_t bytes);
  Result<Tensor> NewTensor(int slot, DType dtype, const Shape& shape);
  Status TakeOutputs(std::span<Value> outputs);
  void Reset();

  const Executable* executable_;
  const SessionPlan* plan_;            // the plan whose pool this belongs to; whoever runs keeps it alive
  AlignedBuffer arena_;                // of the run in progress
  const void* bound_arena_ = nullptr;  // where the slots in the arena lie, from run to run
  std::vector<quern_value> slots_;
  std::vector<std::vector<DeviceCopy>> device_;  // by slot: one per provider
  std::vector<uint8_t> host_valid_;
  std::vector<StepState> steps_;

  std::shared_ptr<MemoryBudget> own_budget_;  // used again unless results that left still count against it

  // Of the run in progress.
  std::shared_ptr<MemoryBudget> budget_;
  size_t kept_bytes_ = 0;  // charged by ChargeKept
  Executable* running_ = nullptr;
  const RunEnv* env_ = nullptr;
  std::span<Value> outputs_;
  const std::vector<SlotType>* actual_ = nullptr;
  int current_step_ = -1;
};

}  // namespace quern
