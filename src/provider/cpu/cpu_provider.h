// The `cpu` provider: Quern's own micro-kernels behind provider.h.
#pragma once

#include <memory>

#include "parallel/executor.h"
#include "provider/cpu/cpu_op.h"
#include "provider/host.h"

namespace quern::cpu {

// `executor` packs weights during compile; runs bring their own. It must outlive the provider's compile calls.
std::shared_ptr<Provider> MakeCpuProvider(CpuConfig config, std::shared_ptr<Executor> executor);

}  // namespace quern::cpu
