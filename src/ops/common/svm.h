// Support vector machines: the kernel functions and attributes that SVMClassifier and SVMRegressor share.
#pragma once

#include <span>
#include <string>

#include "ops/op.h"

namespace quern {

struct SvmKernel {
  enum class Type { kLinear, kPoly, kRbf, kSigmoid };
  Type type = Type::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;

  // Attributes kernel_type and kernel_params.
  static Result<SvmKernel> Read(const Node& node);
  // K(x, v) of a row and a vector of as many features.
  double operator()(std::span<const double> x, std::span<const float> v) const;
};

}  // namespace quern
