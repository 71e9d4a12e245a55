// The names of a product's problem (ukernel/problem.h) among the drivers.
#pragma once

#include "ukernel/problem.h"

namespace quern::kernels {

using ukernel::BlockLength;
using ukernel::BlockScale;
using ukernel::ComputesOnTerms;
using ukernel::Format;
using ukernel::GemmKernel;
using ukernel::GemmProblem;
using ukernel::IsBlockProblem;
using ukernel::PackLayout;
using ukernel::Precision;
using ukernel::ReadBytesPerCycle;
using ukernel::RhsShapeOf;

}  // namespace quern::kernels
