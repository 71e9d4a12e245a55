// What plans ask of operands' specs.
#pragma once

#include "provider/cpu/cpu_op.h"
#include "quern/provider.h"

namespace quern::cpu {

// Whether extents above 1 have the strides of dense memory.
inline bool IsContiguous(const Shape& shape, const Shape& strides) {
  const Shape dense = shape.ContiguousStrides();
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] > 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

// The same in dense memory.
inline TensorSpec Dense(TensorSpec s) {
  s.strides = s.shape.ContiguousStrides();
  s.contiguous = true;
  return s;
}

inline Shape StridesOf(const quern_tensor_view& v) {
  return Shape(std::span<const int64_t>(v.strides, static_cast<size_t>(v.rank)));
}

// Of a shape that was checked.
inline size_t BytesOf(const TensorSpec& s) { return TensorBytes(s.dtype, s.shape).value(); }

}  // namespace quern::cpu
