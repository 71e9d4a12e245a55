// Operators that give their input another shape without moving an element: Reshape, Flatten, Squeeze, Unsqueeze.
#pragma once

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"

namespace quern {

// Output 0: input 0's element type, this shape; small contents pass through.
inline Status InferView(InferContext& c, std::optional<Dims> shape) {
  const bool small = shape && shape->size() <= 1;
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(shape)));
  if (small) {
    if (auto data = PropagatedInput(c, 0)) c.SetOutputData(0, *std::move(data));
  }
  return OkStatus();
}

// Evaluation of an operator whose inference function gives the shape.
template <Status (*kInfer)(InferContext&)>
Status EvaluateView(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, kInfer));
  return ReshapeToOutput(c, 0, 0, outputs.shape(0));
}

// `rank` unknown extents.
inline Dims UnknownDims(int64_t rank) {
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) dims.push_back(Dim::Unknown());
  return dims;
}

// The number of elements of a 1-D input, when its type says it.
inline std::optional<int64_t> KnownLength(const InferContext& c, int i) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape || shape->size() != 1 || !shape->front().is_constant()) return std::nullopt;
  return shape->front().value();
}

}  // namespace quern
