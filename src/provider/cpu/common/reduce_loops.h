// Loops over any axes of a contiguous tensor: what is kept, and what each kept element is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/shape.h"

namespace quern::cpu {

// A reduction as: for each kept index (outer dimensions, then `columns` neighbouring elements), the elements at
// `offsets`, or `run` neighbours from each of them.
struct ReduceLoops {
  Shape outer, outer_strides;      // kept dimensions but for the columns
  int64_t columns = 1;             // innermost kept dimension, when nothing behind it is reduced
  int64_t run = 1;                 // innermost reduced dimension, when nothing behind it is kept
  std::vector<ptrdiff_t> offsets;  // of the other reduced dimensions
  int64_t count() const { return run * static_cast<int64_t>(offsets.size()); }
};
// `reduced` has an entry for each dimension.
ReduceLoops MakeLoops(const Shape& shape, const std::vector<bool>& reduced);
// Where the elements of outer index `index` begin.
int64_t OuterOffset(const ReduceLoops& loops, int64_t index);

}  // namespace quern::cpu
