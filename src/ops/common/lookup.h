// Elements replaced by what a list of keys and a list of values of the same length say: encoders of labels.
#pragma once

#include "ops/op.h"

namespace quern {

struct Lookup {
  // Tensors or string tensors of any shape. All NaNs are the same key, and so are 0 and -0.
  Value keys, values;
  // One element of the type of `values`, for elements that are no key.
  Value otherwise;
  // Of equal keys the first counts, not the last.
  bool first_counts = false;
};

// Output 0 has the shape of input 0 and the element type of the values. An error when the lists do not fit each other
// or the input's type is not that of the keys.
Status EvaluateLookup(EvalContext& c, const Lookup& lookup);

// The lists of attributes as values: a tensor or string tensor of rank 1.
Value ListValue(std::span<const int64_t> list);
Value ListValue(std::span<const float> list);
Value ListValue(std::span<const std::string> list);

}  // namespace quern
