// Comparison of results with expected ones.
#pragma once

#include <string>

#include "quern/quern.hpp"

namespace quern_tool {

// Allowed difference of an element: atol + rtol * |expected| + max_rel * max |expected|.
struct Tolerance {
  double atol = 1e-7, rtol = 1e-3, max_rel = 0;
};

struct Difference {
  bool equal = true;   // within the tolerance
  std::string what;    // of the first difference: "[0,3] is 1.5, expected 1"
  double max_abs = 0;  // over all numbers; infinite where only one side is finite
  double max_rel = 0;  // |difference| / max |expected| of the tensor
  void Merge(const Difference& other);
};

// Kinds, element types and shapes must be the same; NaN equals NaN, infinities themselves; strings, booleans and map
// keys must be equal; sequences, optionals and maps are compared element by element.
Difference Compare(const quern::Value& actual, const quern::Value& expected, const Tolerance& tolerance,
                   const std::string& name);

}  // namespace quern_tool
