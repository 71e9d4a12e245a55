// What the operators around Fourier transforms share.
#pragma once

#include <algorithm>
#include <string>

#include "ops/common/fourier.h"
#include "ops/common/infer_common.h"
#include "ops/op.h"

namespace quern {

// The form of a DFT node.
struct DftMode {
  bool inverse, onesided;

  static DftMode Of(const Node& node) { return {node.GetInt("inverse", 0) != 0, node.GetInt("onesided", 0) != 0}; }
  bool real_output() const { return inverse && onesided; }
  // The transform's length when the node gives none, for a signal of n elements.
  Dim DefaultLength(const Dim& n) const { return real_output() ? (n - 1) * 2 : n; }
  // Elements of the output along the axis.
  Dim OutputLength(const Dim& length) const { return onesided && !inverse ? Dim::FloorDiv(length, 2) + 1 : length; }
  // Elements that are read of a signal of n elements.
  int64_t Taken(int64_t n, int64_t length) const { return std::min(n, real_output() ? length / 2 + 1 : length); }
};

// A DFT node's axis when it has no such input; before opset 20 it is an attribute.
inline int64_t DefaultDftAxis(const Node& node) { return node.opset() < 20 ? node.GetInt("axis", 1) : -2; }

// The axis of a signal of this rank made non-negative; the last dimension holds the components and is none.
inline Result<int> SignalAxis(const Node& node, int64_t axis, int rank) {
  QUERN_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(node, axis, rank));
  if (normal < rank - 1) return normal;
  return InvalidArgument(node.Describe() + ": axis " + std::to_string(axis) +
                         " is the dimension of real and imaginary parts");
}

inline bool IsOnesidedStft(const Node& node) { return node.GetInt("onesided", 1) != 0; }

// An error when the `bytes` of transforms of `length` are more than a run may take.
inline Status CheckFourierMemory(double bytes, int64_t length, const Limits& limits) {
  if (bytes <= static_cast<double>(limits.memory_bytes)) return OkStatus();
  return ResourceExhausted("a transform of length " + std::to_string(length) + " takes more than the limit of " +
                           std::to_string(limits.memory_bytes) + " bytes of memory");
}
inline Status CheckFourierMemory(const EvalContext& c, int64_t length) {
  return CheckFourierMemory(FourierTransform::MemoryBytes(length), length, c.limits()).WithContext(c.node().Describe());
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
