#include "session/dynamic_plans.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "session/executable.h"

namespace quern {
namespace {

// What a plan for an input depends on: its type, shape, strides and, where they are told, its contents.
void AppendToKey(const quern_tensor_view& v, bool contents, std::vector<int64_t>& key) {
  key.insert(key.end(), {v.dtype, v.rank, contents});
  int64_t count = 1;
  for (int32_t d = 0; d < v.rank; ++d) {
    key.insert(key.end(), {v.dims[d], v.strides[d]});
    count *= v.dims[d];
  }
  if (!contents) return;
  const size_t bytes = static_cast<size_t>(count) * DTypeBytes(static_cast<DType>(v.dtype)), begin = key.size();
  key.resize(begin + (bytes + sizeof(int64_t) - 1) / sizeof(int64_t));
  if (bytes > 0) std::memcpy(key.data() + begin, v.data, bytes);
}

}  // namespace

DynamicPlans::~DynamicPlans() {
  for (const auto& k : kept_) step_->provider->abi().destroy_plan(step_->provider->abi().self, k->plan);
}

Result<const DynamicPlans::Kept*> DynamicPlans::Find(Executable& running, const CompiledStep& step,
                                                     std::span<const quern_tensor_view> inputs,
                                                     std::span<const uint8_t> small) {
  step_ = &step;
  if (basis_ == Basis::kUntried) QUERN_RETURN_IF_ERROR(FindBasis(running, step, inputs, small));
  return PlanFor(running, step, inputs, basis_ == Basis::kContents ? small : std::span<const uint8_t>());
}

Status DynamicPlans::FindBasis(Executable& running, const CompiledStep& step, std::span<const quern_tensor_view> inputs,
                               std::span<const uint8_t> small) {
  const auto known = [](const Kept& kept) {
    return std::ranges::count_if(kept.results.outputs, [](const auto& o) { return o.known; });
  };
  const Result<const Kept*> by_shapes = PlanFor(running, step, inputs, {});
  const int64_t told = by_shapes.ok() ? known(**by_shapes) : -1;
  basis_ = Basis::kShapes;
  if (told == std::ssize(step.outputs)) return OkStatus();
  Result<const Kept*> by_contents = PlanFor(running, step, inputs, small);
  if (!by_contents.ok()) {
    basis_ = Basis::kUntried;
    return by_contents.status();
  }
  if (known(**by_contents) > told) basis_ = Basis::kContents;
  return OkStatus();
}

Result<const DynamicPlans::Kept*> DynamicPlans::PlanFor(Executable& running, const CompiledStep& step,
                                                        std::span<const quern_tensor_view> inputs,
                                                        std::span<const uint8_t> small) {
  const auto told = [&](size_t k) { return !small.empty() && small[k] != 0; };
  wanted_.clear();
  for (size_t k = 0; k < inputs.size(); ++k) AppendToKey(inputs[k], told(k), wanted_);
  const auto at = std::ranges::find_if(kept_, [&](const auto& kept) { return kept->key == wanted_; });
  if (at != kept_.end()) {
    std::rotate(kept_.begin(), at, at + 1);
    return kept_.front().get();
  }
  std::vector<quern_tensor_view> in(inputs.begin(), inputs.end()), out(step.outputs.size());
  for (size_t k = 0; k < in.size(); ++k) {
    if (!told(k)) in[k].data = nullptr;
  }
  for (auto& o : out) o.rank = -1;
  auto made = std::make_unique<Kept>();
  made->key = wanted_;
  made->results.outputs.resize(out.size());
  const quern_plan_args args{.struct_size = sizeof(quern_plan_args),
                             .num_inputs = static_cast<int32_t>(in.size()),
                             .inputs = in.data(),
                             .concurrency = running.env().concurrency,
                             .num_outputs = static_cast<int32_t>(out.size()),
                             .outputs = out.data()};
  running.CountPlan();
  QUERN_RETURN_IF_ERROR(step.provider->Plan(step.executable, args, made->results, &made->plan));
  const size_t most = PlansKeptWithinARun(running.env().plan_cache_size, step.cluster.nodes.size());
  while (kept_.size() >= most) {
    const auto leaves = kept_.begin() + static_cast<std::ptrdiff_t>(eviction_.Pick(kept_.size()));
    step.provider->abi().destroy_plan(step.provider->abi().self, (*leaves)->plan);
    kept_.erase(leaves);
  }
  kept_.insert(kept_.begin(), std::move(made));
  return kept_.front().get();
}

Result<void*> DynamicPlans::Workspace(size_t bytes) {
  if (workspace_.size_bytes() < bytes) {
    QUERN_ASSIGN_OR_RETURN(workspace_, AlignedBuffer::Allocate(bytes));
  }
  return static_cast<void*>(workspace_.data());
}

}  // namespace quern
