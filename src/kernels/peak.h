// What this machine can do: measured peaks of its multiply-add engines and its bandwidth, on one core or on all at
// once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "ukernel/peak.h"

namespace quern::kernels {

struct Peak {
  std::string name;  // "fma avx512", "vnni avx512vnni", "madd avx2", "amx int8"; "read l1", "copy l2", "read memory"
  std::string unit;  // "GFLOP/s", "GOP/s", "GB/s"
  double value = 0;  // the median over the rounds; copying counts each byte once
  double best = 0;
};

struct PeakOptions {
  int rounds = 7;  // alternating over the measurements
  double seconds_per_round = 0.05;
  bool bandwidth = true;
  int threads = 1;  // that run a loop at the same time, each on memory of its own; the peak is their sum
};

// Runs every loop that `cpu` and this host have, in alternation: independent accumulators in registers, enough to hide
// latencies, and random data; memory by the widest registers, over half of a level of caches. The calling thread is one
// of the threads.
std::vector<Peak> MeasurePeaks(const CpuInfo& cpu, const PeakOptions& options = {});

// Seconds of processor time that the calling thread has used: other processes on the core do not count. What slices are
// timed with.
double ThreadSeconds();

// "vnni avx512vnni", as MeasurePeaks calls it.
std::string PeakName(const ukernel::PeakKernel& loop);
// The loop that bounds the row of products `kernel` by its arithmetic, by its name (ukernel::Name); "" where the name
// is no such row's or no loop is made of its instruction.
std::string PeakNameOf(std::string_view kernel);
// The multiply-add loop on float32 of the widest vectors that `cpu` has.
const ukernel::PeakKernel& WidestFma(const CpuFacts& cpu);

// How much must be read in turn, by so many threads together, for all of it to come from memory, but no more than a
// machine can spare. Ten times the last-level cache, of which each thread may have one, also where a virtual machine
// does not say so: of two and a half times it, part is still found there (Zen 5: 43 instead of 38 GB/s).
size_t ColdBytes(int threads);

// One timed slice of a loop that this host runs, on so many threads at the same time: a billion operations per second
// of all together. For benchmarks that alternate it with the code that they measure.
double MeasureSlice(const ukernel::PeakKernel& loop, double seconds, int threads = 1);

}  // namespace quern::kernels
