// Tensors of indices that come with a run: int32 or int64, negative ones counted from the end.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace quern::cpu {

// Index i of a tensor of int64 (`wide`) or int32.
inline int64_t IndexAt(const void* indices, bool wide, int64_t i) {
  return wide ? static_cast<const int64_t*>(indices)[i] : static_cast<const int32_t*>(indices)[i];
}
inline int64_t Wrapped(int64_t index, int64_t extent) { return index < 0 ? index + extent : index; }

// An error when the index of element `position` lies outside dimension `axis` of the data, of extent `extent`.
inline Status CheckIndex(int64_t index, int64_t position, int64_t axis, int64_t extent) {
  if (index >= -extent && index < extent) return OkStatus();
  return InvalidArgument("element " + std::to_string(position) + " of the indices is " + std::to_string(index) +
                         ", but dimension " + std::to_string(axis) + " of the data has extent " +
                         std::to_string(extent));
}
inline Status CheckIndices(const void* indices, bool wide, int64_t n, int64_t axis, int64_t extent) {
  for (int64_t i = 0; i < n; ++i) QUERN_RETURN_IF_ERROR(CheckIndex(IndexAt(indices, wide, i), i, axis, extent));
  return OkStatus();
}

}  // namespace quern::cpu
