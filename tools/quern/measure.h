// Timed runs of a session: what `quern bench` and quern-perf-test report.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quern/quern.hpp"

namespace quern_tool {

// Seconds of single runs.
struct Latencies {
  double min = 0, mean = 0, max = 0;
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0, p999 = 0;
};

// By nearest rank: the smallest element that at least `per_mille` thousandths of all do not exceed. `sorted` is
// ascending and not empty; per_mille is in 1..1000.
double Percentile(const std::vector<double>& sorted, std::size_t per_mille);
// Of at least one run.
Latencies Summarize(std::vector<double> seconds);

struct MeasureOptions {
  int warmup = 2;         // untimed runs of each client; the very first run of the session is one of them
  double seconds = 3;     // how long each client goes on...
  std::int64_t runs = 0;  // ...unless this is above 0: runs of all clients together
  int clients = 1;        // threads that run the session at once
  std::uint64_t (*allocations)() = nullptr;  // how many the process has made; null: they are not counted
  std::function<void()> after_warmup;        // called before the first timed run; may be empty
  std::string what;                          // "model.onnx, 2 threads": begins each line of progress
};

struct Measurement {
  double first_seconds = 0;  // of the first run, which makes the plan
  std::vector<double> seconds;
  double wall_seconds = 0;  // from the first timed run's begin to the last one's end
  double cpu_seconds = 0;   // of the process in that time
  std::optional<double> allocations_per_run;
  std::uint64_t peak_bytes = 0;  // resident memory at most since ResetPeakMemory, without that of `seconds`
};

// The inputs of runs that follow each other: those of the first run, of the second..., and from the first again. Each
// holds one value per input of the session.
using FeedSets = std::vector<std::vector<quern::Value>>;

// Each client gives the session the same inputs, and outputs of its own that are written in place from the second run
// on while shapes stay. A line of progress goes to standard error every two seconds. The first failure of a run is
// thrown.
Measurement Measure(quern::Session& session, const FeedSets& feeds, const MeasureOptions& options);

// Resident memory of the process, as /proc/self/status says; 0 where that is not known.
struct Memory {
  std::uint64_t now_bytes = 0, peak_bytes = 0;
};
Memory ReadMemory();
// Gives back what the heap holds for later, and lets the peak begin anew where the kernel allows it.
void ResetPeakMemory();

}  // namespace quern_tool
