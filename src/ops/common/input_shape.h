// A check that many inference functions make of their inputs.
#pragma once

#include "ops/op.h"

namespace quern {

// Both are numbers, and not the same one.
inline bool Differ(const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && a.value() != b.value(); }
// An error when the shape of input i is known and does not fit `want`.
Status CheckInputShape(const InferContext& c, int i, const Dims& want);

}  // namespace quern
