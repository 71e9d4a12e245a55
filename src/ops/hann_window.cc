// HannWindow: 1/2 - 1/2 cos(t) over one period.
#include "ops/common/cosine_window.h"

namespace quern {
namespace {

struct Window {
  static double At(double t) { return 0.5 - 0.5 * std::cos(t); }
};

}  // namespace

extern constinit const OpDefinition kOpHannWindow = {"", "HannWindow", kWindowVersions<Window>};

}  // namespace quern
