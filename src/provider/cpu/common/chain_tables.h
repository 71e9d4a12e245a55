// Look-ups in chains of elementwise functions.
#pragma once

#include <functional>

#include "base/status.h"
#include "provider/cpu/common/byte_tables.h"
#include "provider/cpu/common/elementwise_chain.h"

namespace quern::cpu {

// The chain with a look-up wherever a byte depends on one other byte alone, without the steps that nothing reads then.
// `evaluate` gives the results of a chain of one input for each byte.
Result<Chain> WithTables(const Chain& chain, const std::function<Result<ByteTable>(const Chain&)>& evaluate);

}  // namespace quern::cpu
