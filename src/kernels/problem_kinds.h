// Matrix products of every kind that selection serves: what its tables list, and what rows are calibrated on.
#pragma once

#include <vector>

#include "kernels/problem.h"

namespace quern::kernels {

struct ProblemKind {
  const char* name;     // "i8d by 4-bit blocks"
  GemmProblem problem;  // without extents
};

std::vector<ProblemKind> ProblemKinds();

}  // namespace quern::kernels
