// What the operators around Fourier transforms share.
#pragma once

#include <string>

#include "ops/common/fourier.h"
#include "ops/op.h"

namespace quern {

// An error when transforms of `length` would take more memory than a run may.
inline Status CheckFourierMemory(const EvalContext& c, int64_t length) {
  if (FourierTransform::MemoryBytes(length) <= static_cast<double>(c.limits().memory_bytes)) return OkStatus();
  return ResourceExhausted(c.node().Describe() + ": a transform of length " + std::to_string(length) +
                           " takes more than the limit of " + std::to_string(c.limits().memory_bytes) +
                           " bytes of memory");
}

// Element i of real (1 component) or complex (2) numbers.
template <typename T>
Complex LoadComplex(const T* data, int64_t i, int64_t components) {
  const T* at = data + i * components;
  return {static_cast<double>(at[0]), components == 2 ? static_cast<double>(at[1]) : 0.0};
}

// An error when the last dimension of `shape`, real or complex numbers, is known to be neither 1 nor 2.
inline Status CheckComponents(const InferContext& c, const Dims& shape) {
  const Dim& last = shape.back();
  if (!last.is_constant() || last.is_constant(1) || last.is_constant(2)) return OkStatus();
  return c.Error("the signal has shape " + DimsToString(shape) +
                 "; its last dimension must be 1 (real) or 2 (complex numbers)");
}

}  // namespace quern
