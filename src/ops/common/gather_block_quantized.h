// The attributes of com.microsoft's GatherBlockQuantized, checked.
#pragma once

#include "ops/op.h"

namespace quern {

struct BlockGather {
  int gather_axis = 0, quantize_axis = 0;
  int64_t block_size = 0;  // 0: one block along the axis
  int bits = 0;            // of an element
  int64_t packed = 1;      // elements in one of uint8 data, along the last dimension

  static Result<BlockGather> Read(const Node& node, DType data, int rank);
  // Of `extent` elements of the data as declared along quantize_axis.
  int64_t Blocks(int64_t extent) const;
  // The zero point where none is given.
  float ZeroPoint(DType data) const;
};

}  // namespace quern
