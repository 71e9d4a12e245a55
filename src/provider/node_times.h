// NodeTimes: how often each node of a cluster ran, for how long and on how much. Kept only for sessions that are
// profiled.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/denormals.h"
#include "provider/node_work.h"

namespace quern {

// Any number of runs add to it at once, while others read.
class NodeTimes {
 public:
  struct Sum {
    int64_t runs = 0;
    double seconds = 0, operations = 0, bytes = 0;
    int64_t denormal_runs = 0;  // in which the calling thread met denormal numbers
  };

  explicit NodeTimes(size_t nodes) : counters_(nodes) {}

  // The calling thread begins with the first of some nodes. Returns now, in ns.
  static int64_t Begin() {
    TakeDenormalsMet();
    return Now();
  }
  // Node `index` ran since `begin`. Returns now, where the next node begins.
  int64_t Add(size_t index, const NodeWork& work, int64_t begin) {
    const int64_t end = Now();
    Counter& c = counters_[index];
    c.runs.fetch_add(1, std::memory_order_relaxed);
    c.nanoseconds.fetch_add(end - begin, std::memory_order_relaxed);
    c.operations.fetch_add(work.operations, std::memory_order_relaxed);
    c.bytes.fetch_add(work.bytes, std::memory_order_relaxed);
    if (TakeDenormalsMet()) c.denormal_runs.fetch_add(1, std::memory_order_relaxed);
    return end;
  }
  Sum sum(size_t index) const {
    const Counter& c = counters_[index];
    return {.runs = c.runs.load(std::memory_order_relaxed),
            .seconds = static_cast<double>(c.nanoseconds.load(std::memory_order_relaxed)) * 1e-9,
            .operations = c.operations.load(std::memory_order_relaxed),
            .bytes = c.bytes.load(std::memory_order_relaxed),
            .denormal_runs = c.denormal_runs.load(std::memory_order_relaxed)};
  }

 private:
  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  struct Counter {
    std::atomic<int64_t> runs{0}, nanoseconds{0}, denormal_runs{0};
    std::atomic<double> operations{0}, bytes{0};
  };
  std::vector<Counter> counters_;
};

}  // namespace quern
