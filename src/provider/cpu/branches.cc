#include "provider/cpu/branches.h"

#include <algorithm>

namespace quern::cpu {
namespace {

// Products reach this share of what the units could do, at this clock; vector loops move this much within a cache.
constexpr double kCyclesPerMicro = 3500;
constexpr double kReachedShare = 0.7;
constexpr double kBytesPerMicro = 25000;
constexpr double kStepMicros = 0.2;

// Kernels keep to the calling thread below about 20 us of work. From here on a step is taken to split evenly, which
// favours the order that needs no estimate.
constexpr double kSplitMicros = 15;
constexpr double kRegionMicros = 3;  // to hand a region over and to collect it
// Estimates are rough, and a worker that sleeps takes long to come: a gain must be clear.
constexpr double kLeastGainMicros = 20;
constexpr double kLeastGainShare = 0.2;
// Beside such a step others do not count; and how far a search goes, which bounds its cost.
constexpr double kLongMicros = 300;
constexpr int kMostNodes = 64;

// [first, end) of the nodes, growing, as connected components.
class Window {
 public:
  Window(std::span<const BranchNode> nodes, int concurrency)
      : nodes_(nodes), concurrency_(concurrency), parent_(nodes.size()), micros_(nodes.size()) {}

  void Start(int first) {
    first_ = end_ = first;
    serial_ = total_ = longest_ = 0;
  }
  // False when the next node may not be part of a group.
  bool Grow() {
    if (end_ == static_cast<int>(nodes_.size()) || end_ - first_ == kMostNodes) return false;
    const BranchNode& node = nodes_[end_];
    if (node.alone || node.micros > kLongMicros) return false;
    parent_[end_] = end_;
    micros_[end_] = node.micros;
    for (const int from : node.reads) {
      if (from < first_) continue;
      const int other = Root(from);
      if (other == end_) continue;
      parent_[other] = end_;
      micros_[end_] += micros_[other];
    }
    longest_ = std::max(longest_, micros_[end_]);
    total_ += node.micros;
    const double split = node.micros / concurrency_ + kRegionMicros;
    serial_ += node.micros < kSplitMicros ? node.micros : std::min(node.micros, split);
    ++end_;
    return true;
  }
  int end() const { return end_; }

  // Microseconds won by running the components side by side; 0 when that does not pay.
  double Gain() {
    if (Pays(std::max(longest_, total_ / concurrency_)) == 0) return 0;  // the best that could be
    Assign();
    return Pays(*std::max_element(loads_.begin(), loads_.end()));
  }

  BranchGroup Group() {
    Assign();
    BranchGroup group{.first = first_, .last = end_ - 1, .workers = {}};
    group.workers.resize(loads_.size());
    for (size_t i = 0; i < roots_.size(); ++i) {
      for (int n = first_; n < end_; ++n) {
        if (Root(n) == roots_[i]) group.workers[static_cast<size_t>(worker_[i])].push_back(n);
      }
    }
    return group;
  }

 private:
  int Root(int n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

  double Pays(double slowest) const {
    const double gain = serial_ - slowest - kRegionMicros;
    return gain >= std::max(kLeastGainMicros, kLeastGainShare * serial_) ? gain : 0;
  }

  // The longest component first, each to the worker with the least to do so far.
  void Assign() {
    roots_.clear();
    for (int n = first_; n < end_; ++n) {
      if (parent_[n] == n) roots_.push_back(n);
    }
    std::sort(roots_.begin(), roots_.end(),
              [&](int a, int b) { return micros_[a] != micros_[b] ? micros_[a] > micros_[b] : a < b; });
    loads_.assign(std::min(roots_.size(), static_cast<size_t>(concurrency_)), 0);
    worker_.clear();
    for (const int root : roots_) {
      const auto least = std::min_element(loads_.begin(), loads_.end());
      *least += micros_[root];
      worker_.push_back(static_cast<int>(least - loads_.begin()));
    }
  }

  std::span<const BranchNode> nodes_;
  int concurrency_;
  int first_ = 0, end_ = 0;
  std::vector<int> parent_;     // by node; of itself: the last node of a component
  std::vector<double> micros_;  // by last node: of the component
  double serial_ = 0, total_ = 0, longest_ = 0;
  std::vector<int> roots_, worker_;
  std::vector<double> loads_;
};

}  // namespace

NominalRates::NominalRates(const CpuFacts& cpu) {
  // float32 multiply-adds of one cycle.
  double lanes = 4.0 * cpu.fma_ports;
  if (cpu.features.Has(CpuFeature::kFma)) lanes = 8.0 * cpu.fma_ports;
  if (cpu.features.Has(CpuFeature::kAvx512F)) lanes = std::max(lanes, 16.0 * cpu.fma512_ports);
  operations_per_micro_ = 2 * lanes * kCyclesPerMicro * kReachedShare;
}

double NominalRates::Micros(const NodeWork& work) const {
  return kStepMicros + std::max(work.operations / operations_per_micro_, work.bytes / kBytesPerMicro);
}

std::vector<BranchGroup> FindBranches(std::span<const BranchNode> nodes, int concurrency) {
  if (concurrency < 2) return {};
  const int count = static_cast<int>(nodes.size());
  // By number of nodes from the front: the most that groups among them gain, and where the group at their end starts
  // (-1: the last of them is in no group).
  std::vector<double> most(nodes.size() + 1, 0);
  std::vector<int> start(nodes.size() + 1, -1);
  Window window(nodes, concurrency);
  for (int first = 0; first < count; ++first) {
    if (most[first + 1] <= most[first]) {
      most[first + 1] = most[first];
      start[first + 1] = -1;
    }
    if (nodes[first].micros == 0) continue;
    window.Start(first);
    while (window.Grow()) {
      const double gain = window.Gain();
      if (gain > 0 && most[first] + gain > most[window.end()]) {
        most[window.end()] = most[first] + gain;
        start[window.end()] = first;
      }
    }
  }
  std::vector<BranchGroup> groups;
  for (int end = count; end > 0;) {
    if (start[end] < 0) {
      --end;
      continue;
    }
    window.Start(start[end]);
    while (window.end() < end) window.Grow();
    groups.push_back(window.Group());
    end = start[end];
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

}  // namespace quern::cpu
