// Outputs of strings: whether their text fits within the limits, before it is made.
#pragma once

#include <algorithm>
#include <string>

#include "ops/op.h"

namespace quern {

inline Status CheckTextBytes(const EvalContext& c, int64_t bytes) {
  const int64_t most = std::min(c.limits().tensor_bytes, c.limits().memory_bytes);
  if (bytes <= most) return OkStatus();
  return ResourceExhausted(c.node().Describe() + ": the strings of the output would take more than the limit of " +
                           std::to_string(most) + " bytes");
}

inline constexpr TypeSet kStringType = {DType::kString};

}  // namespace quern
