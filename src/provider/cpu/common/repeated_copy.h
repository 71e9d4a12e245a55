// A tensor repeated along its dimensions: each row several times, then what is written of a dimension as a whole.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "parallel/cancel.h"
#include "parallel/executor.h"
#include "tensor/shape.h"

namespace quern::cpu {

class RepeatedCopy {
 public:
  // Contiguous both; `out` has elements, and each of its extents is a multiple of that of `in`.
  RepeatedCopy(const Shape& in, const Shape& out, size_t element_bytes);
  Status Run(const void* from, void* to, Executor& executor, const CancelToken* cancel) const;

 private:
  // A dimension, or several that are repeated as one: `extent` parts, which are from_bytes apart in the source and
  // to_bytes in the result.
  struct Level {
    int64_t extent, repeats, from_bytes, to_bytes;
  };
  void Write(int level, const char* from, char* to) const;

  size_t element_bytes_;
  int depth_ = 0;
  std::array<Level, kMaxRank> levels_{};  // from the innermost one on
};

}  // namespace quern::cpu
