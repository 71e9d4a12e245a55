// Copies whose source position is a sum of one table entry per output dimension: Pad, nearest Resize.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "provider/cpu/cpu_op.h"
#include "tensor/shape.h"

namespace quern::cpu {

class IndexedCopy {
 public:
  // positions[d][o]: where coordinate o of output dimension d reads in input dimension d; -1: nowhere, the fill value.
  // The input is contiguous of shape `in`; the output contiguous.
  static IndexedCopy Prepare(const Shape& in, const std::vector<std::vector<int64_t>>& positions, size_t element_bytes);

  // `fill`: one element; may be null when no position is -1. Allocates nothing.
  Status Run(const StepContext& context, const void* from, const void* fill, void* to) const;

 private:
  // Neighbouring elements of a row: `count` from `from` (elements; -1: fill).
  struct Segment {
    int64_t from, count;
  };
  template <typename T>
  void RunRows(const T* from, T fill, T* to, int64_t begin, int64_t end) const;

  Shape outer_;                              // output dimensions but for the rows
  std::vector<std::vector<int64_t>> steps_;  // source offsets (elements) of the outer dimensions
  std::vector<Segment> row_;
  std::vector<int64_t> places_;  // instead of segments where most of them would be of one element, none of them filled
  int64_t times_ = 1;  // above 1, neighbouring places come so many times each: places_[i] is places_[0] + i / times_
  int64_t row_elements_ = 0;
  size_t element_bytes_ = 0;
};

}  // namespace quern::cpu
