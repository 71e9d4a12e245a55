#include "ops/common/svm.h"

#include <cmath>

#include "ops/common/ml_rows.h"

namespace quern {

Result<SvmKernel> SvmKernel::Read(const Node& node) {
  SvmKernel kernel;
  const std::string name = node.GetString("kernel_type", "LINEAR");
  if (name == "POLY") {
    kernel.type = Type::kPoly;
  } else if (name == "RBF") {
    kernel.type = Type::kRbf;
  } else if (name == "SIGMOID") {
    kernel.type = Type::kSigmoid;
  } else if (name != "LINEAR") {
    return InvalidArgument(node.Describe() + ": kernel_type is '" + name +
                           "', one of LINEAR, POLY, RBF and SIGMOID is needed");
  }
  const std::span<const float> params = ListAttribute<float>(node, "kernel_params");
  if (params.empty()) return kernel;
  if (params.size() != 3) {
    return InvalidArgument(node.Describe() + ": kernel_params has " + std::to_string(params.size()) +
                           " values; gamma, coef0 and degree are needed");
  }
  kernel.gamma = params[0];
  kernel.coef0 = params[1];
  kernel.degree = params[2];
  return kernel;
}

double SvmKernel::operator()(std::span<const double> x, std::span<const float> v) const {
  double sum = 0;
  if (type == Type::kRbf) {
    for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - double{v[i]}) * (x[i] - double{v[i]});
    return std::exp(-gamma * sum);
  }
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * double{v[i]};
  switch (type) {
    case Type::kPoly:
      return std::pow(gamma * sum + coef0, degree);
    case Type::kSigmoid:
      return std::tanh(gamma * sum + coef0);
    default:
      return sum;
  }
}

}  // namespace quern
