// What this machine's CPU has and the kernel permits: HostCpu() and UsableCpus().
#include <sched.h>

#include <algorithm>
#include <string>
#include <thread>

#include "base/cpu.h"
#include "base/sme_units.h"

namespace quern {
namespace {

CpuInfo Detect() {
  const CpuProbe probe = ProbeCpu();
  CpuInfo cpu;
  cpu.arch = HostArch();
  cpu.model = probe.model;
  cpu.features = probe.features;
  cpu.sve_vector_bytes = probe.sve_vector_bytes;
  cpu.sme_vector_bytes = probe.sme_vector_bytes;
  cpu.fma_ports = probe.fma_ports;
  cpu.fma512_ports = probe.fma512_ports;
  cpu.l1d_misses = probe.l1d_misses;
  cpu.l3_read = probe.l3_read;
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto f = static_cast<CpuFeature>(i);
    if (probe.unsaved.Has(f)) cpu.absent.push_back({f, "the kernel does not save its registers (XCR0)"});
    if (probe.refused.Has(f)) cpu.absent.push_back({f, "the kernel refused permission (arch_prctl)"});
    if (probe.without_length.Has(f)) {
      const std::string kind = f == CpuFeature::kSve ? "SVE" : "streaming";
      cpu.absent.push_back({f, "the kernel tells no " + kind + " vector length (prctl)"});
    }
  }
  // Of a CPU that this process may use: the kinds of cores differ, and CPU 0 may be one of another kind.
  const CacheSet caches = HostCaches(probe.caches, UsableCpus().front());
  cpu.l1d = caches.l1d;
  cpu.l2 = caches.l2;
  cpu.l3 = caches.l3;
  return cpu;
}

}  // namespace

std::vector<int> UsableCpus() {
  std::vector<int> ids;
  // The set must be at least as large as the kernel's; it says EINVAL when not.
  for (size_t count = 1024; count <= (size_t{1} << 18); count *= 2) {
    cpu_set_t* set = CPU_ALLOC(count);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(count);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (size_t i = 0; known && i < count; ++i) {
      if (CPU_ISSET_S(i, bytes, set)) ids.push_back(static_cast<int>(i));
    }
    CPU_FREE(set);
    if (known) break;
  }
  if (ids.empty()) {
    const int count = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int i = 0; i < count; ++i) ids.push_back(i);
  }
  return ids;
}

const CpuInfo& HostCpu() {
  static const CpuInfo host = [] {
    CpuInfo cpu = Detect();
    cpu.name = "native";
    cpu.features = CloseFeatures(cpu.features, &cpu.absent);
    if (cpu.features.Has(CpuFeature::kSme)) cpu.sme_units = ReadSmeUnits("", UsableCpus()).count;
    return cpu;
  }();
  return host;
}

}  // namespace quern
