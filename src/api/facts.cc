// Facts about CPUs and micro-kernels behind the C ABI.
#include "session/facts.h"

#include "api/error.h"

namespace {

quern::Result<quern::CpuInfo> FindCpu(const char* cpu) {
  return cpu ? quern::CpuFromSpec(cpu) : quern::CpuFromEnvironment();
}

quern::ProgressLine Lines(quern_progress progress, void* user) {
  if (!progress) return {};
  return [progress, user](const std::string& line) { progress(user, line.c_str()); };
}

}  // namespace

using quern::OkStatus;
using quern::Status;
using quern::api::Guard;
using quern::api::RequirePointer;

extern "C" {

quern_status quern_cpu_facts(const char* cpu, int32_t measure, char** json) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(json, "json"));
    QUERN_ASSIGN_OR_RETURN(const quern::CpuInfo info, FindCpu(cpu));
    const quern::Measure how = measure == 0   ? quern::Measure::kNothing
                               : measure == 2 ? quern::Measure::kAllCores
                                              : quern::Measure::kOneCore;
    QUERN_ASSIGN_OR_RETURN(const std::string text, quern::CpuReport(info, how));
    *json = quern::api::CopyText(text);
    return OkStatus();
  });
}

quern_status quern_kernel_facts(const char* cpu, const char* family, int64_t m, int64_t n, int64_t k, const char* types,
                                char** json) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(json, "json"));
    QUERN_ASSIGN_OR_RETURN(const quern::CpuInfo info, FindCpu(cpu));
    quern::KernelQuery query;
    if (family) query.family = family;
    query.m = m;
    query.n = n;
    query.k = k;
    if (types) query.types = types;
    QUERN_ASSIGN_OR_RETURN(const std::string text, quern::KernelReport(info, query));
    *json = quern::api::CopyText(text);
    return OkStatus();
  });
}

quern_status quern_calibrate(const char* cpu, double seconds, quern_progress progress, void* user, char** text) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(text, "text"));
    QUERN_ASSIGN_OR_RETURN(const quern::CpuInfo info, FindCpu(cpu));
    QUERN_ASSIGN_OR_RETURN(const std::string file, quern::CalibrationReport(info, seconds, Lines(progress, user)));
    *text = quern::api::CopyText(file);
    return OkStatus();
  });
}

quern_status quern_check_selection(const char* cpu, int64_t shapes, quern_progress progress, void* user, char** json) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(json, "json"));
    QUERN_ASSIGN_OR_RETURN(const quern::CpuInfo info, FindCpu(cpu));
    QUERN_ASSIGN_OR_RETURN(const std::string text, quern::SelectionCheckReport(info, shapes, Lines(progress, user)));
    *json = quern::api::CopyText(text);
    return OkStatus();
  });
}

}  // extern "C"
