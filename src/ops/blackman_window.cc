// BlackmanWindow: 0.42 - 0.5 cos(t) + 0.08 cos(2t) over one period.
#include "ops/common/cosine_window.h"

namespace quern {
namespace {

struct Window {
  // In an order that gives exactly 1 in the middle, for integers.
  static double At(double t) { return 0.08 * std::cos(2 * t) - 0.5 * std::cos(t) + 0.42; }
};

}  // namespace

extern constinit const OpDefinition kOpBlackmanWindow = {"", "BlackmanWindow", kWindowVersions<Window>};

}  // namespace quern
