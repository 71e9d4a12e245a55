// Decides which steps of a plan run side by side, and lays out their memory.
#include <algorithm>

#include "provider/cpu/cpu_executable.h"

namespace quern::cpu {

void CpuPlan::DecideBranches(const BoundSteps& bound) {
  const auto& nodes = executable_.nodes();
  const auto& values = executable_.values();
  lane_.assign(nodes.size(), -1);
  if (concurrency_ < 2 || !executable_.branch_rates()) return;
  std::vector<BranchNode> list(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    const CompiledNode& node = nodes[n];
    if (!node.kernel) continue;
    BranchNode& b = list[n];
    for (const int v : node.inputs) {
      if (v < 0) continue;
      const int producer = values[v].producer;
      if (producer >= 0 && nodes[producer].kernel) b.reads.push_back(producer);
      b.alone |= values[v].input >= 0 && !bound.facts[v].spec.contiguous;  // may be copied before its first reader
    }
    // What is given for an output may be the memory of an input that is still to be read.
    for (const int v : node.outputs) b.alone |= v >= 0 && values[v].output >= 0;
    const std::vector<TensorSpec> in = SpecsOf(node.inputs, bound.facts), out = SpecsOf(node.outputs, bound.facts);
    const Placement place = node.kernel->Place({in, out, concurrency_});
    if (place.views.size() < node.outputs.size())
      b.micros = executable_.branch_rates()->Micros(WorkOfStep(node, in, out));
  }
  groups_ = FindBranches(list, concurrency_);
  int lane = 0;
  for (const BranchGroup& g : groups_) {
    for (const std::vector<int>& worker : g.workers) {
      for (const int n : worker) lane_[n] = lane;
      ++lane;
    }
  }
}

// Steps of a lane follow each other and share their scratch.
void CpuPlan::PlaceScratch() {
  std::unordered_map<int, int> of_lane;
  for (BoundSteps::Step& s : bound_.steps) {
    const size_t bytes = s.step->scratch_bytes();
    if (bytes == 0) continue;
    const int lane = s.node < 0 ? -1 : lane_[s.node];
    const auto shared = of_lane.find(lane);
    if (lane < 0 || shared == of_lane.end()) {
      s.scratch_buffer = NewBuffer(bytes, s.node, s.node);
      if (lane >= 0) of_lane.emplace(lane, s.scratch_buffer);
      continue;
    }
    s.scratch_buffer = shared->second;
    buffers_[s.scratch_buffer].bytes = std::max(buffers_[s.scratch_buffer].bytes, bytes);
  }
}

// Workers get the steps of their nodes; what a group touches lives as long as the whole group runs.
void CpuPlan::LayoutBranches() {
  std::unordered_map<int, size_t> step_of;
  for (size_t i = 0; i < bound_.steps.size() && !groups_.empty(); ++i) {
    if (bound_.steps[i].node >= 0) step_of.emplace(bound_.steps[i].node, i);
  }
  for (const BranchGroup& g : groups_) {
    SideBySide steps;
    for (const std::vector<int>& worker : g.workers) {
      std::vector<StepRange> ranges;
      for (const int n : worker) {
        const auto at = step_of.find(n);
        if (at == step_of.end()) continue;  // a view
        const size_t i = at->second;
        steps.first = std::min(steps.first, i);
        steps.end = std::max(steps.end, i + 1);
        if (!ranges.empty() && ranges.back().end == i) {
          ranges.back().end = i + 1;
        } else {
          ranges.push_back({i, i + 1});
        }
      }
      if (!ranges.empty()) steps.workers.push_back(std::move(ranges));
    }
    side_by_side_.push_back(std::move(steps));
    for (ArenaBuffer& b : buffers_) {
      if (b.first > g.last || b.last < g.first) continue;
      b.first = std::min(b.first, g.first);
      b.last = std::max(b.last, g.last);
    }
  }
}

}  // namespace quern::cpu
