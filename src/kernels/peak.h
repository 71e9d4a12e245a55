// What this machine can do: measured peaks of its multiply-add engines and its bandwidth, on one core or on all at
// once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "ukernel/isa.h"

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

// One timed slice of the FMA loop of the widest engine that `cpu` has: GFLOP/s. For benchmarks that alternate it with
// the code that they measure.
double MeasureFmaSlice(const CpuFacts& cpu, double seconds);
// One of the loop over the instruction that integer products on `isa` are made of, GOP/s; where an ISA has none, of the
// widest multiply-add.
double MeasureIntegerSlice(const ukernel::Isa& isa, const CpuFacts& cpu, double seconds);
// The ISA whose loop MeasureFmaSlice runs: "avx512".
const char* FmaSliceName(const CpuFacts& cpu);

}  // namespace quern::kernels
