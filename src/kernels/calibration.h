// Cost terms of GEMM rows measured on one machine, in place of the shipped ones: made there, kept in a text file, read
// through QUERN_CALIBRATION.
//   quern calibration 1
//   cpu <model>
//   features <name>...
//   caches <bytes of L1> <L2> <L3>
//   read l2=<bytes per cycle> l3= memory=
//   row <name> step_row=<cycles> step_load= step_min= row= tile= call= read=       (GemmCost), one line per row
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "kernels/select.h"

namespace quern::kernels {

struct RowCost {
  std::string name;  // ukernel::Name
  ukernel::GemmCost cost;
};

struct Calibration {
  float l2_read = 0, l3_read = 0, memory_read = 0;  // as in CpuFacts
  std::vector<RowCost> rows;
};

// The file's text, for the machine `host`.
std::string CalibrationText(const Calibration& calibration, const CpuInfo& host);
// kCorrupt for text that is no such file (with the number of the line), kUnsupported when it was made on another
// machine than `host` or knows other rows than `table`.
Result<Calibration> ParseCalibration(std::string_view text, const CpuInfo& host, RowTable table);

// A table of rows like `base` with the terms of a calibration; rows that it lacks keep theirs.
class CalibratedRows {
 public:
  CalibratedRows(Calibration calibration, RowTable base);
  CalibratedRows(const CalibratedRows&) = delete;
  CalibratedRows& operator=(const CalibratedRows&) = delete;

  RowTable rows() const { return table_; }
  // The same for the machine's own facts.
  void ApplyTo(CpuInfo& cpu) const;

 private:
  Calibration calibration_;
  std::vector<std::vector<GemmKernel>> kernels_;
  std::vector<ukernel::KernelList<GemmKernel>> lists_;
  std::vector<const ukernel::KernelList<GemmKernel>*> table_;
};

// Of the file that QUERN_CALIBRATION names; null when it is unset or empty, and for CPUs by another name than "native",
// whose choices are those of the shipped data. Errors name the file.
Result<std::shared_ptr<const CalibratedRows>> CalibrationFromEnvironment(const CpuInfo& cpu);

// A product of M rows as it was timed.
struct CostSample {
  GemmProblem problem;
  size_t m = 0;
  double cycles = 0;
};

// The terms by which EstimateCycles of the row, its right side resident in the layout, comes closest to the samples.
ukernel::GemmCost FitCost(GemmKernel row, const LayoutChoice& layout, const CpuFacts& cpu,
                          const std::vector<CostSample>& samples);

struct CalibrateOptions {
  double seconds = 60;  // about, for all rows
  RowTable rows = ukernel::AllGemmKernels();
  std::function<void(const std::string&)> progress;  // a line now and then; may be empty
};

// Times products of seeded shapes by every row that `cpu` and this host can run, on the calling thread, and fits the
// terms so that EstimateCycles comes close to them.
Result<Calibration> Calibrate(const CpuInfo& cpu, const CalibrateOptions& options);

}  // namespace quern::kernels
