// HammingWindow: 25/46 - 21/46 cos(t) over one period.
#include "ops/common/cosine_window.h"

namespace quern {
namespace {

struct Window {
  static double At(double t) { return 25.0 / 46.0 - 21.0 / 46.0 * std::cos(t); }
};

}  // namespace

extern constinit const OpDefinition kOpHammingWindow = {"", "HammingWindow", kWindowVersions<Window>};

}  // namespace quern
