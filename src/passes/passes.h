// The neutral passes: they know ONNX meaning only, and emit standard operators only. One file each.
#pragma once

#include <span>

#include "base/limits.h"
#include "graph/pass.h"

namespace quern {

// What PassOptions::context may point at for the neutral passes; null means the defaults.
struct NeutralPassContext {
  Limits limits = {};
  int newest_opset = 28;  // of ai.onnx that nodes may follow which a pass makes: a file's own where one is written
};

// All neutral passes, in the order of passes.inc.
std::span<const Pass* const> NeutralPasses();
// The pass of that name, or null.
const Pass* FindNeutralPass(std::string_view name);

// The limits in a context pointer.
inline int NewestOpset(const void* context) {
  return context != nullptr ? static_cast<const NeutralPassContext*>(context)->newest_opset
                            : NeutralPassContext().newest_opset;
}
inline Limits LimitsOf(const void* context) {
  return context != nullptr ? static_cast<const NeutralPassContext*>(context)->limits : Limits{};
}

}  // namespace quern
