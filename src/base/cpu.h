// The CPU: which features it has and the OS permits, its caches, and named CPUs that selection can be asked about.
// Facts are values: selection takes a CpuInfo, so that choices for any CPU are tested on any host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "base/cpu_probe.h"
#include "base/status.h"

namespace quern {

// A feature that the CPU's architecture knows and this CpuInfo lacks for another reason than "the CPU lacks it".
struct AbsentFeature {
  CpuFeature feature = CpuFeature::kCount;
  std::string reason;  // "the kernel refused permission (arch_prctl)", "switched off by '-amx'"
};

struct CpuInfo {
  Arch arch = HostArch();
  std::string name;   // as in a spec, with what was switched off: "native", "haswell", "native,-amx"
  std::string model;  // for people: "Intel(R) Xeon(R) Processor"
  CpuFeatures features;
  CacheInfo l1d;
  CacheInfo l2;
  CacheInfo l3;
  uint32_t sve_vector_bytes = 0;  // 0 without SVE
  uint32_t sme_vector_bytes = 0;  // streaming vector length, 0 without SME
  int sme_units = 0;              // that can work at once, shared by cores; 0 without SME
  uint8_t fma_ports = 2;          // 256-bit (x86) or 128-bit (Arm) FMA units of a core
  uint8_t fma512_ports = 0;       // 512-bit FMA units of a core
  uint8_t l1d_misses = CpuFacts{}.l1d_misses;
  uint16_t disabled = 0;  // bits by KernelGroup
  float l2_read = CpuFacts{}.l2_read, l3_read = CpuFacts{}.l3_read, memory_read = CpuFacts{}.memory_read;
  std::vector<AbsentFeature> absent;

  // What micro-kernels get to know. Unknown caches get the defaults of CpuFacts; l3_bytes is what one core may count on
  // at most (it saturates at 4 GiB - 1).
  CpuFacts facts() const;
};

// Facts on the machine this runs on, found once: cpuid, xgetbv and arch_prctl, or the auxiliary vector and prctl.
// Asks the kernel for permission to use AMX tiles, for the whole process, on the first call.
const CpuInfo& HostCpu();

// The kernel's numbers of the CPUs in the calling thread's affinity mask, ascending; at least one.
std::vector<int> UsableCpus();

// Why `cpu` lacks a feature: its entry in absent, or "the CPU lacks it", or "a feature of x86-64". Empty if it has it.
std::string AbsentReason(const CpuInfo& cpu, CpuFeature feature);

// The names that CpuFromSpec knows, in the order in which help and errors list them.
std::vector<std::string_view> CpuNames();

// A CPU from "NAME[,-feature...]", as in `--cpu` and QUERN_CPU: native (the host), generic (the host's architecture
// without optional features), or a row of cpu_names.cc (haswell, graviton3, apple-m4...). "-feature" takes away a
// feature and all that depend on it; "-amx", "-avx512", "-sse4" name their whole family; "-winograd", "-matrix" and the
// like switch off a KernelGroup. An unknown name is kInvalidArgument and lists the known ones.
Result<CpuInfo> CpuFromSpec(std::string_view spec);

// CpuFromSpec of the environment variable QUERN_CPU, or of "native" when it is unset or empty.
Result<CpuInfo> CpuFromEnvironment();

// Ok if code chosen for `cpu` can run on `host`; else kUnsupported, naming what the host lacks (architecture, features,
// vector length).
Status CheckCanRun(const CpuInfo& cpu, const CpuInfo& host = HostCpu());
inline bool CanRun(const CpuInfo& cpu) { return CheckCanRun(cpu).ok(); }

// `features` less those whose prerequisites are not in the set: avx512vnni goes with avx512f. What went is added to
// `absent` (when not null) as "needs <prerequisite>".
CpuFeatures CloseFeatures(CpuFeatures features, std::vector<AbsentFeature>* absent = nullptr);

}  // namespace quern
