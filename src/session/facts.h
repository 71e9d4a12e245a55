// The JSON documents about models, sessions, CPUs and micro-kernels: one object each, {"version": 1, "kind": ...}.
// Fields are only ever added within a version. docs of the fields are in the .cc file of each document.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "graph/graph.h"
#include "kernels/select.h"

namespace quern {

class Executable;

// {"kind": "model"}: inputs, outputs, operators with counts, parameters, operator sets, metadata.
std::string ModelFacts(const Graph& graph);

// {"kind": "session"} with one member per stage: "neutral", "partition", "compiled", "plan", "profile", or "all" of
// them. An unknown stage is kInvalidArgument, and so is "profile" of a session that is not profiled. "plan" is that of
// the last run; without a run, that of the declared input shapes, and null where these are not all numbers.
Result<std::string> SessionFacts(const Executable& executable, std::string_view stage);
// Text form of the graph after "neutral" or "partition" (one graph per cluster), or "compiled" (as the providers see
// it).
Result<std::string> SessionText(const Executable& executable, std::string_view stage);

enum class Measure : uint8_t { kNothing, kOneCore, kAllCores };

// {"kind": "cpu"}: features, absent ones with reasons, caches, cores. `measure` adds peaks, of one core or also of all
// at once: kUnsupported if the host cannot run code for this CPU.
Result<std::string> CpuReport(const CpuInfo& cpu, Measure measure);

struct KernelQuery {
  std::string family;           // "gemm", "dwconv", "vector", "pack"...; empty: all
  int64_t m = 0, n = 0, k = 0;  // all above zero: also both selection stages for that product
  std::string types;            // "f32,f32,f32": lhs, rhs, dst, and optionally the precision
};
// {"kind": "kernels"}: every row with what it is and whether `cpu` can run it.
Result<std::string> KernelReport(const CpuInfo& cpu, const KernelQuery& query);

using ProgressLine = std::function<void(const std::string&)>;
// The text of a calibration file of this machine, from about so many seconds of measurements.
Result<std::string> CalibrationReport(const CpuInfo& cpu, double seconds, const ProgressLine& progress);
// {"kind": "selection_check"}: how far the chosen rows are from the fastest, over seeded shapes, measured here.
Result<std::string> SelectionCheckReport(const CpuInfo& cpu, int64_t shapes, const ProgressLine& progress);

// What an operator of the drivers computes with, for a call of some size.
struct OperatorChoice {
  struct Product {
    std::string role;  // "product", "scores"...
    kernels::GemmProblem problem;
    kernels::LayoutChoice layout;
    const kernels::GemmKernel* row = nullptr;
    size_t m = 0;
  };
  std::string op, algorithm;
  std::string why;     // this algorithm
  std::string kernel;  // that is no product's
  std::string cpu;
  size_t packed_bytes = 0;
  kernels::SelectOptions options;
  std::vector<Product> products;
};
// {"kind": "operator"}.
std::string OperatorReport(const OperatorChoice& choice);

}  // namespace quern
