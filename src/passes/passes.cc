#include "passes/passes.h"

namespace quern {

#define QUERN_NEUTRAL_PASS(name) extern const Pass name;
#include "passes/passes.inc"
#undef QUERN_NEUTRAL_PASS

std::span<const Pass* const> NeutralPasses() {
#define QUERN_NEUTRAL_PASS(name) &name,
  static constexpr const Pass* kPasses[] = {
#include "passes/passes.inc"
  };
#undef QUERN_NEUTRAL_PASS
  return kPasses;
}

const Pass* FindNeutralPass(std::string_view name) {
  for (const Pass* pass : NeutralPasses()) {
    if (name == pass->name) return pass;
  }
  return nullptr;
}

}  // namespace quern
