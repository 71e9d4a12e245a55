// The part of the CPU provider that takes operators whose outputs' sizes only a run tells. It is a provider of its own
// by that name, so that what reads such outputs is another cluster, planned once they are there.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/cpu.h"
#include "graph/graph.h"
#include "provider/cpu/sized/sized_op.h"
#include "provider/host.h"

namespace quern::cpu {

std::span<const SizedOp* const> AllSizedOps();
// Null when there is none.
const SizedOp* FindSizedOp(std::string_view domain, std::string_view op_type);

// Its micro-kernels are those for `cpu`.
std::shared_ptr<Provider> MakeSizedProvider(const CpuInfo& cpu);

}  // namespace quern::cpu
