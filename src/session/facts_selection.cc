// Measured cost terms, and the document about how well selection chooses here:
//   cpu, calibrated, within_10 (the share of shapes whose chosen row takes at most 1.1 times the fastest), worst
//   (ratio) shapes [{types, m, n, k, ratio, chosen, best, chosen_seconds, best_seconds}]
#include <algorithm>

#include "kernels/calibration.h"
#include "kernels/check_selection.h"
#include "session/facts.h"
#include "session/facts_json.h"

namespace quern {

Result<std::string> CalibrationReport(const CpuInfo& cpu, double seconds, const ProgressLine& progress) {
  if (!(seconds > 0)) return InvalidArgument("calibration takes more than 0 seconds");
  QUERN_ASSIGN_OR_RETURN(const kernels::Calibration calibration,
                         kernels::Calibrate(cpu, {.seconds = seconds, .progress = progress}));
  return kernels::CalibrationText(calibration, HostCpu());
}

Result<std::string> SelectionCheckReport(const CpuInfo& cpu, int64_t shapes, const ProgressLine& progress) {
  if (shapes < 1) return InvalidArgument("a check of selection takes at least one shape");
  QUERN_ASSIGN_OR_RETURN(const auto calibration, kernels::CalibrationFromEnvironment(cpu));
  CpuInfo measured = cpu;
  kernels::CheckOptions options;
  options.shapes = static_cast<size_t>(shapes);
  options.progress = progress;
  if (calibration) {
    calibration->ApplyTo(measured);
    options.rows = calibration->rows();
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<kernels::CheckedShape> checked, kernels::CheckSelection(measured, options));
  Json doc = NewDocument("selection_check");
  doc["cpu"] = cpu.name;
  doc["calibrated"] = calibration != nullptr;
  constexpr double kNear = 1.1;
  int64_t near = 0;
  double worst = 1;
  Json list = Json::array();
  for (const kernels::CheckedShape& s : checked) {
    near += s.ratio() <= kNear;
    worst = std::max(worst, s.ratio());
    list.push_back({{"types", s.types},
                    {"m", s.m},
                    {"n", s.n},
                    {"k", s.k},
                    {"ratio", s.ratio()},
                    {"chosen", s.chosen},
                    {"best", s.best},
                    {"chosen_seconds", s.chosen_seconds},
                    {"best_seconds", s.best_seconds}});
  }
  doc["within_10"] = static_cast<double>(near) / static_cast<double>(shapes);
  doc["worst"] = worst;
  doc["shapes"] = std::move(list);
  return Dump(doc);
}

}  // namespace quern
