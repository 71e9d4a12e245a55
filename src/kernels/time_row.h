// How long a product takes by a row on this host: what calibration fits and selection is checked with.
#pragma once

#include "base/aligned_buffer.h"
#include "kernels/gemm_core.h"
#include "kernels/select.h"

namespace quern::kernels {

// A product of M rows on the calling thread, ready to be timed. Operands hold bits that are ordinary numbers in every
// format; results are not looked at.
class TimedProduct {
 public:
  // The row must be eligible for the problem and the layout, and run on this host.
  static Result<TimedProduct> Make(const GemmProblem& problem, const SelectOptions& options, const LayoutChoice& layout,
                                   const GemmKernel& row, size_t m);

  // Seconds of one run: the least of several batches of runs, which last `seconds` together. Time that others take from
  // the processor does not count.
  double Time(double seconds);

 private:
  void Run();

  GemmPlan plan_;
  AlignedBuffer lhs_, rhs_, dst_, workspace_;
  GemmOperands operands_;
};

// Cycles per second of the calling thread now, by a chain of operations that take one each.
double MeasureClock(double seconds);

}  // namespace quern::kernels
