// Tensors of indices that come with a run: int32 or int64, negative ones counted from the end.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "base/status.h"
#include "provider/cpu/cpu_op.h"
#include "tensor/shape.h"

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

// True when all of n indices lie in [-extent, extent): every `stride`-th from `indices` on, of any alignment. Vector
// code; false also for some that do, of extents near the largest index.
template <typename Index>
bool AreWithin(const void* indices, int64_t n, int64_t stride, int64_t extent) {
  using Bits = std::make_unsigned_t<Index>;
  if (extent > std::numeric_limits<Index>::max()) return false;
  const char* from = static_cast<const char*>(indices);
  const Bits size = static_cast<Bits>(extent);
  Bits signs = 0;  // an index below or above makes one of the terms negative
  for (int64_t i = 0; i < n; ++i) {
    Bits v;
    std::memcpy(&v, from + i * stride * static_cast<int64_t>(sizeof v), sizeof v);
    signs |= static_cast<Bits>(v + size) | static_cast<Bits>(size - 1 - v);
  }
  return signs >> (8 * sizeof(Bits) - 1) == 0;
}
inline bool AreWithin(const void* indices, bool wide, int64_t n, int64_t extent) {
  return wide ? AreWithin<int64_t>(indices, n, 1, extent) : AreWithin<int32_t>(indices, n, 1, extent);
}
inline Status CheckIndices(const void* indices, bool wide, int64_t n, int64_t axis, int64_t extent) {
  if (AreWithin(indices, wide, n, extent)) return OkStatus();
  for (int64_t i = 0; i < n; ++i) QUERN_RETURN_IF_ERROR(CheckIndex(IndexAt(indices, wide, i), i, axis, extent));
  return OkStatus();
}
// Whether a plan knows that all indices are within the data, so that runs need not look.
inline bool KnownWithin(const TensorSpec& indices, int64_t extent) {
  return indices.constant &&
         AreWithin(indices.constant->raw_data(), indices.dtype == DType::kI64, indices.shape.num_elements(), extent);
}

// Neighbouring elements of one line, each with an index of its own along the axis.
struct IndexLine {
  int64_t extent;             // elements along the axis
  int64_t axis_stride, step;  // elements: along the axis, from an element to the next one's place of index 0
};

// Tuples of indices, each of which tells a slice of the data.
struct IndexTuples {
  int axis = 0, depth = 0;  // the dimensions [axis, axis + depth)
  std::array<int64_t, kMaxRank> extents{}, strides{};

  IndexTuples(const Shape& data, int axis, int depth) : axis(axis), depth(depth) {
    const Shape all = data.ContiguousStrides();
    for (int d = 0; d < depth; ++d) {
      extents[static_cast<size_t>(d)] = data[axis + d];
      strides[static_cast<size_t>(d)] = all[axis + d];
    }
  }
  template <typename Index>
  bool AllWithin(const void* tuples, int64_t n) const {
    for (int d = 0; d < depth; ++d) {
      const char* from = static_cast<const char*>(tuples) + static_cast<size_t>(d) * sizeof(Index);
      if (!AreWithin<Index>(from, n, depth, extents[static_cast<size_t>(d)])) return false;
    }
    return true;
  }
  bool AllWithin(const void* tuples, bool wide, int64_t n) const {
    return wide ? AllWithin<int64_t>(tuples, n) : AllWithin<int32_t>(tuples, n);
  }
  Status Check(const void* tuples, bool wide, int64_t n) const {
    if (AllWithin(tuples, wide, n)) return OkStatus();
    for (int64_t i = 0; i < n * depth; ++i) {
      const int64_t d = i % depth;
      QUERN_RETURN_IF_ERROR(CheckIndex(IndexAt(tuples, wide, i), i, axis + d, extents[static_cast<size_t>(d)]));
    }
    return OkStatus();
  }
  // Elements from the first of the data (or of a batch of it) to the slice of a tuple.
  template <typename Index>
  int64_t Offset(const Index* tuple) const {
    int64_t at = 0;
    for (size_t d = 0; d < static_cast<size_t>(depth); ++d) at += Wrapped(tuple[d], extents[d]) * strides[d];
    return at;
  }
};

}  // namespace quern::cpu
