#include "ops/common/fused_activation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern {

Result<std::function<double(double)>> ReadFusedActivation(const Node& node, const std::vector<float>& params) {
  using Function = std::function<double(double)>;
  const std::string name = node.GetString("activation", "");
  const auto param = [&](size_t i, float otherwise) {
    return static_cast<double>(i < params.size() ? params[i] : otherwise);
  };
  if (name.empty()) return Function();
  if (name == "Relu") return Function([](double x) { return x < 0 ? 0.0 : x; });
  if (name == "Tanh") return Function([](double x) { return std::tanh(x); });
  if (name == "Sigmoid") return Function([](double x) { return 1.0 / (1.0 + std::exp(-x)); });
  if (name == "LeakyRelu") {
    return Function([alpha = param(0, 0.01f)](double x) { return x < 0 ? alpha * x : x; });
  }
  if (name == "Elu") return Function([alpha = param(0, 1.0f)](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
  if (name == "HardSigmoid") {
    return Function(
        [alpha = param(0, 0.2f), beta = param(1, 0.5f)](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); });
  }
  if (name == "Clip") {
    const double low = param(0, std::numeric_limits<float>::lowest()),
                 high = param(1, std::numeric_limits<float>::max());
    return Function([low, high](double x) { return x < low ? low : x > high ? high : x; });
  }
  if (name == "HardSwish") {
    return Function([](double x) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); });
  }
  return Unsupported(node.Describe() + ": the fused activation '" + name + "' is not known");
}

}  // namespace quern
