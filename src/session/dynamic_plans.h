// DynamicPlans: plans of a step for which the session's plan has none, as shapes come with the run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "provider/host.h"
#include "session/eviction.h"

namespace quern {

class Executable;
struct CompiledStep;

// One execution's own: not thread-safe. Keeps PlansKeptWithinARun.
class DynamicPlans {
 public:
  struct Kept {
    void* plan = nullptr;
    std::vector<int64_t> key;  // what it was made for
    quern_plan_sink results;
  };
  DynamicPlans() = default;
  DynamicPlans(const DynamicPlans&) = delete;
  DynamicPlans& operator=(const DynamicPlans&) = delete;
  ~DynamicPlans();

  // The plan for these inputs, made unless it is kept; valid until the next call. `small[k]`: input k holds a few
  // integers, which serve where shapes depend on them; other contents must not become part of a plan.
  Result<const Kept*> Find(Executable& running, const CompiledStep& step, std::span<const quern_tensor_view> inputs,
                           std::span<const uint8_t> small);
  // At least so many bytes, the same for all plans.
  Result<void*> Workspace(size_t bytes);
  size_t workspace_bytes() const { return workspace_.size_bytes(); }

 private:
  // Whether small integers among the inputs decide shapes; found out once.
  enum class Basis : uint8_t { kUntried, kShapes, kContents };

  Result<const Kept*> PlanFor(Executable& running, const CompiledStep& step, std::span<const quern_tensor_view> inputs,
                              std::span<const uint8_t> small);
  Status FindBasis(Executable& running, const CompiledStep& step, std::span<const quern_tensor_view> inputs,
                   std::span<const uint8_t> small);

  const CompiledStep* step_ = nullptr;       // that the plans are of
  std::vector<std::unique_ptr<Kept>> kept_;  // most recently used first
  Eviction eviction_;                        // of them
  std::vector<int64_t> wanted_;              // the key of what is asked for
  Basis basis_ = Basis::kUntried;
  AlignedBuffer workspace_;
};

}  // namespace quern
