// Facts about CPUs and micro-kernels behind the C ABI.
#include "session/facts.h"

#include "api/error.h"

namespace {

quern::Result<quern::CpuInfo> FindCpu(const char* cpu) {
  return cpu ? quern::CpuFromSpec(cpu) : quern::CpuFromEnvironment();
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
    QUERN_ASSIGN_OR_RETURN(const std::string text, quern::CpuReport(info, measure != 0));
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

}  // extern "C"
