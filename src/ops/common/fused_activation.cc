#include "ops/common/fused_activation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern {

Result<std::function<double(double)>> ReadFusedActivation(const Node& node, const FusedActivationParam& given) {
  using Function = std::function<double(double)>;
  const std::string name = node.GetString("activation", "");
  const auto param = [&](const char* attribute, size_t index, float otherwise) {
    const float* value = given(attribute, index);
    return static_cast<double>(value ? *value : otherwise);
  };
  const auto alpha = [&](float otherwise) { return param("alpha", 0, otherwise); };
  if (name.empty()) return Function();
  if (name == "Relu") return Function([](double x) { return x < 0 ? 0.0 : x; });
  if (name == "Tanh") return Function([](double x) { return std::tanh(x); });
  if (name == "Sigmoid") return Function([](double x) { return 1.0 / (1.0 + std::exp(-x)); });
  if (name == "Softsign") return Function([](double x) { return x / (1 + std::fabs(x)); });
  if (name == "Softplus") {
    return Function([](double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); });
  }
  if (name == "LeakyRelu") return Function([a = alpha(0.01f)](double x) { return x < 0 ? a * x : x; });
  if (name == "ThresholdedRelu") return Function([a = alpha(1)](double x) { return x > a ? x : 0.0; });
  if (name == "Elu") return Function([a = alpha(1)](double x) { return x < 0 ? a * std::expm1(x) : x; });
  if (name == "Celu") return Function([a = alpha(1)](double x) { return x < 0 ? a * std::expm1(x / a) : x; });
  if (name == "Selu") {
    return Function([a = alpha(1.67326319217681884765625f), gamma = param("gamma", 1, 1.05070102214813232421875f)](
                        double x) { return gamma * (x > 0 ? x : a * std::expm1(x)); });
  }
  if (name == "HardSigmoid") {
    return Function(
        [a = alpha(0.2f), beta = param("beta", 1, 0.5f)](double x) { return std::clamp(a * x + beta, 0.0, 1.0); });
  }
  if (name == "Clip") {
    const double low = param("min", 0, std::numeric_limits<float>::lowest()),
                 high = param("max", 1, std::numeric_limits<float>::max());
    return Function([low, high](double x) { return x < low ? low : x > high ? high : x; });
  }
  if (name == "HardSwish") {
    return Function([](double x) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); });
  }
  return Unsupported(node.Describe() + ": the fused activation '" + name + "' is not known");
}

}  // namespace quern
