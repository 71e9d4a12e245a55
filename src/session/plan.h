// SessionPlan: memory and provider plans for one set of input shapes. ExecutionContext: the memory of one run of it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "provider/host.h"
#include "session/executable.h"
#include "tensor/arena_plan.h"

namespace quern {

// Shape key of a run: what a plan depends on. Strides count where they are not the contiguous ones.
class PlanKey {
 public:
  // `dims` replaces the inputs' shapes when not empty.
  PlanKey(std::span<const Value> inputs, std::span<const Value> outputs, std::span<const Shape> dims);
  static uint64_t Hash(std::span<const Value> inputs, std::span<const Value> outputs, std::span<const Shape> dims);
  // Compares without building a key, so that finding a plan allocates nothing. `hash`: that of the arguments.
  bool Matches(uint64_t hash, std::span<const Value> inputs, std::span<const Value> outputs,
               std::span<const Shape> dims) const;

 private:
  std::vector<int64_t> words_;
  uint64_t hash_;
};

struct SlotPlan {
  // kRuntime: memory is found when the step runs. kHome: in the host-accessible memory of a provider (Slot::home).
  enum class Place : uint8_t { kRuntime, kInput, kArena, kOutput, kHome };
  Place place = Place::kRuntime;
  bool known = false;  // dtype and shape are
  DType dtype = DType::kUndefined;
  Shape shape;  // at most so large (growing state may be smaller)
  size_t bytes = 0;
  size_t offset = 0;                   // kArena
  int arena_buffer = -1;               // kArena: index into the planned buffers
  std::vector<int64_t> known_content;  // small integers known while planning, when not empty
};

struct StepPlan {
  void* plan = nullptr;  // the provider's; null: made when the step runs, because an input's shape is not known before
  size_t workspace_bytes = 0;
  size_t workspace_offset = 0;
};

class SessionPlan {
 public:
  SessionPlan(const Executable& executable, PlanKey key);
  ~SessionPlan();
  SessionPlan(const SessionPlan&) = delete;
  SessionPlan& operator=(const SessionPlan&) = delete;

  // Plans every step whose input shapes follow from the given ones, and the arena.
  Status Build(std::span<const Value> inputs, std::span<const Value> outputs, std::span<const Shape> dims);

  const PlanKey& key() const { return key_; }
  const std::vector<SlotPlan>& slots() const { return slots_; }
  const std::vector<StepPlan>& steps() const { return steps_; }
  size_t arena_bytes() const { return arena_bytes_; }

  // A context from the pool, or a new one.
  Result<std::unique_ptr<ExecutionContext>> Acquire();
  void Release(std::unique_ptr<ExecutionContext> context);

 private:
  Status PlanStep(int index, std::span<const Value> inputs, std::span<const Value> outputs,
                  std::vector<ArenaBuffer>& buffers);
  // Of a slot whose type and shape are found; an error where one tensor may not be so large.
  Status SetType(int slot, DType dtype, const Shape& shape);
  Status PlaceOutputs(int index, const quern_plan_sink& sink, std::vector<ArenaBuffer>& buffers);
  // Whether a result of the step may be written over its input `slot`.
  bool MayOverwrite(int slot, int step) const;
  Status TooLarge() const;  // the error about the limit on memory

  const Executable& executable_;
  PlanKey key_;
  std::vector<SlotPlan> slots_;
  std::vector<StepPlan> steps_;
  size_t arena_bytes_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ExecutionContext>> idle_;
};

// "value 'y' of node 'n' (Op)", for messages.
std::string DescribeSlot(const Slot& slot);

// Dtypes and shapes of an executable's values for given inputs: by slot; nothing where only a run can tell.
struct SlotType {
  DType dtype = DType::kUndefined;
  std::optional<Shape> shape;
  std::vector<int64_t> content;
};
Result<std::vector<SlotType>> InferSlots(const Executable& executable, std::span<const Value> inputs,
                                         std::span<const Shape> dims);

}  // namespace quern
