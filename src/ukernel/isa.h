// The instruction set of a kernel file, as collect() passes it from its row in cmake/isa.cmake. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"

namespace quern::ukernel {

struct Isa {
  const char* name;   // last token of the file's stem: "avx512"
  CpuFeatures needs;  // all must be present
  bool any_arch;      // portable code
  Arch arch;          // where it runs unless any_arch
  bool emulated;      // its special instructions are plain C++ here (test builds)
};

// True if a CPU can run code of `isa`.
static constexpr bool IsaRunsOn(const Isa& isa, const CpuFacts& cpu) {
  return isa.any_arch || (isa.arch == cpu.arch && cpu.features.ContainsAll(isa.needs));
}

// The same for a row of a family, which may be switched off for the CPU but for its portable rows.
static constexpr bool RowRunsOn(const Isa& isa, KernelGroup family, const CpuFacts& cpu) {
  return isa.any_arch || (!cpu.IsDisabled(family) && IsaRunsOn(isa, cpu));
}

// What a row of a family is looked up for: to be called, or for its cost. Costs must not depend on the host, so that
// choices for a CPU are the same everywhere: they count rows without a body in this build too.
enum class Lookup : uint8_t { kRun, kCost };

// A family's rows in one file; each kernel file exports exactly one, named as its stem.
template <class Kernel>
struct KernelList {
  const Kernel* rows;
  size_t count;
  const char* stem;
};

// collect() defines, for each kernel file:
//   QUERN_KERNEL_LIST   the name of the exported list (the stem; with `_emulated` in the emulated build)
//   QUERN_KERNEL_STEM   the stem as a string
//   QUERN_ISA_NAME, QUERN_ISA_NEEDS, QUERN_ISA_ANY, QUERN_ISA_ARCH
//   QUERN_ISA_HERE      1 where bodies are compiled: target architecture and compiler know the ISA; else 0
//   QUERN_ISA_EMULATED  1 where the ISA's own instructions come from the emulation headers
#ifdef QUERN_ISA_NAME
[[maybe_unused]] static constexpr Isa kIsa{QUERN_ISA_NAME, CpuFeatures(QUERN_ISA_NEEDS), QUERN_ISA_ANY != 0,
                                           Arch::QUERN_ISA_ARCH, QUERN_ISA_EMULATED != 0};
#endif

}  // namespace quern::ukernel
