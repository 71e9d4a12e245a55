// ExecutionContext: the memory and bookkeeping of one run of a plan; pooled, so that repeated runs allocate nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "provider/host.h"
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
  Status AllocateOutput(int index, DType dtype, const Shape& shape, quern_tensor_view* out) override;
  Result<std::vector<Value>> RunSubgraph(const Graph& subgraph, std::vector<Value> inputs) override;

 private:
  // A value in a provider's own memory.
  struct DeviceCopy {
    Provider* provider = nullptr;
    void* data = nullptr;
    size_t bytes = 0;
    bool valid = false;
  };
  struct StepState {
    std::vector<quern_tensor_view> inputs, outputs;
    std::vector<quern_value*> input_values, output_values;
    void* ticket = nullptr;        // of a deferred completion
    void* dynamic_plan = nullptr;  // made for the shapes of this run, where the plan has none
    AlignedBuffer dynamic_workspace;
  };

  ExecutionContext(const Executable& executable, const SessionPlan& plan) : executable_(&executable), plan_(&plan) {}
  Status BindSlots(std::span<const Value> inputs, std::span<Value> outputs, const std::vector<SlotType>* actual);
  Status RunStep(int index);
  Status PlanDynamicStep(int index);
  Status PlaceOutputs(int index);
  Status EnsureHost(int slot);
  Status EnsureDevice(int slot, Provider& provider);
  Status ReserveDevice(int slot, Provider& provider, size_t bytes);
  Status Wait(int step);
  Status TakeOutputs(std::span<Value> outputs);
  void Reset();

  const Executable* executable_;
  const SessionPlan* plan_;  // the plan whose pool this belongs to; whoever runs keeps it alive
  AlignedBuffer arena_;
  std::vector<quern_value> slots_;
  std::vector<DeviceCopy> device_;
  std::vector<uint8_t> host_valid_;
  std::vector<StepState> steps_;

  // Of the run in progress.
  Executable* running_ = nullptr;
  const RunEnv* env_ = nullptr;
  std::span<Value> outputs_;
  const std::vector<SlotType>* actual_ = nullptr;
  int current_step_ = -1;
};

}  // namespace quern
