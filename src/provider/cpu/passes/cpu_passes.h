// The CPU provider's own passes: fusion and layout. One file each; the order is that of cpu_passes.inc.
#pragma once

#include <span>

#include "graph/pass.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// What Pass::run gets as its context here.
struct CpuPassContext {
  const CpuConfig& config;
  Executor* executor;  // for what is computed at load
};

std::span<const Pass* const> CpuPasses();
// Those that run once the others change nothing more: what they make is known to no other pass.
std::span<const Pass* const> CpuLastPasses();

}  // namespace quern::cpu
