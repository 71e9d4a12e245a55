// What the CPU and the kernel tell, found without the C++ library: the part of detection that the C interface of the
// micro-kernels shares with base/cpu.h.
#pragma once

#include <cstdint>

#include "base/cpu_features.h"

namespace quern {

struct CacheInfo {
  uint64_t bytes = 0;  // of one cache; 0: unknown or not there
  uint32_t line_bytes = 0;
  uint32_t ways = 0;       // 0: unknown
  uint32_t shared_by = 1;  // logical CPUs that share one such cache
};

struct CacheSet {
  CacheInfo l1d, l2, l3;
};

struct CpuProbe {
  char model[64] = {};
  CpuFeatures features;        // that the CPU has and the kernel permits
  CpuFeatures unsaved;         // the kernel does not save their registers (XCR0)
  CpuFeatures refused;         // the kernel refused permission (arch_prctl)
  CpuFeatures without_length;  // the kernel tells no vector length (prctl)
  CacheSet caches;             // as CPUID has them; nothing on Arm
  uint32_t sve_vector_bytes = 0;
  uint32_t sme_vector_bytes = 0;
  uint8_t fma_ports = 2;
  uint8_t fma512_ports = 0;
  uint8_t l1d_misses = CpuFacts{}.l1d_misses;
  float l3_read = CpuFacts{}.l3_read;
};

// Asks the CPU; asks the kernel for permission to use AMX tiles, for the whole process.
CpuProbe ProbeCpu();

// Caches as Linux tells them in <folder>/index*/{level,type,size,...}, e.g. of /sys/devices/system/cpu/cpu0/cache.
// What is not told keeps zero bytes.
CacheSet ReadSysfsCaches(const char* folder);

// What was probed, completed by sysfs for the CPU of that number.
CacheSet HostCaches(const CacheSet& probed, int cpu);

// Bytes per core. Unknown caches keep the defaults of CpuFacts; l3_bytes is what one core may count on at most (it
// saturates at 4 GiB - 1).
void SetCacheFacts(const CacheSet& caches, CpuFacts* facts);

}  // namespace quern
