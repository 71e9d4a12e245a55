// The part of the CPU provider that takes operators whose outputs' sizes only their data tells. It is a provider of its
// own by that name, so that what reads such outputs is another cluster, planned once they are there.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "provider/cpu/sized/sized_op.h"
#include "provider/host.h"

namespace quern::cpu {

// The operator of this kind that the node is; null when it is none.
const SizedOp* FindSizedOp(const Node& node);

std::shared_ptr<Provider> MakeSizedProvider();

}  // namespace quern::cpu
