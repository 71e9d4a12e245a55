// Whether the rows that selection chooses on this host are the fastest there: a benchmark.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/select.h"

namespace quern::kernels {

struct CheckedShape {
  std::string types;  // name of the ProblemKind
  size_t m = 0, n = 0, k = 0;
  std::string chosen, best;  // rows with their layouts
  double chosen_seconds = 0, best_seconds = 0;
  double ratio() const { return chosen_seconds / best_seconds; }
};

struct CheckOptions {
  size_t shapes = 200;
  uint32_t seed = 1;
  double seconds_per_row = 0.003;  // and round
  RowTable rows = ukernel::AllGemmKernels();
  std::function<void(const std::string&)> progress;
};

// Seeded shapes of all types that the host has rows for, each with every row and layout that serves it, in turns on the
// calling thread.
Result<std::vector<CheckedShape>> CheckSelection(const CpuInfo& cpu, const CheckOptions& options);

}  // namespace quern::kernels
