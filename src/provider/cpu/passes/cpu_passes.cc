#include "provider/cpu/passes/cpu_passes.h"

namespace quern::cpu {

#define QUERN_CPU_PASS(name) extern const Pass name;
#define QUERN_CPU_LAST_PASS(name) extern const Pass name;
#include "provider/cpu/passes/cpu_passes.inc"
#undef QUERN_CPU_LAST_PASS
#undef QUERN_CPU_PASS

std::span<const Pass* const> CpuPasses() {
#define QUERN_CPU_PASS(name) &name,
#define QUERN_CPU_LAST_PASS(name)
  static constexpr const Pass* kPasses[] = {
#include "provider/cpu/passes/cpu_passes.inc"
  };
#undef QUERN_CPU_LAST_PASS
#undef QUERN_CPU_PASS
  return kPasses;
}

std::span<const Pass* const> CpuLastPasses() {
#define QUERN_CPU_PASS(name)
#define QUERN_CPU_LAST_PASS(name) &name,
  static constexpr const Pass* kPasses[] = {
#include "provider/cpu/passes/cpu_passes.inc"
  };
#undef QUERN_CPU_LAST_PASS
#undef QUERN_CPU_PASS
  return kPasses;
}

}  // namespace quern::cpu
