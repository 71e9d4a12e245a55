// Runs the steps of a plan, one after another or branches side by side.
#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "base/denormals.h"
#include "parallel/flushing_executor.h"
#include "provider/cpu/cpu_executable.h"
#include "provider/host.h"

namespace quern::cpu {
namespace {

// Of the branches that run at the same time: the error of the earliest step, which is the one that a run of one step
// after another would have met.
class FirstError {
 public:
  // Whether a step behind another's error has nothing to do any more.
  bool Before(size_t step) const { return step_.load(std::memory_order_relaxed) < step; }
  void Set(size_t step, Status status) {
    const std::lock_guard lock(mutex_);
    if (step >= step_.load(std::memory_order_relaxed)) return;
    status_ = std::move(status);
    step_.store(step, std::memory_order_relaxed);
  }
  Status Take() { return std::move(status_); }

 private:
  std::mutex mutex_;
  std::atomic<size_t> step_{std::numeric_limits<size_t>::max()};
  Status status_ = OkStatus();
};

Status RunFlushing(const CpuStep& step, StepContext context) {
  return WithDenormalsFlushed(*context.executor, [&](Executor& flushing) {
    context.executor = &flushing;
    return step.Run(context);
  });
}

}  // namespace

Status CpuPlan::RunRange(StepRange range, const BoundSteps& bound, const quern_run_args& args, Executor& executor,
                         size_t& failed) const {
  char* workspace = static_cast<char*>(args.workspace);
  // A rebound run may hold more copies than planned only if shapes gained strides, which the key excludes.
  void** pointers = reinterpret_cast<void**>(workspace + pointer_table_offset_);
  auto resolve = [&](const Location& at) -> void* {
    switch (at.base) {
      case Location::Base::kNone:
        return nullptr;
      case Location::Base::kWorkspace:
        return workspace + buffers_[at.buffer].offset + at.offset;
      case Location::Base::kInput:
        return static_cast<char*>(args.inputs[at.index].data) + at.offset;
      case Location::Base::kOutput:
        return static_cast<char*>(args.outputs[at.index].data) + at.offset;
      case Location::Base::kConstant:
        return static_cast<char*>(executable_.values()[at.index].value->constant()->tensor().raw_data()) + at.offset;
      case Location::Base::kUnalignedConstant:
        return const_cast<char*>(static_cast<const char*>(
                   executable_.values()[at.index].value->constant()->tensor().unaligned_data())) +
               at.offset;
      case Location::Base::kContent:
        return static_cast<char*>(bound.contents[at.index].raw_data()) + at.offset;
    }
    return nullptr;
  };
  NodeTimes* const times = executable_.times();
  int64_t begin = times ? NodeTimes::Begin() : 0;
  for (const BoundSteps::Step& s : std::span(bound.steps).subspan(range.first, range.end - range.first)) {
    void** const first = pointers + s.operands;
    const size_t operands = s.num_inputs + s.num_outputs;
    for (size_t i = 0; i < operands; ++i) first[i] = resolve(bound.operands[s.operands + i]);
    void* scratch = s.scratch_buffer < 0 ? nullptr : workspace + buffers_[s.scratch_buffer].offset;
    if (s.own_scratch.size_bytes() > 0) scratch = const_cast<std::byte*>(s.own_scratch.data());
    const StepContext context{.inputs = {first, s.num_inputs},
                              .outputs = {first + s.num_inputs, s.num_outputs},
                              .scratch = scratch,
                              .executor = &executor,
                              .cancel = args.executor->cancel};
    const bool flushes = s.node >= 0 && executable_.nodes()[s.node].flushes_denormals;
    if (Status status = flushes ? RunFlushing(*s.step, context) : s.step->Run(context); !status.ok()) {
      failed = static_cast<size_t>(&s - bound.steps.data());
      return s.node < 0 ? status : status.WithContext(executable_.nodes()[s.node].node->Describe());
    }
    if (times && flushes) TakeDenormalsMet();  // which cost nothing
    if (times) begin = times->Add(s.node < 0 ? executable_.nodes().size() : s.node, s.work, begin);
    if (context.cancel && context.cancel->cancelled()) {
      failed = static_cast<size_t>(&s - bound.steps.data());
      return Cancelled("the run was cancelled");
    }
  }
  return OkStatus();
}

Status CpuPlan::RunSideBySide(const SideBySide& group, const BoundSteps& bound, const quern_run_args& args) const {
  FirstError error;
  const auto run = [&](int, int64_t begin, int64_t end) {
    InlineExecutor alone;
    for (int64_t w = begin; w < end; ++w) {
      for (const StepRange& range : group.workers[static_cast<size_t>(w)]) {
        if (error.Before(range.first)) continue;
        size_t failed = 0;
        if (Status status = RunRange(range, bound, args, alone, failed); !status.ok()) {
          error.Set(failed, std::move(status));
        }
      }
    }
  };
  const auto workers = static_cast<int64_t>(group.workers.size());
  const Status status = args.executor->executor->ParallelFor(workers, 1, run, args.executor->cancel);
  QUERN_RETURN_IF_ERROR(error.Take());
  return status;
}

Status CpuPlan::RunSteps(const BoundSteps& bound, const quern_run_args& args) const {
  size_t next = 0, failed = 0;
  for (const SideBySide& group : side_by_side_) {
    QUERN_RETURN_IF_ERROR(RunRange({next, group.first}, bound, args, *args.executor->executor, failed));
    QUERN_RETURN_IF_ERROR(RunSideBySide(group, bound, args));
    next = group.end;
  }
  return RunRange({next, bound.steps.size()}, bound, args, *args.executor->executor, failed);
}

Status CpuPlan::Run(const quern_run_args& args) const {
  bool as_planned = true;
  for (int i = 0; i < args.num_inputs && as_planned; ++i) {
    const quern_tensor_view &a = args.inputs[i], &b = planned_inputs_[i];
    as_planned = a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
  }
  if (as_planned) return RunSteps(bound_, args);

  // Growing state: the same memory, smaller shapes. Steps are bound anew; nothing else is.
  BoundSteps bound;
  std::unique_ptr<PlanSeed> seed = executable_.TakeSeed();
  QUERN_RETURN_IF_ERROR(InferFacts({args.inputs, static_cast<size_t>(args.num_inputs)}, false, *seed, bound));
  std::vector<Location> locations;
  CpuPlan layout(executable_);
  layout.concurrency_ = concurrency_;
  layout.planned_outputs_ = planned_outputs_;
  layout.decisions_ = decisions_;
  layout.buffers_ = buffers_;
  layout.lane_ = lane_;
  QUERN_RETURN_IF_ERROR(layout.Layout(bound, locations, false));
  QUERN_RETURN_IF_ERROR(BindSteps(locations, *seed, bound));
  executable_.GiveBack(std::move(seed));
  for (size_t i = 0; i < bound.steps.size(); ++i) {
    BoundSteps::Step& s = bound.steps[i];
    if (i >= bound_.steps.size() || bound_.steps[i].node != s.node || s.operands != bound_.steps[i].operands) {
      return Internal("the steps for smaller shapes differ from the planned ones");
    }
    s.scratch_buffer = bound_.steps[i].scratch_buffer;
    const size_t room = s.scratch_buffer < 0 ? 0 : buffers_[s.scratch_buffer].bytes;
    if (s.step->scratch_bytes() > room) {  // another micro-kernel, chosen for a smaller M, may need more
      QUERN_ASSIGN_OR_RETURN(s.own_scratch, AlignedBuffer::Allocate(s.step->scratch_bytes()));
    }
  }
  return RunSteps(bound, args);
}

}  // namespace quern::cpu
