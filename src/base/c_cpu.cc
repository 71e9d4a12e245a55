// quern_cpu_detect: an object of its own, which nothing else refers to.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/c_cpu.h"
#include "base/cpu_probe.h"

extern "C" int32_t quern_cpu_detect(quern_cpu* cpu) {
  using namespace quern;
  if (!cpu || cpu->struct_size < sizeof(size_t)) return 1;
  const CpuProbe probe = ProbeCpu();
  const int number = sched_getcpu();
  CpuFacts facts;
  SetCacheFacts(HostCaches(probe.caches, number < 0 ? 0 : number), &facts);
  quern_cpu found;
  quern_cpu_init(&found);
  found.arch = CArch(HostArch());
  for (size_t i = 0; i < kCpuFeatureCount; ++i) {
    const auto f = static_cast<CpuFeature>(i);
    if (probe.features.Has(f)) found.features |= uint64_t{1} << CFeature(f);
  }
  found.l1d_bytes = facts.l1d_bytes;
  found.l2_bytes = facts.l2_bytes;
  found.l3_bytes = facts.l3_bytes;
  found.sve_vector_bytes = probe.sve_vector_bytes;
  found.sme_vector_bytes = probe.sme_vector_bytes;
  found.fma_ports = probe.fma_ports;
  found.fma512_ports = probe.fma512_ports;
  found.l1d_misses = probe.l1d_misses;
  found.struct_size = cpu->struct_size;
  std::memcpy(cpu, &found, std::min(cpu->struct_size, sizeof found));
  return 0;
}
