// Elementwise float functions of one input, computed in double and rounded once to the element type.
#pragma once

#include "ops/common/elementwise.h"

namespace quern {

// Output 0 = f(input 0) for double f(double); any float element type.
template <typename F>
Status EvaluateFloatUnary(EvalContext& c, F f) {
  return EvaluateUnary(c, FloatTypeList{}, [&](auto x) { return static_cast<decltype(x)>(f(static_cast<double>(x))); });
}

}  // namespace quern
